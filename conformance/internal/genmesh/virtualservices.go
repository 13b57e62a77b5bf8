package genmesh

import "fmt"

// virtualServices makes VirtualServices of every kind.
func (g *gen) virtualServices() {
	if g.chance(40) {
		g.delegates()
	}
	for i := 0; i < g.between(4, 9); i++ {
		g.virtualService(fmt.Sprintf("vs-%d", i))
	}
}

// virtualService makes one.
func (g *gen) virtualService(name string) {
	ns := g.namespaceOrRoot(12)
	spec := M{"hosts": g.routeHosts(ns)}
	gateways := g.routeGateways(ns)
	if gateways != nil {
		spec["gateways"] = gateways
	}
	if g.families["exportto"] && g.chance(50) {
		spec["exportTo"] = g.exportList(ns, false)
	}
	switch g.r.Intn(8) {
	case 0:
		spec["tcp"] = L{g.tcpRoute(ns)}
	case 1:
		spec["tls"] = L{g.tlsRoute(ns, spec["hosts"].(L))}
	default:
		spec["http"] = g.httpRoutes(ns)
		if g.chance(10) {
			spec["tcp"] = L{g.tcpRoute(ns)}
		}
	}
	g.istio(pick(g, "networking", "networking/v1alpha3", "networking/v1beta1"), "VirtualService", ns, name, spec)
}

// routeHosts are one or two hosts.
func (g *gen) routeHosts(ns string) L {
	host := func() string {
		switch g.r.Intn(8) {
		case 0:
			return pick(g, "made-up.example", "app.public.example", "*.public.example", "Upper.Public.example")
		case 1:
			return pick(g, "*.example", "*."+g.anyNamespace()+".svc.cluster.local")
		case 2:
			return "192.0.2.200"
		}
		return g.anyHost(ns)
	}
	out := L{host()}
	if second := host(); g.chance(25) && second != out[0] {
		out = append(out, second)
	}
	return out
}

// routeGateways is what a VirtualService is bound to; nil for the mesh.
func (g *gen) routeGateways(ns string) L {
	if len(g.gatewayRef) == 0 || g.chance(45) {
		return nil
	}
	ref := pick(g, g.gatewayRef...)
	if g.chance(30) {
		return L{"mesh", ref}
	}
	return L{ref}
}

// tcpRoute is a TCP route.
func (g *gen) tcpRoute(ns string) M {
	r := M{"route": g.weighted(ns)}
	switch g.r.Intn(4) {
	case 0:
		r["match"] = L{M{"port": pick(g, 9000, 3306, 443)}}
	case 1:
		r["match"] = L{M{"destinationSubnets": L{"198.51.100.0/24"}, "port": 9000}}
	case 2:
		r["match"] = L{M{"sourceLabels": M{"app": pick(g, g.workloads...).labels["app"]}}}
	}
	return r
}

// tlsRoute is a TLS route for one of the hosts.
func (g *gen) tlsRoute(ns string, hosts L) M {
	m := M{"sniHosts": L{hosts[0]}}
	if g.chance(60) {
		m["port"] = 443
	}
	return M{"match": L{m}, "route": g.weighted(ns)}
}

// delegates makes VirtualServices that others delegate to.
func (g *gen) delegates() {
	for i := 0; i < 2; i++ {
		ns := g.anyNamespace()
		spec := M{"http": L{
			M{"match": L{M{"uri": M{"prefix": fmt.Sprintf("/api/%d", i)}}}, "route": g.weighted(ns)},
			M{"match": L{M{"uri": M{"prefix": "/api"}}}, "route": g.weighted(ns)},
		}}
		if g.families["exportto"] && g.chance(50) {
			spec["exportTo"] = g.exportList(ns, false)
		}
		g.istio("networking", "VirtualService", ns, fmt.Sprintf("delegate-%d", i), spec)
	}
}
