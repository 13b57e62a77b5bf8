package mesh_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// pod writes a running pod with a proxy; more is metadata in flow style, env
// container variables.
func pod(namespace, name, ip, more, env, args string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s, %s}
spec:
  serviceAccountName: sa
  nodeName: n1
  containers:
  - {name: app, image: x, ports: [{name: web, containerPort: 8080, protocol: TCP}, {name: web, containerPort: 5353, protocol: UDP}]}
  - {name: istio-proxy, image: "docker.io/istio/proxyv2:1.30.1", args: [%s], env: [%s]}
status: {phase: Running, podIP: %s, podIPs: [{ip: %s}], conditions: [{type: Ready, status: "True"}]}
---
`, name, namespace, more, args, env, ip, ip)
}

const sidecarArgs = `proxy, sidecar, --domain, $(POD_NAMESPACE).svc.cluster.local`

func TestServiceTargets(t *testing.T) {
	v := only(t, pod("a", "p", "10.1.0.1", "labels: {app: p}", "", sidecarArgs)+pod("a", "bare", "10.1.0.9", "labels: {app: none}", "", sidecarArgs)+`
apiVersion: v1
kind: Service
metadata: {name: second, namespace: a}
spec:
  clusterIP: 10.80.0.1
  selector: {app: p}
  ports:
  - {name: http, port: 80, targetPort: web, protocol: TCP}
  - {name: dns, port: 53, targetPort: web, protocol: UDP}
  - {name: tcp-x, port: 90, targetPort: 9000, protocol: TCP}
  - {name: tcp-y, port: 91, targetPort: 9000, protocol: TCP}
  - {name: missing, port: 92, targetPort: nothing, protocol: TCP}
  - {name: same, port: 93, protocol: TCP}
