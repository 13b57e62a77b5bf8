package genmesh

// enrich gives half of the seeds what fills real configuration with bytes:
// access logs, telemetry and authorization for the whole mesh, and two
// networks; their names are long and their nodes in several zones, too.
func (g *gen) enrich() {
	if !g.rich {
		return
	}
	if g.mesh["accessLogFile"] == "" {
		g.mesh["accessLogFile"] = "/dev/stdout"
	}
	meta := M{"creationTimestamp": "2024-03-01T08:00:00Z", "namespace": system}
	object := func(api, kind, name string, spec M) {
		m := M{"name": name}
		for k, v := range meta {
			m[k] = v
		}
		g.out = append(g.out, M{"apiVersion": api, "kind": kind, "metadata": m, "spec": spec})
	}
	object("telemetry.istio.io/v1", "Telemetry", "mesh-wide", M{
		"metrics": L{M{"providers": L{M{"name": "prometheus"}}}}, "accessLogging": L{M{"providers": L{M{"name": "envoy"}}}},
	})
	object("security.istio.io/v1", "AuthorizationPolicy", "mesh-wide", M{
		"action": "DENY", "rules": L{M{"from": L{M{"source": M{"notNamespaces": L{"shop", "pay", "istio-system"}}}}, "to": L{M{"operation": M{"paths": L{"/admin*"}}}}}},
	})
	if len(g.networks) == 0 {
		g.twoNetworks()
	}
}

// twoNetworks puts every third workload into another network than the rest.
func (g *gen) twoNetworks() {
	g.networks["net-1"] = M{"endpoints": L{M{"fromRegistry": "Kubernetes"}}, "gateways": L{M{"address": "203.0.113.1", "port": 15443}}}
	g.networks["net-2"] = M{"gateways": L{M{"address": "203.0.113.2", "port": 15443}}}
	for i, w := range g.workloads {
		if i%3 == 2 {
			w.meta["NETWORK"], w.labels["topology.istio.io/network"] = "net-2", "net-2"
		}
	}
}
