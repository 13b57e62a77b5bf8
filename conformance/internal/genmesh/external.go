package genmesh

import "fmt"

// external is a ServiceEntry.
type external struct {
	ns     string
	hosts  []string
	ports  []M
	object M
}

// serviceEntries makes ServiceEntries of each resolution and location.
func (g *gen) serviceEntries() {
	for i := 0; i < g.between(4, 8); i++ {
		g.serviceEntry(i)
	}
	if g.chance(60) {
		g.workloadEntries()
	}
}

// serviceEntry makes one ServiceEntry.
func (g *gen) serviceEntry(i int) {
	ns := g.namespaceOrRoot(15)
	res := pick(g, "NONE", "STATIC", "STATIC", "DNS", "DNS", "DNS_ROUND_ROBIN", "DYNAMIC_DNS")
	e := &external{ns: ns, hosts: g.externalHosts(res), ports: g.externalPorts(res)}
	spec := M{"hosts": toAny(e.hosts), "ports": toList(e.ports), "resolution": res}
	if g.chance(60) {
		spec["location"] = pick(g, "MESH_EXTERNAL", "MESH_INTERNAL")
	}
	if a := g.externalAddresses(res, len(e.hosts)); len(a) > 0 {
		spec["addresses"] = a
	}
	g.externalEndpoints(res, ns, e, spec)
	if g.chance(15) {
		spec["subjectAltNames"] = L{"spiffe://cluster.local/ns/ext/sa/ext"}
	}
	if g.families["exportto"] && g.chance(50) {
		spec["exportTo"] = g.exportList(ns, true)
	}
	e.object = g.istio("networking", "ServiceEntry", ns, fmt.Sprintf("ext-%d", i), spec)
	g.externals = append(g.externals, e)
	g.hostnames = append(g.hostnames, e.hosts...)
}

// externalHosts picks hosts from a small set, so that entries collide.
func (g *gen) externalHosts(res string) []string {
	if res == "DYNAMIC_DNS" {
		return []string{pick(g, "*.dyn.example", "*.wild.example")}
	}
	all := []string{"api.ext-1.example", "api.ext-2.example", "db.ext.example", "common.example", "deep.sub.wild.example"}
	if res == "NONE" || res == "STATIC" {
		all = append(all, "*.wild.example", "*.ext-1.example")
	}
	if len(g.services) > 0 && g.chance(20) {
		return []string{pick(g, g.services...).host()}
	}
	perm := g.r.Perm(len(all))
	out := []string{all[perm[0]]}
	if g.chance(25) {
		out = append(out, all[perm[1]])
	}
	return out
}

// externalPorts takes one or two ports.
func (g *gen) externalPorts(res string) []M {
	menu := []M{
		{"name": "http", "number": 80, "protocol": "HTTP"}, {"name": "https", "number": 443, "protocol": "HTTPS"},
		{"name": "tls", "number": 443, "protocol": "TLS"}, {"name": "tcp", "number": 9000, "protocol": "TCP"},
		{"name": "grpc", "number": 9090, "protocol": "GRPC"}, {"name": "http-alt", "number": 8080, "protocol": "HTTP"},
		{"name": "http2", "number": 8080, "protocol": "HTTP2"}, {"name": "mongo", "number": 27017, "protocol": "MONGO"},
		{"name": "db", "number": 3306, "protocol": "TCP"}, {"name": "tcp-http", "number": 80, "protocol": "TCP"},
		{"name": "unset", "number": 8443, "protocol": "TLS"},
	}
	if res == "DYNAMIC_DNS" {
		menu = []M{{"name": "http", "number": 80, "protocol": "HTTP"}, {"name": "tls", "number": 443, "protocol": "TLS"}, {"name": "grpc", "number": 9090, "protocol": "GRPC"}}
	}
	var out []M
	used := map[any]bool{}
	for i := 0; i < pick(g, 1, 1, 2); i++ {
		p := M{}
		for k, v := range pick(g, menu...) {
			p[k] = v
		}
		if used[p["number"]] {
			continue
		}
		used[p["number"]] = true
		if g.chance(20) && res != "DYNAMIC_DNS" {
			p["targetPort"] = pick(g, 8080, 8443)
		}
		out = append(out, p)
	}
	return out
}

// externalAddresses gives addresses that suit the resolution.
func (g *gen) externalAddresses(res string, hosts int) L {
	if res == "DYNAMIC_DNS" || g.chance(45) {
		return nil
	}
	n := g.r.Intn(4)
	switch {
	case n == 0 && (res == "NONE" || res == "STATIC"):
		return L{"198.51.100.0/24"}
	case n == 1:
		return L{"198.51.100.7", fmt.Sprintf("198.51.100.%d", g.between(8, 10))}
	case n == 2 && (res == "NONE" || res == "STATIC"):
		return L{"203.0.113.5/32", "198.51.100.0/25"}
	}
	return L{fmt.Sprintf("198.51.100.%d", g.between(1, 6))}
}