---
apiVersion: v1
kind: Service
metadata: {name: first, namespace: a}
spec: {clusterIP: 10.80.0.2, selector: {app: p}, ports: [{name: http, port: 80, targetPort: 8081, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: elsewhere, namespace: b}
spec: {clusterIP: 10.80.0.3, selector: {app: p}, ports: [{name: http, port: 80, targetPort: 8082, protocol: TCP}]}
---
apiVersion: v1
kind: Service
metadata: {name: manual, namespace: a}
spec: {clusterIP: None, ports: [{name: tcp, port: 70, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: manual-1, namespace: a, labels: {kubernetes.io/service-name: manual}}
addressType: IPv4
ports: [{name: tcp, port: 7070, protocol: TCP}]
endpoints: [{addresses: [10.1.0.9]}, {addresses: [10.1.0.1]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own, namespace: a}
spec:
  hosts: [own.example.com]
  ports: [{number: 7000, name: tcp, protocol: TCP}, {number: 7001, name: udp, protocol: UDP}]
  resolution: STATIC
  endpoints: [{address: 10.1.0.1}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: foreign, namespace: b}
spec: {hosts: [foreign.example.com], ports: [{number: 7002, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 10.1.0.1}]}
`)
	want := map[string][]string{
		"p": {
			"first.a.svc.cluster.local 80>8081",
			"own.example.com 7000>7000", "own.example.com 7001>7001",
			"second.a.svc.cluster.local 80>8080", "second.a.svc.cluster.local 53>5353",
			"second.a.svc.cluster.local 90>9000", "second.a.svc.cluster.local 93>93",
		},
		"bare": {"manual.a.svc.cluster.local 70>7070"},
	}
	for _, p := range v.Proxies {
		var got []string
		for _, target := range p.Targets {
			got = append(got, fmt.Sprintf("%s %d>%d", target.Service.Host, target.Port.Number, target.TargetPort))
		}
		if diff := cmp.Diff(want[p.Name], got); diff != "" {
			t.Errorf("targets of %s (-want +got):\n%s", p.Name, diff)
		}
	}
}

func TestProxyMetadata(t *testing.T) {
	v := only(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: '{trustDomain: td, defaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: "true", ISTIO_META_A: mesh}}}'}
---
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: all, namespace: istio-system}
spec: {environmentVariables: {ISTIO_META_B: root}}
---
`+pod("a", "p", "10.1.0.1", `labels: {app: p, version: v1}, annotations: {proxy.istio.io/config: "interceptionMode: TPROXY\nproxyMetadata: {ISTIO_META_C: pod}"}`,
		`{name: ISTIO_META_NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: ISTIO_META_HTTP10, value: "1"}, {name: ISTIO_META_A, value: env}`, sidecarArgs)+
		pod("a", "gw", "10.1.0.2", "labels: {app: gw}", `{name: ISTIO_META_UNPRIVILEGED_POD, value: "true"}`, "proxy, router")+
		pod("a", "way", "10.1.0.3", "labels: {app: way}", "", "proxy, waypoint"))
	if len(v.Proxies) != 2 {
		t.Fatalf("%d proxies", len(v.Proxies))
	}
	gw, p := v.Proxies[0], v.Proxies[1]
	if gw.Kind != mesh.RouterProxy || !gw.Metadata.Unprivileged || gw.Version.String() != "1.30.1" || gw.Metadata.Interception != "REDIRECT" {
		t.Errorf("gateway: %+v", gw)
	}
	if p.Kind != mesh.SidecarProxy || p.Metadata.Interception != "TPROXY" || !p.Metadata.DNSCapture || !p.Metadata.HTTP10 ||
		p.Domain != "a.svc.cluster.local" || p.Node != "n1" || p.Locality != "r1/z1" || p.Cluster != "Kubernetes" || p.TrustDomain != "td" ||
		p.CanonicalName != "p" || p.CanonicalRevision != "v1" {
		t.Errorf("sidecar: %+v", p)
	}
	for key, want := range map[string]string{"A": "env", "B": "root", "C": "pod"} {
		if got := p.Metadata.Raw[key]; got != want {
			t.Errorf("metadata %s = %q, want %q", key, got, want)
		}
	}
	wantLabels := map[string]string{
		"app": "p", "version": "v1", "topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": "z1",
		"topology.istio.io/cluster": "Kubernetes", "kubernetes.io/hostname": "n1",
	}
	if diff := cmp.Diff(wantLabels, p.Labels.Map()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func istiod(name, revision string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: istio-system, labels: {app: istiod, istio.io/rev: %s}}
spec:
  template:
    metadata: {labels: {app: istiod, istio.io/rev: %s}}
    spec: {containers: [{name: discovery, image: "istio/pilot:1.31.0", args: [discovery], env: [{name: REVISION, value: %s}]}]}
---
`, name, revision, revision, revision)
}

func TestRevisions(t *testing.T) {
	m := mesh.New(read(t, istiod("istiod", "default")+istiod("istiod-canary", "canary")+`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: istio-revision-tag-prod, labels: {istio.io/tag: prod, istio.io/rev: canary, app: sidecar-injector}}
webhooks: []
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio-canary, namespace: istio-system}
data: {mesh: '{accessLogFile: /dev/stdout}'}
---
{apiVersion: v1, kind: Namespace, metadata: {name: tagged, labels: {istio.io/rev: prod}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: old, labels: {istio-injection: enabled}}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: tag, namespace: old, labels: {istio.io/rev: prod}}, spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: canary, namespace: old, labels: {istio.io/rev: canary}}, spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}}
---
{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: both, namespace: old}, spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}}
---
`+pod("tagged", "by-namespace", "10.1.0.1", "labels: {a: b}", "", sidecarArgs)+
		pod("old", "by-annotation", "10.1.0.2", `annotations: {istio.io/rev: canary}`, "", sidecarArgs)+
		pod("old", "by-namespace", "10.1.0.3", "labels: {a: b}", "", sidecarArgs)+
		pod("lost", "by-address", "10.1.0.4", "labels: {a: b}", `{name: PROXY_CONFIG, value: '{"discoveryAddress":"istiod-canary.istio-system.svc:15012"}'}`, sidecarArgs)+
		pod("lost", "nothing", "10.1.0.5", "labels: {a: b}", "", sidecarArgs)))
	got := map[string][]string{}
	for _, v := range m.Views {
		for _, p := range v.Proxies {
			got[v.Revision] = append(got[v.Revision], p.Namespace+"/"+p.Name)
		}
		for _, g := range v.Gateways {
			got[v.Revision] = append(got[v.Revision], "gateway "+g.Name)
		}
		got[v.Revision] = append(got[v.Revision], fmt.Sprint(v.Tags, v.Config.GetAccessLogFile()))
	}
	want := map[string][]string{
		"canary":  {"lost/by-address", "old/by-annotation", "tagged/by-namespace", "gateway both", "gateway canary", "[prod]/dev/stdout"},
		"default": {"lost/nothing", "old/by-namespace", "gateway both", "[]"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("views (-want +got):\n%s", diff)
	}
	assumed := 0
	for _, g := range m.Gaps {
		if g.Kind == result.Assumed && len(g.Proxies) == 1 && g.Proxies[0] == "lost/nothing" {
			assumed++
		}
	}
	if assumed != 1 {
		t.Errorf("gaps: %v", m.Gaps)
	}
}
