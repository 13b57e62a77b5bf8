package genmesh

import "fmt"

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
