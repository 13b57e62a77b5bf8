package overlay_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/overlay"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func read(t *testing.T, name, text string) *load.Result {
	t.Helper()
	r, err := load.Bytes(context.Background(), name, []byte(text), "shop")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		t.Errorf("%s:%d: %s", d.Source.File, d.Source.Line, d.Text)
	}
	return r
}

// lay lays files on a mesh that is as a cluster has it.
func lay(t *testing.T, cluster, files string, gone ...overlay.Key) *snapshot.Snapshot {
	t.Helper()
	return overlay.Apply(read(t, "base", cluster).Snapshot(), read(t, "head", files), overlay.Options{Delete: gone})
}

// cluster is what an API server (v1.37) and istiod 1.31 gave back for objects
// that were applied, its endpoint slice controller and injection included.
const cluster = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, creationTimestamp: "2026-01-01T00:00:00Z", labels: {istio-injection: enabled, kubernetes.io/metadata.name: shop}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z", resourceVersion: "17", uid: 0d9c}
spec:
  type: NodePort
  clusterIP: 10.0.0.7
  clusterIPs: [10.0.0.7, "fd00::7"]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: PreferDualStack
  internalTrafficPolicy: Cluster
  externalTrafficPolicy: Cluster
  sessionAffinity: None
  selector: {app: web}
  ports: [{name: http, port: 80, protocol: TCP, targetPort: 8080, nodePort: 30080}]
---
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: shop, creationTimestamp: "2026-01-02T00:00:00Z"}
spec:
  type: ClusterIP
  clusterIP: None
  clusterIPs: [None]
  selector: {app: web}
  ports: [{name: tcp, port: 9000, protocol: TCP, targetPort: 9000}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, creationTimestamp: "2026-01-03T00:00:00Z"}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: v1}}
    spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 8080, protocol: TCP}]}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-5d4, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: a, controller: true}]}
spec:
  replicas: 2
  selector: {matchLabels: {app: web, pod-template-hash: 5d4}}
  template:
    metadata: {labels: {app: web, version: v1, pod-template-hash: 5d4}}
    spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: v1
kind: Pod
metadata: &web1
  name: web-5d4-aaaaa
  generateName: web-5d4-
  namespace: shop
  creationTimestamp: "2026-01-04T00:00:00Z"
  labels: {app: web, version: v1, pod-template-hash: 5d4, security.istio.io/tlsMode: istio}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4, uid: b, controller: true}]
spec:
  nodeName: n1
  serviceAccountName: default
  containers:
  - {name: web, image: "web:1", ports: [{containerPort: 8080, protocol: TCP}]}
  - {name: istio-proxy, image: "proxyv2:1.31.0", env: [{name: ISTIO_META_MESH_ID, value: injected}]}
status: {phase: Running, podIP: 10.1.0.5, podIPs: [{ip: 10.1.0.5}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-5d4-bbbbb
  generateName: web-5d4-
  namespace: shop
  creationTimestamp: "2026-01-04T00:00:00Z"
  labels: {app: web, version: v1, pod-template-hash: 5d4, security.istio.io/tlsMode: istio}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d4, uid: b, controller: true}]
spec:
  nodeName: n2
  serviceAccountName: default
  containers:
  - {name: web, image: "web:1", ports: [{containerPort: 8080, protocol: TCP}]}
  - {name: istio-proxy, image: "proxyv2:1.31.0", env: [{name: ISTIO_META_MESH_ID, value: injected}]}
