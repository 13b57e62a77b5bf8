package genmesh

import "fmt"

// sidecars makes Sidecars of every shape.
func (g *gen) sidecars() {
	if g.chance(50) {
		g.istio("networking", "Sidecar", system, "default", M{"egress": g.egress(system)})
	}
	for _, ns := range g.namespaces {
		if g.chance(70) {
			g.istio("networking", "Sidecar", ns, "default", g.sidecarSpec(ns))
		}
	}
	for i := 0; i < g.between(0, 2); i++ {
		w := pick(g, g.workloads...)
		spec := g.sidecarSpec(w.ns)
		spec["workloadSelector"] = M{"labels": M{"app": w.labels["app"]}}
		if g.chance(40) {
			spec["ingress"] = g.ingress(w)
		}
		g.istio("networking", "Sidecar", w.ns, fmt.Sprintf("for-%s-%d", w.labels["app"], i), spec)
	}
}

// sidecarSpec is a Sidecar without selector.
func (g *gen) sidecarSpec(ns string) M {
	spec := M{}
	if g.chance(90) {
		spec["egress"] = g.egress(ns)
	}
	if g.chance(30) {
		spec["outboundTrafficPolicy"] = M{"mode": pick(g, "REGISTRY_ONLY", "ALLOW_ANY")}
	}
	if len(spec) == 0 {
		spec["outboundTrafficPolicy"] = M{"mode": "ALLOW_ANY"}
	}
	return spec
}

// egress is one or more egress listeners, the catch-all last.
func (g *gen) egress(ns string) L {
	var out L
	used := map[int]bool{}
	for i := 0; i < pick(g, 0, 0, 1, 2) && len(g.services) > 0; i++ {
		s := pick(g, g.services...)
		number := g.number(s)
		if used[number] {
			continue
		}
		used[number] = true
		l := M{
			"port":  M{"number": number, "name": fmt.Sprintf("e%d", number), "protocol": pick(g, "HTTP", "TCP", "GRPC", "HTTPS", "HTTP_PROXY")},
			"hosts": g.egressHosts(ns),
		}
		if g.chance(30) {
			l["bind"] = pick(g, "127.0.0.1", "127.0.0.9")
			l["captureMode"] = "NONE"
		}
		out = append(out, l)
	}
	if len(out) == 0 || g.chance(80) {
		out = append(out, M{"hosts": g.egressHosts(ns)})
	}
	return out
}

// egressHosts are hosts of every form.
func (g *gen) egressHosts(ns string) L {
	forms := []string{"./*", "*/*", system + "/*", g.anyNamespace() + "/*", "~/*", "*/*.svc.cluster.local", "*/*.example"}
	if len(g.services) > 0 {
		s := pick(g, g.services...)
		forms = append(forms, s.ns+"/"+s.host(), "*/"+s.host(), "./"+s.host(), s.ns+"/*."+s.ns+".svc.cluster.local")
	}
	if len(g.externals) > 0 {
		e := pick(g, g.externals...)
		forms = append(forms, "*/"+e.hosts[0], e.ns+"/"+e.hosts[0], "*/deep.sub.wild.example")
	}
	var out L
	used := map[string]bool{}
	for i := 0; i < pick(g, 1, 1, 2, 3); i++ {
		f := pick(g, forms...)
		if !used[f] {
			used[f] = true
			out = append(out, f)
		}
	}
	return out
}

// ingress is a list of ingress listeners.
func (g *gen) ingress(w *workload) L {
	l := M{
		"port":            M{"number": pick(g, 8080, 9080), "name": "in", "protocol": pick(g, "HTTP", "TCP", "GRPC")},
		"defaultEndpoint": pick(g, "127.0.0.1:8080", "0.0.0.0:9090", "unix:///var/run/app.sock"),
	}
	if g.chance(30) {
		l["bind"], l["captureMode"] = "0.0.0.0", "NONE"
	}
	return L{l}
}
