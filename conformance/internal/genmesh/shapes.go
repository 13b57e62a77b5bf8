package genmesh

import (
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// shapes are the meshes that Istio measures its generators with (Istio
// pilot/pkg/xds/bench_test.go and testdata/benchmarks), and a few in their
// manner, each with n services: built here anew, around one sidecar and one
// router.
var shapes = map[string]func(g *gen, n int){
	"gateways":                    func(g *gen, n int) { g.shapeGateways(n, false) },
	"gateways-shared":             func(g *gen, n int) { g.shapeGateways(n, true) },
	"knative-gateway":             (*gen).shapeKnative,
	"empty":                       func(g *gen, n int) { g.shapeServices(n, M{"addresses": true}, fourPorts...) },
	"http":                        func(g *gen, n int) { g.shapeServices(n, M{"addresses": true}, shapePort("http", 80, "HTTP")) },
	"tcp":                         func(g *gen, n int) { g.shapeServices(n, M{"addresses": true}, shapePort("tcp", 7070, "TCP")) },
	"tls":                         func(g *gen, n int) { g.shapeServices(n, M{"addresses": true}, shapePort("tls", 7070, "TLS")) },
	"auto":                        func(g *gen, n int) { g.shapeServices(n, M{"addresses": true}, shapePort("auto", 7070, "")) },
	"strict":                      func(g *gen, _ int) { g.shapePeer("STRICT") },
	"disabled":                    func(g *gen, _ int) { g.shapePeer("DISABLE") },
	"externalname":                (*gen).shapeExternalName,
	"headless":                    (*gen).shapeHeadless,
	"virtualservice":              (*gen).shapeVirtualServices,
	"serviceentry-workloadentry":  (*gen).shapeWorkloadEntries,
	"telemetry-api":               func(g *gen, n int) { g.shapeTelemetry(n, false) },
	"telemetry-api-providers":     func(g *gen, n int) { g.shapeTelemetry(n, true) },
	"authorizationpolicy":         (*gen).shapeAuthorization,
	"peerauthentication":          (*gen).shapePeerAuthentication,
	"destinationrule-subsets":     (*gen).shapeSubsets,
	"gateways-filtered":           (*gen).shapeFiltered,
	"sidecar-scoped":              (*gen).shapeSidecar,
	"serviceentry-dns-unassigned": func(g *gen, n int) { g.shapeServices(n, M{"resolution": "DNS"}, fourPorts...) },
}

// fourPorts has one of each kind of protocol.
var fourPorts = []M{shapePort("http", 80, "HTTP"), shapePort("tcp", 7070, "TCP"), shapePort("https", 443, "HTTPS"), shapePort("auto", 9090, "")}

func shapePort(name string, number int, protocol string) M {
	return M{"name": name, "number": number, "protocol": protocol}
}

// ShapeNames lists the shapes in order.
func ShapeNames() []string {
	return append(sortedKeys(shapes), "flags-0", "flags-1", "flags-2", "flags-3")
}

// flagShape is a random mesh with every fourth of the variables that random
// meshes set at times.
func flagShape(part string) (*Mesh, error) {
	n, err := strconv.Atoi(part)
	if err != nil || n < 0 || n > 3 {
		return nil, fmt.Errorf("no shape flags-%s", part)
	}
	families := []string{"services", "headless", "serviceentries", "virtualservices", "destinationrules", "gateways", "sidecars", "security", "telemetry", "proxies"}
	m := generate(int64(1000+n), families, func(g *gen) {
		for i, name := range slices.Concat(sortedKeys(flagMenu), sortedKeys(rareMenu)) {
			value, ok := flagMenu[name]
			if !ok {
				value = rareMenu[name]
			}
			if i%4 == n {
				g.istiodEnv[name] = value
			}
		}
	})
	m.Name = "shape-flags-" + part
	return m, nil
}

// Shape makes the mesh of a shape, with n services or policies.
func Shape(name string, n int) (*Mesh, error) {
	if part, ok := strings.CutPrefix(name, "flags-"); ok {
		return flagShape(part)
	}
	build, ok := shapes[name]
	if !ok {
		return nil, fmt.Errorf("no shape %q", name)
	}
	g := newGen(rand.New(rand.NewSource(1)))
	g.namespaces = []string{"default", "gateway"}
	for _, ns := range append([]string{system}, g.namespaces...) {
		g.add("v1", "Namespace", "", ns, M{"labels": M{"kubernetes.io/metadata.name": ns, "istio-injection": "enabled"}})
	}
	g.nodes = []string{"node-1"}
	g.add("v1", "Node", "", "node-1", M{"labels": M{"topology.kubernetes.io/region": "region-1", "topology.kubernetes.io/zone": "zone-a"}})
	w := &workload{
		ns: "default", name: "proxy", account: "default", injected: true, meta: M{}, annotations: M{}, version: report.IstioRelease,
		labels: M{"app": "proxy", "security.istio.io/tlsMode": "istio"}, pods: []*pod{{name: "proxy-0", ip: g.ip(), node: "node-1", ready: true}},
	}
	router := &gatewayPod{workload: workload{
		ns: "gateway", name: "router", account: "router", injected: true, meta: M{}, annotations: M{}, version: report.IstioRelease,
		labels: M{"istio.io/benchmark": "true"}, pods: []*pod{{name: "router-0", ip: g.ip(), node: "node-1", ready: true}},
	}}
	g.workloads, g.gateways = []*workload{w}, []*gatewayPod{router}
	build(g, n)
	g.makePods()
	g.makeControlPlane()
	return &Mesh{Name: "shape-" + name, Families: []string{name}, Objects: g.out}, nil
}

// own puts the sidecar behind a service with the ports.
func (g *gen) own(ports ...M) {
	g.istio("networking", "ServiceEntry", "default", "proxy-service-instance", M{
		"hosts": L{"example.com"}, "ports": toList(ports), "resolution": "STATIC", "location": "MESH_INTERNAL",
		"endpoints": L{M{"address": g.workloads[0].pods[0].ip, "labels": M{"security.istio.io/tlsMode": "istio"}}},
	})
}

// behindRouter puts the router behind a service with the ports.
func (g *gen) behindRouter(name, host string, ports ...M) {
	g.istio("networking", "ServiceEntry", "gateway", name, M{
		"hosts": L{host}, "ports": toList(ports), "resolution": "STATIC",
		"endpoints": L{M{"address": g.gateways[0].pods[0].ip, "labels": M{"istio.io/benchmark": "true"}}},
	})
}

// numbered is a host of the shapes.
func numbered(i int) string { return fmt.Sprintf("random-%d.host.example", i) }

// shapeServices makes n services with the ports; of the settings, "addresses"
// gives each one of its own.
func (g *gen) shapeServices(n int, settings M, ports ...M) {
	g.own(ports...)
	for i := range n {
		spec := M{
			"hosts": L{numbered(i)}, "ports": toList(ports), "resolution": "STATIC", "location": "MESH_INTERNAL",
			"endpoints": L{M{"address": fmt.Sprintf("192.0.2.%d", i%250+1), "labels": M{"security.istio.io/tlsMode": "istio"}}},
		}
		for k, v := range settings {
			spec[k] = v
		}
		if spec["addresses"] != nil {
			spec["addresses"] = L{fmt.Sprintf("198.18.%d.%d", i/250, i%250+1)}
		}
		if spec["resolution"] == "DNS" {
			delete(spec, "endpoints")
		}
		g.istio("networking", "ServiceEntry", "default", fmt.Sprintf("service-%d", i), spec)
	}
}

// shapeGateways makes n Gateways, or one that all VirtualServices share.
func (g *gen) shapeGateways(n int, shared bool) {
	g.behindRouter("router-service-instance", "router.example", shapePort("http", 80, "HTTP"), shapePort("https", 443, "HTTPS"))
	hosts := L{numbered(1), numbered(2), numbered(3)}
	if shared {
		g.shapeGateway("gateway", hosts)
	}
	for i := range n {
		match := L{}
		if shared {
			for _, letter := range []string{"a", "b", "c", "d", "e", "f"} {
				match = append(match, M{"uri": M{"prefix": fmt.Sprintf("/route-%s-%d", letter, i)}})
			}
		} else {
			hosts = L{fmt.Sprintf("random-a-%d.host.example", i), fmt.Sprintf("random-b-%d.host.example", i), fmt.Sprintf("random-c-%d.host.example", i)}
			match = L{M{"uri": M{"prefix": fmt.Sprintf("/route-%d", i)}}}
			g.shapeGateway(fmt.Sprintf("gateway-%d", i), hosts)
		}
		to := "gateway/gateway"
		if !shared {
			to += fmt.Sprintf("-%d", i)
		}
		g.istio("networking", "VirtualService", "gateway", fmt.Sprintf("vs-%d", i), M{
			"hosts": hosts, "gateways": L{to},
			"http": L{M{"match": match, "route": L{M{"destination": M{"host": numbered(i)}}}}},
		})
	}
	g.shapeServices(n, M{"location": "MESH_EXTERNAL"}, shapePort("http", 80, "HTTP"))
}

// shapeGateway makes a Gateway that serves hosts with and without TLS.
func (g *gen) shapeGateway(name string, hosts L) {
	g.istio("networking", "Gateway", "gateway", name, M{"selector": M{"istio.io/benchmark": "true"}, "servers": L{
		M{"port": shapePort("http", 80, "HTTP"), "hosts": hosts},
		M{"port": shapePort("https", 443, "HTTPS"), "hosts": hosts, "tls": M{"mode": "ISTIO_MUTUAL"}},
	}})
}

// shapeKnative makes the two Gateways and the VirtualServices that Knative
// makes of n services.
func (g *gen) shapeKnative(n int) {
	g.behindRouter("external", "ingress.gateway.svc.cluster.local", M{"name": "http", "number": 80, "targetPort": 8080, "protocol": "HTTP"})
	g.behindRouter("internal", "local.gateway.svc.cluster.local", M{"name": "http", "number": 80, "targetPort": 8081, "protocol": "HTTP"})
	for i, name := range []string{"knative-ingress-gateway", "knative-local-gateway"} {
		g.istio("networking", "Gateway", "gateway", name, M{"selector": M{"istio.io/benchmark": "true"}, "servers": L{
			M{"hosts": L{"*"}, "port": shapePort("http", []int{80, 8081}[i], "HTTP")},
		}})
	}
	for i := range n {
		service := fmt.Sprintf("hello-%d", i)
		to := func(gateway, prefix string, override bool) M {
			match := M{"authority": M{"prefix": prefix}, "gateways": L{"gateway/" + gateway}}
			r := M{"match": L{match}, "route": L{M{
				"destination": M{"host": service + ".default.svc.cluster.local", "port": M{"number": 80}}, "weight": 100,
				"headers": M{"request": M{"set": M{"Knative-Serving-Namespace": "default", "Knative-Serving-Revision": service}}},
			}}}
			if override {
				match["headers"] = M{"K-Network-Hash": M{"exact": "override"}}
				r["headers"] = M{"request": M{"set": M{"K-Network-Hash": "0123456789abcdef0123456789abcdef"}}}
			}
			return r
		}
		g.istio("networking", "VirtualService", "default", fmt.Sprintf("hello-ingress-%d", i), M{
			"gateways": L{"gateway/knative-ingress-gateway", "gateway/knative-local-gateway"},
			"hosts":    L{service + ".default", service + ".default.external.domain", service + ".default.svc", service + ".default.svc.cluster.local"},
			"http": L{
				to("knative-local-gateway", service+".default", true), to("knative-local-gateway", service+".default", false),
				to("knative-ingress-gateway", service+".default.external.domain", true), to("knative-ingress-gateway", service+".default.external.domain", false),
			},
		})
		g.shapeService("default", service, M{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080})
	}
}