status: {phase: Running, podIP: 10.1.0.6, podIPs: [{ip: 10.1.0.6}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-x7k2p, namespace: shop, labels: {kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.1.0.5], nodeName: n1, conditions: {ready: true, serving: true, terminating: false}, targetRef: {kind: Pod, namespace: shop, name: web-5d4-aaaaa}}
- {addresses: [10.1.0.6], nodeName: n2, conditions: {ready: true, serving: true, terminating: false}, targetRef: {kind: Pod, namespace: shop, name: web-5d4-bbbbb}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: shop, creationTimestamp: "2026-01-05T00:00:00Z"}
spec:
  hosts: [a.example, b.example]
  ports: [{number: 5432, name: tcp, protocol: TLS}]
  resolution: DNS
status:
  addresses: [{host: a.example, value: 240.240.7.1}, {host: a.example, value: "2001:2::71"}, {host: b.example, value: 240.240.7.2}, {host: b.example, value: "2001:2::72"}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm, namespace: shop, creationTimestamp: "2026-01-05T00:00:00Z", annotations: {proxy.istio.io/health-checks-enabled: "true"}}
spec: {address: 10.9.0.1}
status: {conditions: [{type: Healthy, status: "True"}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop, creationTimestamp: "2026-01-06T00:00:00Z"}
spec: {egress: [{hosts: ["./*"]}]}
`

// TestReapplied: the files of which the cluster was made change nothing.
func TestReapplied(t *testing.T) {
	const files = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: shop}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: tcp, port: 9000}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: v1}}
    spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 8080}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: shop}
spec:
  hosts: [a.example, b.example]
  ports: [{number: 5432, name: tcp, protocol: TLS}]
  resolution: DNS
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm, namespace: shop, annotations: {proxy.istio.io/health-checks-enabled: "true"}}
spec: {address: 10.9.0.1}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ["./*"]}]}
`
	have := lay(t, cluster, files)
	want := read(t, "base", cluster).Snapshot()
	if diff := cmp.Diff(want, have, protocmp.Transform(), cmpopts.IgnoreFields(snapshot.Meta{}, "Source"), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if have.Sidecars[0].Source.File != "head" || have.Pods[0].Source.File != "base" {
		t.Errorf("sources: %v, %v", have.Sidecars[0].Source, have.Pods[0].Source)
	}
}

// TestNewIsYounger: what the cluster does not have is younger than all it has,
// and gets what is free there.
func TestNewIsYounger(t *testing.T) {
	have := lay(t, cluster, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: aaa, namespace: shop}
spec: {hosts: [c.example], ports: [{number: 5432, name: tcp, protocol: TCP}], resolution: DNS}
---
apiVersion: v1
kind: Service
metadata: {name: aaa, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 81, targetPort: 8080}]}
`)
	entry := have.ServiceEntries[0]
	if entry.Name != "aaa" || entry.Created != have.Sidecars[0].Created+1 {
		t.Errorf("the new entry is from %d, the youngest object before it from %d", entry.Created, have.Sidecars[0].Created)
	}
	if want := []snapshot.AllocatedAddress{{Host: "c.example", Address: "240.240.0.1"}, {Host: "c.example", Address: "2001:2::1"}}; !cmp.Equal(want, entry.Allocated) {
		t.Error(cmp.Diff(want, entry.Allocated))
	}
	if ip := have.Services[0].Spec.ClusterIP; ip != "10.96.0.1" {
		t.Errorf("the new Service has %q", ip)
	}
	slice := have.Slices[0]
	if slice.Service != "aaa" || len(slice.Endpoints) != 2 || slice.Endpoints[1].Addresses[0] != "10.1.0.6" || slice.Ports[0].Port != 8080 {
		t.Errorf("the new Service's endpoints: %+v", slice)
	}
	if len(have.Slices) != 2 || have.Slices[1].Name != "web-x7k2p" {
		t.Error("the endpoints that were there are not as they were")
	}
	if len(have.Pods) != 2 || !have.Pods[0].Ready {
		t.Errorf("pods: %+v", have.Pods)
	}
}

// TestEntryHostAdded: hosts that stay keep their addresses, a new one gets its own.
func TestEntryHostAdded(t *testing.T) {
	have := lay(t, cluster, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: shop}
spec: {hosts: [b.example, c.example], ports: [{number: 5432, name: tcp, protocol: TLS}], resolution: DNS}
`)
	want := []snapshot.AllocatedAddress{
		{Host: "b.example", Address: "240.240.7.2"}, {Host: "b.example", Address: "2001:2::72"},
		{Host: "c.example", Address: "240.240.0.1"}, {Host: "c.example", Address: "2001:2::1"},
	}
	if diff := cmp.Diff(want, have.ServiceEntries[0].Allocated); diff != "" {
		t.Error(diff)
	}
}

const changedTemplate = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: v2}}
    spec: {containers: [{name: web, image: "web:2", ports: [{containerPort: 8080}]}]}
