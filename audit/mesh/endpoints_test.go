package mesh_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// backends is a namespace with a pod, a WorkloadEntry of an address and one of a
// host name; what the tests expect of it is what istiod 1.31 sends.
const backends = `
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}
---
apiVersion: v1
kind: Pod
metadata:
  name: b1
  generateName: b-
  namespace: a
  labels: {app: b, pod-template-hash: abc}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: b-abc, controller: true, uid: x}]
spec:
  serviceAccountName: b
  nodeName: n1
  containers: [{name: app, image: x, ports: [{name: web, containerPort: 8081, protocol: TCP}]}]
status: {phase: Running, podIP: 10.1.0.2, podIPs: [{ip: 10.1.0.2}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: we1, namespace: a, labels: {app: b}}
spec: {address: 10.7.0.1, labels: {x: "1"}, serviceAccount: vm, locality: r2/z2, weight: 5}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: we2, namespace: a, labels: {app: b}}
spec: {address: vm.example.com}
---
`

func rowsOf(v *mesh.View, host string) []string {
	var out []string
	for _, e := range v.Endpoints.Of(host, "a") {
		out = append(out, fmt.Sprintf("%s:%d %s %s health=%d tls=%s workload=%s weight=%d", e.Address, e.Port, e.PortName, e.Locality, e.Health, e.TLSMode, e.Workload, e.Weight))
	}
	return out
}

