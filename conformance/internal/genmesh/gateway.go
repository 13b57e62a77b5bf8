package genmesh

import (
	"fmt"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// gatewayPod is a router deployment.
type gatewayPod struct {
	workload
	svc *service
}

// makeGatewayPods makes one or two routers with their Services.
func (g *gen) makeGatewayPods() {
	n := 1
	if g.families["gateways"] || g.families["flags"] {
		n = 2
	}
	for i := 0; i < n; i++ {
		ns := pick(g, system, g.namespaces[0], g.anyNamespace())
		name := fmt.Sprintf("gateway-%d", i)
		w := workload{
			ns: ns, name: name, account: name, injected: true, meta: M{}, annotations: M{}, version: report.IstioRelease,
			labels: M{
				"app": name, "istio": pick(g, "ingress", name), "service.istio.io/canonical-name": name,
				"service.istio.io/canonical-revision": "latest", "sidecar.istio.io/inject": "true",
			},
			ports: []M{{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"name": "https", "containerPort": 8443, "protocol": "TCP"}},
		}
		if g.families["gateways"] && g.chance(25) {
			w.meta["UNPRIVILEGED_POD"] = "true"
		}
		w.pods = []*pod{{name: name + "-0", ip: g.ip(), node: pick(g, g.nodes...), ready: true}}
		gw := &gatewayPod{workload: w}
		g.gateways = append(g.gateways, gw)
		gw.svc = g.gatewayService(gw)
	}
}

// gatewayService exposes a router, sometimes not on all ports.
func (g *gen) gatewayService(gw *gatewayPod) *service {
	menu := []M{
		{"name": "http2", "port": 80, "targetPort": pick[any](g, 8080, 80, "http")},
		{"name": "https", "port": 443, "targetPort": pick[any](g, 8443, 443, "https")},
		{"name": "tcp", "port": 9000, "targetPort": 9000}, {"name": "status-port", "port": 15021, "targetPort": 15021},
		{"name": "tls", "port": 15443, "targetPort": 15443},
	}
	s := &service{ns: gw.ns, name: gw.name, selector: M{"app": gw.name}}
	for _, p := range menu {
		if p["port"] == 80 || g.chance(70) {
			p["protocol"] = "TCP"
			s.ports = append(s.ports, p)
		}
	}
	ip := g.vip()
	s.object = g.add("v1", "Service", gw.ns, gw.name, M{
		"labels": M{"app": gw.name},
		"spec":   M{"type": "LoadBalancer", "clusterIP": ip, "clusterIPs": L{ip}, "selector": s.selector, "ports": toList(s.ports)},
	})
	g.services = append(g.services, s)
	g.add("discovery.k8s.io/v1", "EndpointSlice", gw.ns, gw.name+"-s0", M{
		"labels":      M{"kubernetes.io/service-name": gw.name},
		"addressType": "IPv4", "endpoints": L{endpointOf(gw.ns, gw.pods[0], false)}, "ports": resolvePorts(s.ports, gw.ports),
	})
	return s
}

// gatewayConfig makes Gateways that collide on ports and hosts.
func (g *gen) gatewayConfig() {
	for i := 0; i < g.between(2, 5); i++ {
		gw := pick(g, g.gateways...)
		ns := gw.ns
		if g.chance(40) {
			ns = g.anyNamespace()
		}
		selector := pick(g, M{"istio": gw.labels["istio"]}, M{"app": gw.name}, M{"istio": "ingress"})
		var servers L
		for j := 0; j < g.between(1, 3); j++ {
			servers = append(servers, g.server(j))
		}
		spec := M{"servers": servers}
		if g.chance(92) {
			spec["selector"] = selector
		}
		name := fmt.Sprintf("gw-%d", i)
		g.istio(pick(g, "networking", "networking/v1beta1"), "Gateway", ns, name, spec)
		g.gatewayRef = append(g.gatewayRef, ns+"/"+name)
	}
	for i := 0; i < g.between(2, 5); i++ {
		g.gatewayRoute(i)
	}
}

// gatewayRoute makes a VirtualService that is bound to Gateways only.
func (g *gen) gatewayRoute(i int) {
	ns := g.anyNamespace()
	spec := M{"gateways": L{pick(g, g.gatewayRef...)}, "hosts": L{pick(g, "app.public.example", "*.public.example", "shop.public.example", "*", "tls.public.example")}}
	switch g.r.Intn(5) {
	case 0:
		spec["tcp"] = L{M{"match": L{M{"port": pick(g, 9000, 443)}}, "route": g.weighted(ns)}}
	case 1:
		if spec["hosts"].(L)[0] != "*" {
			spec["tls"] = L{M{"match": L{M{"sniHosts": spec["hosts"]}}, "route": g.weighted(ns)}}
			break
		}
		fallthrough
	default:
		spec["http"] = g.httpRoutes(ns)
	}
	g.istio("networking", "VirtualService", ns, fmt.Sprintf("public-%d", i), spec)
}

// server is one server of a Gateway.
func (g *gen) server(i int) M {
	hosts := L{pick(g, "*", "*.public.example", "app.public.example", "./*", g.anyNamespace()+"/*.public.example", "shop.public.example", "*/app.public.example")}
	if g.chance(25) {
		hosts = append(hosts, pick(g, "other.public.example", g.anyNamespace()+"/more.public.example"))
	}
	s := M{"hosts": hosts}
	port := func(number int, protocol string) {
		s["port"] = M{"number": number, "name": fmt.Sprintf("%s-%d", lower(protocol), i), "protocol": protocol}
	}
	switch g.r.Intn(9) {
	case 0, 1, 2:
		port(pick(g, 80, 80, 8081), pick(g, "HTTP", "HTTP", "HTTP2", "GRPC"))
		if g.chance(25) {
			s["tls"] = M{"httpsRedirect": true}
		}
	case 3, 4:
		port(443, "HTTPS")
		s["tls"] = pick(g, M{"mode": "SIMPLE", "credentialName": "cert-a"}, M{"mode": "MUTUAL", "credentialName": "cert-b"},
			M{"mode": "SIMPLE", "serverCertificate": "/etc/c.pem", "privateKey": "/etc/k.pem"}, M{"mode": "ISTIO_MUTUAL"},
			M{"mode": "SIMPLE", "credentialName": "cert-a", "minProtocolVersion": "TLSV1_3"},
			M{"mode": "OPTIONAL_MUTUAL", "credentialName": "cert-b"})
	case 5:
		port(443, pick(g, "TLS", "HTTPS"))
		s["tls"] = M{"mode": "PASSTHROUGH"}
	case 6:
		port(15443, "TLS")
		s["tls"] = M{"mode": "AUTO_PASSTHROUGH"}
		s["hosts"] = L{pick(g, "*.local", "*.global", "*")}
	case 7:
		port(9000, "TCP")
	case 8:
		port(pick(g, 443, 9000), "TLS")
		s["tls"] = pick(g, M{"mode": "SIMPLE", "credentialName": "cert-c"}, M{"mode": "ISTIO_MUTUAL"})
	}
	if g.chance(10) {
		s["bind"] = "10.20.9.9"
	}
	if g.chance(15) {
		s["name"] = fmt.Sprintf("server-%d", i)
	}
	return s
}

// lower is a protocol's name in small letters.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// gatewayAPI makes a Gateway of the Gateway API with routes.
func (g *gen) gatewayAPI() {
	gw := g.gateways[0]
	ns := gw.ns
	listeners := L{M{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": M{"namespaces": M{"from": pick(g, "All", "Same")}}}}
	if g.chance(50) {
		listeners = append(listeners, M{"name": "named", "port": 8081, "protocol": "HTTP", "hostname": "*.public.example", "allowedRoutes": M{"namespaces": M{"from": "All"}}})
	}
	g.add("gateway.networking.k8s.io/v1", "Gateway", ns, "api", M{"spec": M{
		"gatewayClassName": "istio", "listeners": listeners,
		"addresses": L{M{"type": "Hostname", "value": gw.svc.host()}},
	}})
	for i := 0; i < g.between(1, 3); i++ {
		s := g.plainService()
		if s == nil {
			return
		}
		rns := s.ns
		backend := M{"name": s.name, "port": g.number(s)}
		g.add("gateway.networking.k8s.io/v1", "HTTPRoute", rns, fmt.Sprintf("route-%d", i), M{"spec": M{
			"parentRefs": L{M{"name": "api", "namespace": ns}},
			"hostnames":  L{pick(g, "a.public.example", "b.public.example", "*.other.example")},
			"rules": L{M{
				"matches":     L{M{"path": M{"type": pick(g, "PathPrefix", "Exact"), "value": pick(g, "/", "/api")}}},
				"backendRefs": L{backend},
			}},
		}})
		if g.chance(40) {
			g.add("gateway.networking.k8s.io/v1", "HTTPRoute", rns, fmt.Sprintf("mesh-route-%d", i), M{"spec": M{
				"parentRefs": L{M{"kind": "Service", "group": "", "name": s.name}},
				"rules":      L{M{"backendRefs": L{backend}}},
			}})
		}
	}
}

// plainService is a service with a cluster IP and ports.
func (g *gen) plainService() *service {
	for i := 0; i < 20; i++ {
		s := pick(g, g.services...)
		if !s.headless && !s.external && len(s.ports) > 0 {
			return s
		}
	}
	return nil
}
