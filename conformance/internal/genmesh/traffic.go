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

// destinationRules makes rules that overlap across namespaces.
func (g *gen) destinationRules() {
	for i := 0; i < g.between(4, 9); i++ {
		ns := g.namespaceOrRoot(20)
		host := g.anyHost(ns)
		if g.chance(20) {
			host = pick(g, "*.svc.cluster.local", "*."+g.anyNamespace()+".svc.cluster.local", "*.example", "*.local")
		}
		spec := M{"host": host}
		if g.chance(60) {
			spec["trafficPolicy"] = g.trafficPolicy()
		}
		if g.chance(60) {
			spec["subsets"] = g.subsetList()
		}
		selector := g.chance(12)
		if selector {
			spec["workloadSelector"] = M{"matchLabels": M{"app": pick(g, g.workloads...).labels["app"]}}
		}
		if g.families["exportto"] && g.chance(60) && !selector {
			spec["exportTo"] = g.exportList(ns, false)
		}
		g.istio("networking", "DestinationRule", ns, fmt.Sprintf("rule-%d", i), spec)
	}
}

// subsetList names one or two subsets.
func (g *gen) subsetList() L {
	out := L{M{"name": "v1", "labels": M{"version": "v1"}}}
	if g.chance(60) {
		s := M{"name": pick(g, "v2", "blue"), "labels": M{"version": "v2"}}
		if g.chance(40) {
			s["trafficPolicy"] = g.trafficPolicy()
		}
		out = append(out, s)
	}
	return out
}

// trafficPolicy is a policy of any kind.
func (g *gen) trafficPolicy() M {
	p := M{}
	if g.chance(45) {
		p["tls"] = pick(g, M{"mode": "DISABLE"}, M{"mode": "SIMPLE"}, M{"mode": "ISTIO_MUTUAL"},
			M{"mode": "SIMPLE", "sni": "sni.example", "credentialName": "cert"},
			M{"mode": "MUTUAL", "clientCertificate": "/etc/c.pem", "privateKey": "/etc/k.pem", "caCertificates": "/etc/ca.pem", "subjectAltNames": L{"san.example"}})
	}
	if g.chance(40) {
		p["connectionPool"] = pick(g, M{"tcp": M{"maxConnections": 10, "connectTimeout": "3s"}},
			M{"http": M{"http1MaxPendingRequests": 5, "maxRequestsPerConnection": 2, "idleTimeout": "30s"}},
			M{"http": M{"h2UpgradePolicy": "UPGRADE"}, "tcp": M{"tcpKeepalive": M{"time": "7200s"}}})
	}
	if g.chance(35) {
		p["outlierDetection"] = M{"consecutive5xxErrors": 3, "interval": "30s", "baseEjectionTime": "1m"}
	}
	if g.chance(45) {
		p["loadBalancer"] = pick(g, M{"simple": "ROUND_ROBIN"}, M{"simple": "LEAST_REQUEST", "warmup": M{"duration": "60s"}}, M{"simple": "RANDOM"},
			M{"simple": "PASSTHROUGH"}, M{"consistentHash": M{"httpHeaderName": "x-user"}},
			M{"simple": "ROUND_ROBIN", "localityLbSetting": M{"failover": L{M{"from": "region-1", "to": "region-2"}}}},
			M{"consistentHash": M{"httpCookie": M{"name": "c", "ttl": "0s"}}})
	}
	if g.chance(20) {
		p["portLevelSettings"] = L{M{"port": M{"number": pick(g, 80, 8080, 443)}, "tls": M{"mode": pick(g, "DISABLE", "ISTIO_MUTUAL")}}}
	}
	if g.chance(10) {
		p["tunnel"] = M{"protocol": "CONNECT", "targetHost": "tunnel.example", "targetPort": 443}
	}
	if g.chance(10) {
		p["proxyProtocol"] = M{"version": "V2"}
	}
	if len(p) == 0 {
		p["loadBalancer"] = M{"simple": "ROUND_ROBIN"}
	}
	return p
}

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

// httpRoutes are one to three HTTP routes.
func (g *gen) httpRoutes(ns string) L {
	var out L
	for i := 0; i < g.between(1, 3); i++ {
		r := M{}
		if g.chance(55) {
			r["match"] = g.httpMatches()
		}
		if g.chance(30) {
			r["name"] = fmt.Sprintf("route-%d", i)
		}
		g.httpAction(ns, r)
		out = append(out, r)
	}
	return out
}