func TestEndpointSlices(t *testing.T) {
	v := only(t, backends+`
apiVersion: v1
kind: Service
metadata: {name: b, namespace: a}
spec: {clusterIP: 10.80.0.2, selector: {app: b}, ports: [{name: http, port: 80, targetPort: 8081, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: b-1, namespace: a, labels: {kubernetes.io/service-name: b}}
addressType: IPv4
ports: [{name: http, port: 8081, protocol: TCP}]
endpoints:
- {addresses: [10.1.0.2], conditions: {ready: true}, targetRef: {kind: Pod, name: b1, namespace: a}}
- {addresses: [10.1.0.3], conditions: {ready: true}, targetRef: {kind: Pod, name: unknown, namespace: a}}
- {addresses: [10.9.0.3]}
- {addresses: [10.9.0.4], conditions: {ready: false, serving: false, terminating: false}}
- {addresses: [10.9.0.5], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.9.0.6], conditions: {ready: false}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: b-2, namespace: a, labels: {kubernetes.io/service-name: b}}
addressType: IPv4
ports: [{name: http, port: 8081, protocol: TCP}]
endpoints: [{addresses: [10.9.0.3], conditions: {ready: true}}]
`)
	want := []string{
		"10.1.0.2:8081 http r1/z1/ health=1 tls=disabled workload=b weight=0",
		"10.9.0.3:8081 http  health=1 tls=disabled workload= weight=0",
		"10.9.0.4:8081 http  health=2 tls=disabled workload= weight=0",
		"10.9.0.5:8081 http  health=4 tls=disabled workload= weight=0",
		"10.9.0.6:8081 http  health=4 tls=disabled workload= weight=0",
		"10.7.0.1:8081 http r2/z2 health=0 tls=istio workload=we1 weight=5",
	}
	if diff := cmp.Diff(want, rowsOf(v, "b.a.svc.cluster.local")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	pod := v.Endpoints.Of("b.a.svc.cluster.local", "a")[0]
	if pod.Identity != "spiffe://cluster.local/ns/a/sa/b" || pod.Labels.Get("topology.istio.io/cluster") != "Kubernetes" ||
		pod.Labels.Get("kubernetes.io/hostname") != "n1" || pod.Labels.Get("topology.kubernetes.io/zone") != "z1" || pod.Labels.Get("app") != "b" {
		t.Errorf("row of the pod: %+v", pod)
	}
}

func TestServiceEntryEndpoints(t *testing.T) {
	v := only(t, backends+`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: sel, namespace: a}
spec: {hosts: [sel.example.com], ports: [{number: 443, name: web, protocol: TLS}], resolution: STATIC, workloadSelector: {labels: {app: b}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: seldns, namespace: a}
spec: {hosts: [seldns.example.com], ports: [{number: 444, name: tls, protocol: TLS}], resolution: DNS, workloadSelector: {labels: {app: b}}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: multi, namespace: a}
spec:
  hosts: [multi.example.com]
  addresses: [10.50.0.1, 10.50.0.2]
  ports: [{number: 443, name: tls, protocol: TLS}, {number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  resolution: STATIC
  endpoints: [{address: 1.1.1.1, ports: {http: 8888}}, {address: 1.1.1.2, weight: 3}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: socket, namespace: a}
spec: {hosts: [socket.example.com], ports: [{number: 443, name: tls, protocol: TLS}], resolution: STATIC, endpoints: [{address: "unix:///run/x", weight: 3}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dns, namespace: a}
spec: {hosts: [dns.example.com], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: rr, namespace: a}
spec: {hosts: [rr.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS_ROUND_ROBIN, endpoints: [{address: one.example.com}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: none, namespace: a}
spec: {hosts: [none.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: NONE}
`)
	multi := []string{
		"1.1.1.1:443 tls  health=0 tls=disabled workload=multi-0 weight=0",
		"1.1.1.1:8888 http  health=0 tls=disabled workload=multi-0 weight=0",
		"1.1.1.2:443 tls  health=0 tls=disabled workload=multi-1 weight=3",
		"1.1.1.2:8080 http  health=0 tls=disabled workload=multi-1 weight=3",
	}
	for host, want := range map[string][]string{
		"sel.example.com": {
			"10.1.0.2:8081 web r1/z1/ health=1 tls=disabled workload=b weight=0",
			"10.7.0.1:443 web r2/z2 health=0 tls=istio workload=we1 weight=5",
		},
		"seldns.example.com": {
			"10.1.0.2:444 tls r1/z1/ health=1 tls=disabled workload=b weight=0",
			"10.7.0.1:444 tls r2/z2 health=0 tls=istio workload=we1 weight=5",
			"vm.example.com:444 tls  health=0 tls=disabled workload=we2 weight=0",
		},
		"multi.example.com":  append(append([]string{}, multi...), multi...), // once for each address, as istiod does
		"dns.example.com":    {"dns.example.com:8080 http  health=0 tls=disabled workload=dns weight=0"},
		"rr.example.com":     {"one.example.com:80 http  health=0 tls=disabled workload=rr-0 weight=0"},
		"socket.example.com": {"/run/x:0 tls  health=0 tls=disabled workload=socket-0 weight=3"},
		"none.example.com":   nil,
	} {
		if diff := cmp.Diff(want, rowsOf(v, host)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", host, diff)
		}
	}
}

func TestHiddenServiceHasNoEndpoints(t *testing.T) {
	service := func(name, selector string) string {
		return `
apiVersion: v1
kind: Service
metadata: {name: ` + name + `, namespace: a, annotations: {networking.istio.io/exportTo: "~"}}
spec: {clusterIP: 10.80.0.2, ` + selector + ` ports: [{name: http, port: 80, targetPort: 8081, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ` + name + `-1, namespace: a, labels: {kubernetes.io/service-name: ` + name + `}}
addressType: IPv4
ports: [{name: http, port: 8081, protocol: TCP}]
endpoints: [{addresses: [10.9.0.3]}]
---
`
	}
	v := only(t, backends+service("manual", "")+service("mixed", "selector: {app: b},"))
	if rows := rowsOf(v, "manual.a.svc.cluster.local"); rows != nil {
		t.Errorf("rows: %q", rows)
	}
	want := []string{
		"10.9.0.3:8081 http  health=1 tls=disabled workload= weight=0",
		"10.7.0.1:8081 http r2/z2 health=0 tls=istio workload=we1 weight=5",
	}
	if diff := cmp.Diff(want, rowsOf(v, "mixed.a.svc.cluster.local")); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// Istiod keeps the endpoints of a port number once for each host and namespace:
// a younger ServiceEntry over a Service takes the number for its own port name.
func TestEndpointsByPortAreShared(t *testing.T) {
	v := only(t, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: a, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {clusterIP: None, ports: [{name: tls-x, port: 443, protocol: TCP}, {name: http, port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: a, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: tls-x, port: 443, protocol: TCP}, {name: http, port: 80, protocol: TCP}]
endpoints: [{addresses: [10.9.0.3]}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: a, creationTimestamp: "2024-01-02T00:00:00Z"}
spec: {hosts: [web.a.svc.cluster.local], ports: [{number: 443, name: https, protocol: HTTPS}], resolution: DNS}
`)
	s := v.Service("web.a.svc.cluster.local", "a")
	for port, want := range map[int]string{443: "web.a.svc.cluster.local", 80: "10.9.0.3"} {
		rows := v.EndpointsByPort(s, port)
		if len(rows) != 1 || rows[0].Address != want {
			t.Errorf("port %d: %v, want one row of %s", port, rows, want)
		}
	}
}
