package genmesh

import "fmt"

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