// externalEndpoints gives endpoints or a selector.
func (g *gen) externalEndpoints(res, ns string, e *external, spec M) {
	endpoint := func(address string) M {
		ep := M{"address": address}
		if g.chance(30) {
			ep["labels"] = M{"version": pick(g, "v1", "v2"), "app": "ext"}
		}
		if g.chance(20) {
			ep["locality"] = pick(g, "region-1/zone-a", "region-1/zone-b", "region-2")
		}
		if g.chance(20) {
			ep["weight"] = g.between(1, 5)
		}
		if g.chance(20) {
			ep["ports"] = M{str(e.ports[0]["name"]): 18080}
		}
		if g.families["topology"] && g.chance(20) {
			ep["network"] = "net-2"
		}
		return ep
	}
	switch res {
	case "STATIC":
		if g.chance(30) {
			spec["workloadSelector"] = M{"labels": M{"app": pick(g, g.workloads...).labels["app"]}}
			return
		}
		var eps L
		for i := 0; i < g.between(1, 3); i++ {
			eps = append(eps, endpoint(fmt.Sprintf("192.0.2.%d", g.between(20, 40))))
		}
		spec["endpoints"] = eps
	case "DNS":
		if g.chance(30) {
			spec["endpoints"] = L{endpoint("real-1.ext.example"), endpoint("real-2.ext.example")}
		} else if g.chance(15) {
			spec["workloadSelector"] = M{"labels": M{"app": "ext"}}
		}
	case "DNS_ROUND_ROBIN":
		if g.chance(40) {
			spec["endpoints"] = L{endpoint("real-1.ext.example")}
		}
	}
}

// workloadEntries makes WorkloadEntries that services and ServiceEntries
// select.
func (g *gen) workloadEntries() {
	for i := 0; i < g.between(1, 3); i++ {
		w := pick(g, g.workloads...)
		labels := M{"app": w.labels["app"], "version": pick(g, "v1", "v3")}
		g.istio("networking", "WorkloadEntry", w.ns, fmt.Sprintf("vm-%d", i), M{
			"address": fmt.Sprintf("192.0.2.%d", 100+i), "labels": labels, "serviceAccount": "vm",
		})
	}
	g.istio("networking", "WorkloadEntry", g.anyNamespace(), "vm-ext", M{"address": "192.0.2.120", "labels": M{"app": "ext"}})
}

// toAny converts a list of texts.
func toAny(list []string) L {
	var out L
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// exportList is an exportTo of each form.
func (g *gen) exportList(ns string, entry bool) L {
	other := g.anyNamespace()
	forms := []L{{"."}, {"*"}, {other}, {"istio-system"}}
	if other != ns {
		forms = append(forms, L{".", other}, L{ns, other})
	}
	if entry {
		forms = append(forms, L{"~"})
	}
	return pick(g, forms...)
}

// exportTo sets exportTo on Services and mesh defaults.
func (g *gen) exportTo() {
	for _, s := range g.services {
		if !g.chance(40) {
			continue
		}
		meta := s.object["metadata"].(M)
		annotations, _ := meta["annotations"].(M)
		if annotations == nil {
			annotations = M{}
			meta["annotations"] = annotations
		}
		annotations["networking.istio.io/exportTo"] = pick(g, ".", "*", "~", g.anyNamespace(), ".,"+g.anyNamespace(), g.anyNamespace()+", "+g.anyNamespace())
	}
	for _, key := range []string{"defaultServiceExportTo", "defaultVirtualServiceExportTo", "defaultDestinationRuleExportTo"} {
		if g.chance(35) {
			g.mesh[key] = pick(g, L{"."}, L{"*"}, L{g.anyNamespace()}, L{".", "istio-system"})
		}
	}
}

// anyHost is a host that a rule may name: of a service, in full or short, of
// a ServiceEntry, or of nothing.
func (g *gen) anyHost(ns string) string {
	if len(g.externals) > 0 && g.chance(25) {
		return pick(g, pick(g, g.externals...).hosts...)
	}
	if g.chance(6) || len(g.services) == 0 {
		return pick(g, "nowhere.example", "missing.shop.svc.cluster.local", "missing")
	}
	s := pick(g, g.services...)
	if s.ns == ns && g.chance(40) {
		return s.name
	}
	return s.host()
}

// find looks up a service by a host that anyHost gave.
func (g *gen) find(ns, host string) *service {
	for _, s := range g.services {
		if s.host() == host || s.ns == ns && s.name == host {
			return s
		}
	}
	return nil
}
