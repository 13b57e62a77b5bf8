package genmesh

import "fmt"

// jwks is a key set that does not have to be fetched.
const jwks = `{"keys":[{"kty":"RSA","e":"AQAB","kid":"k1","n":"xAE7eB6qugXyCAG3yhh7pkDkT65pHymX-P7KfIupjf59vsdo91bSP9C8H07pSAGQO1MV_xFj9VswgsCg4R6otmg5PV2He95lZdHtOcU5DXIg_pbhLdKXbi66GlVeK6ABZOUW3WYtnNHD-91gVuoeJT_DwtGGcp4ignkgXfkiEm4sw-4sfb4qdt5oLbyVpmW6x9cfa7vs2WTfURiCrBoUqgBo_-4WTiULmmHSGZHOjzwa8WtrtOQGsAFjIbno85jp6MnGGGZPYZbDAa_b3y5u-YpW7ypZrvD8BgtKVjgtQgZhLAGezMt0ua3DRrWnKqTZ0BJ_EyxOGuHJrLsn00fnMQ"}]}`

// security makes authentication and authorization policies.
func (g *gen) security() {
	mode := func() M { return M{"mode": pick(g, "STRICT", "PERMISSIVE", "DISABLE", "UNSET")} }
	if g.chance(50) {
		g.istio("security", "PeerAuthentication", system, "default", M{"mtls": mode()})
	}
	for _, ns := range g.namespaces {
		if g.chance(35) {
			g.istio("security", "PeerAuthentication", ns, "default", M{"mtls": mode()})
		}
	}
	for i := 0; i < g.between(0, 3); i++ {
		w := pick(g, g.workloads...)
		spec := M{"selector": M{"matchLabels": M{"app": w.labels["app"]}}, "mtls": mode()}
		if g.chance(50) {
			spec["portLevelMtls"] = M{pick(g, "8080", "9090", "3306"): mode()}
		}
		g.istio("security", "PeerAuthentication", w.ns, fmt.Sprintf("peer-%d", i), spec)
	}
	for i := 0; i < g.between(0, 2); i++ {
		spec := M{"jwtRules": L{M{"issuer": "issuer@example.com", "jwks": jwks}}}
		ns := g.selectSome(spec, 20)
		g.istio("security", "RequestAuthentication", ns, fmt.Sprintf("jwt-%d", i), spec)
	}
	for i := 0; i < g.between(1, 4); i++ {
		g.authorization(i)
	}
}

// selectSome puts a selector into a policy and returns its namespace.
func (g *gen) selectSome(spec M, rootPct int) string {
	if g.chance(rootPct) {
		return system
	}
	w := pick(g, g.workloads...)
	if g.chance(60) {
		spec["selector"] = M{"matchLabels": M{"app": w.labels["app"]}}
	}
	return w.ns
}

// authorization makes one AuthorizationPolicy.
func (g *gen) authorization(i int) {
	rules := []M{
		{"from": L{M{"source": M{"principals": L{"cluster.local/ns/shop/sa/default"}, "namespaces": L{g.anyNamespace()}}}}},
		{"to": L{M{"operation": M{"methods": L{"GET"}, "paths": L{"/api*"}, "ports": L{"8080"}}}}},
		{"from": L{M{"source": M{"ipBlocks": L{"10.0.0.0/8"}}}}, "when": L{M{"key": "request.headers[x]", "values": L{"1"}}}},
	}
	spec := M{"action": pick(g, "ALLOW", "DENY", "AUDIT"), "rules": L{pick(g, rules...)}}
	if g.chance(10) {
		spec = M{"action": "ALLOW"}
	}
	ns := g.selectSome(spec, 20)
	g.istio("security", "AuthorizationPolicy", ns, fmt.Sprintf("authz-%d", i), spec)
}

// telemetry makes providers, Telemetry, WasmPlugins and ProxyConfigs.
func (g *gen) telemetry() {
	collector := "collector." + system + ".svc.cluster.local"
	if s := g.plainService(); s != nil && g.chance(70) {
		collector = s.host()
	}
	g.mesh["extensionProviders"] = L{
		M{"name": "otel", "opentelemetry": M{"service": collector, "port": 4317}},
		M{"name": "als", "envoyOtelAls": M{"service": collector, "port": 4317}},
		M{"name": "zipkin", "zipkin": M{"service": collector, "port": 9411}},
		M{"name": "file", "envoyFileAccessLog": M{"path": "/dev/stdout", "logFormat": M{"labels": M{"start": "%START_TIME%"}}}},
		M{"name": "authz", "envoyExtAuthzGrpc": M{"service": collector, "port": 9000}},
	}
	g.mesh["accessLogFile"] = pick(g, "", "/dev/stdout")
	if g.chance(40) {
		g.mesh["accessLogEncoding"] = "JSON"
	}
	if g.chance(60) {
		g.mesh["defaultProviders"] = M{"metrics": L{"prometheus"}}
	}
	for i := 0; i < g.between(1, 3); i++ {
		spec := pick(g,
			M{"accessLogging": L{M{"providers": L{M{"name": pick(g, "file", "envoy", "als")}}}}},
			M{"metrics": L{M{"providers": L{M{"name": "prometheus"}}, "overrides": L{M{"match": M{"metric": "REQUEST_COUNT"}, "tagOverrides": M{"x": M{"value": "'y'"}}}}}}},
			M{"tracing": L{M{"providers": L{M{"name": pick(g, "otel", "zipkin")}}, "randomSamplingPercentage": 10}}},
			M{"accessLogging": L{M{"disabled": true}}})
		ns := g.selectSome(spec, 40)
		g.istio("telemetry", "Telemetry", ns, fmt.Sprintf("telemetry-%d", i), spec)
	}
	g.extensions()
}