`

// TestTemplateChanged: the pods are predicted anew with the proxies, nodes and
// addresses of those that they replace, and the endpoints follow them.
func TestTemplateChanged(t *testing.T) {
	have := lay(t, cluster, changedTemplate)
	if len(have.Pods) != 3 {
		t.Fatalf("%d pods", len(have.Pods))
	}
	for i, want := range []struct{ ip, node string }{{"10.1.0.5", "n1"}, {"10.1.0.6", "n2"}, {"10.244.0.1", "n2"}} {
		p := have.Pods[i]
		if p.IPs[0] != want.ip || p.Node != want.node || p.Labels["version"] != "v2" || !p.Assumed || p.Proxy == nil || p.Proxy.Env[0].Value != "injected" {
			t.Errorf("pod %d: %+v", i, p)
		}
		if !strings.HasPrefix(p.Name, "web-") || p.Owner.Kind != "ReplicaSet" {
			t.Errorf("pod %d is %s of %v", i, p.Name, p.Owner)
		}
	}
	addresses := map[string][]string{}
	for _, s := range have.Slices {
		for _, e := range s.Endpoints {
			addresses[s.Service] = append(addresses[s.Service], e.Addresses[0]+" "+e.TargetName[:4])
		}
	}
	all := []string{"10.1.0.5 web-", "10.1.0.6 web-", "10.244.0.1 web-"}
	if diff := cmp.Diff(map[string][]string{"web": all, "peers": all}, addresses); diff != "" {
		t.Error(diff)
	}
}

// TestScaled: pods that stay are as they were.
func TestScaled(t *testing.T) {
	scale := func(n string) string {
		return strings.NewReplacer("v2", "v1", "web:2", "web:1", "replicas: 3", "replicas: "+n).Replace(changedTemplate)
	}
	up := lay(t, cluster, scale("3"))
	if len(up.Pods) != 3 {
		t.Fatalf("%d pods", len(up.Pods))
	}
	var made []string
	for _, p := range up.Pods {
		if p.Assumed {
			made = append(made, p.IPs[0]+" "+p.Node)
		}
	}
	if diff := cmp.Diff([]string{"10.244.0.1 n2"}, made); diff != "" {
		t.Error(diff)
	}
	down := lay(t, cluster, scale("1"))
	if len(down.Pods) != 1 || down.Pods[0].Name != "web-5d4-aaaaa" {
		t.Errorf("pods: %+v", down.Pods)
	}
	for _, s := range down.Slices {
		if len(s.Endpoints) != 1 || s.Endpoints[0].Addresses[0] != "10.1.0.5" {
			t.Errorf("%s: %+v", s.Name, s.Endpoints)
		}
	}
}

// TestDeleted: what hangs on an object goes with it.
func TestDeleted(t *testing.T) {
	have := lay(t, cluster, "", overlay.Key{Kind: "Deployment", Namespace: "shop", Name: "web"}, overlay.Key{Kind: "Sidecar", Namespace: "shop", Name: "default"})
	if len(have.Pods) != 0 || len(have.Workloads) != 0 || len(have.Sidecars) != 0 || len(have.Services) != 2 {
		t.Errorf("left: %d pods, %d workloads, %d Sidecars, %d Services", len(have.Pods), len(have.Workloads), len(have.Sidecars), len(have.Services))
	}
	for _, s := range have.Slices {
		if len(s.Endpoints) > 0 {
			t.Errorf("%s has endpoints: %+v", s.Name, s.Endpoints)
		}
	}
	have = lay(t, cluster, "", overlay.Key{Kind: "Service", Namespace: "shop", Name: "web"})
	if len(have.Services) != 1 || len(have.Slices) != 0 || len(have.Pods) != 2 {
		t.Errorf("left: %d Services, %d slices, %d pods", len(have.Services), len(have.Slices), len(have.Pods))
	}
	have = lay(t, cluster, "", overlay.Key{Kind: "Namespace", Name: "shop"})
	if len(have.Namespaces) != 0 || len(have.Services) != 0 || len(have.ServiceEntries) != 0 || len(have.Slices) != 0 {
		t.Errorf("left: %+v", have)
	}
}

// TestServiceChanged follows the API server: an address stays when the file
// gives none, a headless Service stays headless, an ExternalName has no address.
func TestServiceChanged(t *testing.T) {
	have := lay(t, cluster, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {type: ExternalName, externalName: web.example}
---
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: shop}
spec: {selector: {app: web, version: v2}, ports: [{name: tcp, port: 9001}]}
`)
	peers, web := have.Services[0].Spec, have.Services[1].Spec
	if peers.ClusterIP != "None" || peers.Ports[0].TargetPort.IntVal != 9001 {
		t.Errorf("peers: %+v", peers)
	}
	if web.ClusterIP != "" || len(web.ClusterIPs) != 0 || web.Ports != nil {
		t.Errorf("web: %+v", web)
	}
	if len(have.Slices) != 0 {
		t.Errorf("endpoints: %+v", have.Slices)
	}
}

// TestBaseStays: laying files on a mesh does not change it.
func TestBaseStays(t *testing.T) {
	base := read(t, "base", cluster).Snapshot()
	overlay.Apply(base, read(t, "head", changedTemplate), overlay.Options{Delete: []overlay.Key{{Kind: "Service", Namespace: "shop", Name: "web"}}})
	if diff := cmp.Diff(read(t, "base", cluster).Snapshot(), base, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// TestOnManifests: on a mesh that was itself completed, unchanged files change
// nothing.
func TestOnManifests(t *testing.T) {
	const files = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: shop}
spec:
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "web:1", ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {minReplicas: 4, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}}
`
	whole := read(t, "files", files)
	complete.Apply(whole, complete.Options{})
	base := whole.Snapshot()
	if len(base.Pods) != 4 {
		t.Fatalf("%d pods", len(base.Pods))
	}
	have := overlay.Apply(base, read(t, "files", files), overlay.Options{})
	if diff := cmp.Diff(base, have, protocmp.Transform(), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