// httpAction fills in what a route does.
func (g *gen) httpAction(ns string, r M) {
	switch g.r.Intn(12) {
	case 0:
		r["redirect"] = M{"uri": "/moved", "authority": "elsewhere.example", "redirectCode": 302}
		return
	case 1:
		r["directResponse"] = M{"status": pick(g, 404, 503), "body": M{"string": "no"}}
		return
	}
	if d := g.hostsOf("delegate"); len(d) > 0 && g.chance(30) {
		r["delegate"] = d[g.r.Intn(len(d))]
		return
	}
	r["route"] = g.weighted(ns)
	g.httpExtras(ns, r)
}

// hostsOf lists the delegates made before.
func (g *gen) hostsOf(string) []M {
	var out []M
	for _, o := range g.out {
		meta := o["metadata"].(M)
		if o["kind"] == "VirtualService" && o["spec"].(M)["hosts"] == nil {
			out = append(out, M{"name": meta["name"], "namespace": meta["namespace"]})
		}
	}
	return out
}

// httpExtras adds retries, faults, mirrors and so on.
func (g *gen) httpExtras(ns string, r M) {
	if g.chance(15) {
		r["mirror"] = g.destination(ns)
	} else if g.chance(10) {
		r["mirrors"] = L{M{"destination": g.destination(ns), "percentage": M{"value": 10}}}
	}
	if g.chance(15) {
		r["timeout"] = "5s"
	}
	if g.chance(15) {
		r["retries"] = M{"attempts": 3, "perTryTimeout": "2s", "retryOn": "gateway-error"}
	}
	if g.chance(15) {
		r["fault"] = M{"delay": M{"fixedDelay": "1s", "percentage": M{"value": 1}}, "abort": M{"httpStatus": 500, "percentage": M{"value": 1}}}
	}
	if g.chance(15) {
		r["rewrite"] = M{"uri": "/new"}
	}
	if g.chance(15) {
		r["headers"] = M{"request": M{"set": M{"x-a": "1"}, "remove": L{"x-b"}}, "response": M{"add": M{"x-c": "2"}}}
	}
	if g.chance(15) {
		r["corsPolicy"] = M{"allowOrigins": L{M{"exact": "https://a.example"}}, "allowMethods": L{"GET"}, "maxAge": "24h"}
	}
}

// weighted is a list of one or two destinations.
func (g *gen) weighted(ns string) L {
	if g.chance(65) {
		return L{M{"destination": g.destination(ns)}}
	}
	first := pick(g, 100, 90, 50)
	return L{
		M{"destination": g.destination(ns), "weight": first},
		M{"destination": g.destination(ns), "weight": 100 - first},
	}
}

// destination is a host, often with a subset or a port.
func (g *gen) destination(ns string) M {
	host := g.anyHost(ns)
	for host != "" && host[0] == '*' {
		host = g.anyHost(ns)
	}
	d := M{"host": host}
	if g.chance(30) {
		d["subset"] = pick(g, "v1", "v1", "v2", "nosuch")
	}
	if s := g.find(ns, host); s != nil && (g.chance(60) || len(s.ports) > 1 && g.chance(70)) {
		d["port"] = M{"number": g.number(s)}
	} else if g.chance(10) {
		d["port"] = M{"number": 12345}
	}
	return d
}

// httpMatches are one or two matches.
func (g *gen) httpMatches() L {
	match := func() M {
		m := M{}
		switch g.r.Intn(8) {
		case 0:
			m["headers"] = M{"x-user": M{"exact": "a"}}
		case 1:
			m["port"] = pick(g, 80, 8080)
		case 2:
			m["sourceLabels"] = M{"app": pick(g, g.workloads...).labels["app"]}
		case 3:
			m["sourceNamespace"] = g.anyNamespace()
		case 4:
			m["uri"] = M{"regex": "/v[0-9]+/.*"}
			m["method"] = M{"exact": "GET"}
		case 5:
			m["uri"] = M{"exact": "/exact"}
			if len(g.gatewayRef) > 0 {
				m["gateways"] = L{pick(g, append([]string{"mesh"}, g.gatewayRef...)...)}
			}
		case 6:
			m["queryParams"] = M{"q": M{"exact": "1"}}
		default:
			m["uri"] = M{"prefix": pick(g, "/", "/api", "/login")}
		}
		return m
	}
	if g.chance(25) {
		return L{match(), match()}
	}
	return L{match()}
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