// extensions makes WasmPlugins, ProxyConfigs and CUSTOM authorization.
func (g *gen) extensions() {
	if g.chance(60) {
		spec := M{"url": "oci://registry.example/filter:1", "phase": pick(g, "AUTHN", "AUTHZ", "STATS"), "pluginConfig": M{"a": "b"}}
		ns := g.selectSome(spec, 20)
		g.istio("extensions", "WasmPlugin", ns, "wasm", spec)
	}
	if g.chance(40) {
		spec := M{"action": "CUSTOM", "provider": M{"name": "authz"}, "rules": L{M{"to": L{M{"operation": M{"paths": L{"/admin"}}}}}}}
		ns := g.selectSome(spec, 0)
		g.istio("security", "AuthorizationPolicy", ns, "custom", spec)
	}
	if g.chance(40) {
		g.istio("networking/v1beta1", "ProxyConfig", g.anyNamespace(), "proxy", M{"concurrency": 2})
	}
}

// envoyFilters makes patches that change names and parts.
func (g *gen) envoyFilters() {
	for i := 0; i < g.between(1, 4); i++ {
		spec := M{"configPatches": L{g.patch()}}
		ns := system
		if g.chance(60) {
			w := pick(g, g.workloads...)
			ns = w.ns
			if g.chance(50) {
				spec["workloadSelector"] = M{"labels": M{"app": w.labels["app"]}}
			}
		}
		g.istio("networking/v1alpha3", "EnvoyFilter", ns, fmt.Sprintf("filter-%d", i), spec)
	}
}

// patch is one patch of an EnvoyFilter.
func (g *gen) patch() M {
	context := pick(g, "ANY", "SIDECAR_OUTBOUND", "SIDECAR_INBOUND", "GATEWAY")
	host := "nowhere.example"
	port := 80
	if s := g.plainService(); s != nil {
		host, port = s.host(), g.number(s)
	}
	added := M{"name": "added", "type": "STATIC", "connect_timeout": "1s"}
	return pick(g,
		M{"applyTo": "CLUSTER", "match": M{"context": context}, "patch": M{"operation": "ADD", "value": added}},
		M{"applyTo": "CLUSTER", "match": M{"context": context, "cluster": M{"service": host}}, "patch": M{"operation": "REMOVE"}},
		M{"applyTo": "CLUSTER", "match": M{"context": context, "cluster": M{"portNumber": port}}, "patch": M{"operation": "MERGE", "value": M{"connect_timeout": "9s"}}},
		M{"applyTo": "LISTENER", "match": M{"context": context, "listener": M{"portNumber": port}}, "patch": M{"operation": "REMOVE"}},
		M{"applyTo": "LISTENER", "match": M{"context": context}, "patch": M{"operation": "ADD", "value": M{
			"name": "added", "address": M{"socket_address": M{"address": "0.0.0.0", "port_value": 7777}},
		}}},
		M{"applyTo": "ROUTE_CONFIGURATION", "match": M{"context": context}, "patch": M{"operation": "MERGE", "value": M{"max_direct_response_body_size_bytes": 1}}},
		M{"applyTo": "VIRTUAL_HOST", "match": M{"context": context, "routeConfiguration": M{"portNumber": port}}, "patch": M{"operation": "ADD", "value": M{
			"name": "added", "domains": L{"added.example"}, "routes": L{M{"match": M{"prefix": "/"}, "direct_response": M{"status": 204}}},
		}}},
		M{"applyTo": "VIRTUAL_HOST", "match": M{"context": context, "routeConfiguration": M{"vhost": M{"name": fmt.Sprintf("%s:%d", host, port)}}}, "patch": M{"operation": "REMOVE"}},
		M{"applyTo": "HTTP_ROUTE", "match": M{"context": context}, "patch": M{"operation": "MERGE", "value": M{"decorator": M{"operation": "x"}}}},
		M{"applyTo": "FILTER_CHAIN", "match": M{"context": context, "listener": M{"portNumber": port}}, "patch": M{"operation": "REMOVE"}},
	)
}
