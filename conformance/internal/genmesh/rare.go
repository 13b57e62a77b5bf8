package genmesh

import (
	"fmt"
	"math/rand"
)

// rare adds settings that few meshes have to those that the families chose,
// drawn from a stream of their own.
func (g *gen) rare(seed int64) {
	main := g.r
	g.r = rand.New(rand.NewSource(seed ^ 0x5eed))
	defer func() { g.r = main }()
	for _, s := range []struct {
		family string
		run    func()
	}{
		{"outbound", g.rareMesh}, {"exportto", g.rareVisibility}, {"telemetry", g.rareTracing}, {"proxies", g.rareProxyConfig},
		{"topology", g.rareLocality}, {"flags", g.rareFlags}, {"envoyfilters", g.rareFilters}, {"telemetry", g.rareWasm},
		{"security", g.rareSecurity}, {"services", g.rareServices}, {"sidecars", g.rareEgress},
	} {
		if g.families[s.family] {
			s.run()
		}
	}
}

// rareMesh sets policies for the whole mesh.
func (g *gen) rareMesh() {
	if g.chance(20) {
		g.mesh["outboundTrafficPolicy"] = M{"mode": "ALLOW_ANY_DYNAMIC_DNS"}
	}
	if g.chance(25) {
		g.mesh["defaultHttpRetryPolicy"] = pick(g, M{"attempts": 0}, M{"attempts": 5, "retryOn": "5xx,reset", "perTryTimeout": "1s"})
	}
	if g.chance(20) {
		g.mesh["defaultTrafficPolicy"] = pick(g, M{"connectionPool": M{"tcp": M{"maxConnections": 77}}}, M{"connectionPool": M{"http": M{"idleTimeout": "90s"}}})
	}
	if g.chance(20) {
		g.mesh["connectTimeout"] = "3s"
	}
	if g.chance(20) {
		g.mesh["dnsRefreshRate"] = "5s"
	}
	if g.chance(20) {
		g.mesh["inboundClusterStatName"] = "in_%SERVICE_FQDN%"
	}
	if g.chance(20) {
		g.mesh["pathNormalization"] = M{"normalization": pick(g, "NONE", "BASE", "MERGE_SLASHES", "DECODE_AND_MERGE_SLASHES")}
	}
	if g.chance(20) {
		g.mesh["tlsDefaults"] = M{"minProtocolVersion": "TLSV1_3"}
	}
	if g.chance(15) {
		g.mesh["meshMTLS"] = M{"minProtocolVersion": "TLSV1_3"}
	}
	if g.chance(10) {
		g.mesh["verifyCertificateAtClient"] = false
	}
}

// rareVisibility narrows what ServiceEntries of some namespaces export.
func (g *gen) rareVisibility() {
	if !g.chance(40) {
		return
	}
	by := func(labels M, visibility string) M {
		return M{"visibility": visibility, "matchingRules": L{M{"namespaceSelector": M{"matchLabels": labels}}}}
	}
	g.mesh["serviceEntryVisibility"] = M{
		"defaultVisibility": pick(g, "PUBLIC", "NAMESPACE"), "applyToSidecars": g.chance(80),
		"policies": L{by(M{"team": "red"}, pick(g, "NONE", "NAMESPACE")), by(M{"kubernetes.io/metadata.name": system}, "PUBLIC")},
	}
}

// rareTracing changes how proxies trace.
func (g *gen) rareTracing() {
	if g.chance(20) {
		g.mesh["enableTracing"] = false
	}
	config := M{}
	if g.chance(40) {
		config["tracingServiceName"] = pick(g, "APP_LABEL_AND_NAMESPACE", "CANONICAL_NAME_ONLY", "CANONICAL_NAME_AND_NAMESPACE")
	}
	if g.chance(40) {
		config["tracing"] = pick(g, M{"sampling": 42.5}, M{"zipkin": M{"address": "zipkin." + system + ":9411"}},
			M{"customTags": M{"env": M{"literal": M{"value": "test"}}, "user": M{"header": M{"name": "x-user", "defaultValue": "none"}}}},
			M{"maxPathTagLength": 99, "enableIstioTags": false})
	}
	if len(config) > 0 {
		g.mesh["defaultConfig"] = config
	}
}

// rareProxyConfig changes what proxies say in headers, and of their place.
func (g *gen) rareProxyConfig() {
	configs := []string{
		"proxyHeaders:\n  server:\n    value: mine\n  requestId:\n    disabled: true\n",
		"proxyHeaders:\n  forwardedClientCert: SANITIZE\n  attemptCount:\n    disabled: true\n",
		"proxyHeaders:\n  metadataExchangeHeaders:\n    mode: IN_MESH\n  envoyDebugHeaders:\n    disabled: true\n",
		"proxyHeaders:\n  preserveHttp1HeaderCase: true\n  xForwardedHost:\n    enabled: true\n",
		"gatewayTopology:\n  numTrustedProxies: 2\n  forwardClientCertDetails: SANITIZE_SET\n",
	}
	for _, w := range g.workloads {
		if g.chance(25) && w.annotations["proxy.istio.io/config"] == nil {
			w.annotations["proxy.istio.io/config"] = pick(g, configs...)
		}
	}
	if len(g.workloads) > 0 && g.chance(30) {
		pick(g, g.workloads...).meta["CREDENTIAL"] = "true"
	}
	for _, gw := range g.gateways {
		if g.chance(30) {
			gw.annotations["proxy.istio.io/config"] = pick(g, configs...)
		}
	}
}

// rareLocality has more zones.
func (g *gen) rareLocality() {
	if g.chance(20) {
		g.mesh["zoneAwareLbSetting"] = M{"enabled": true}
	}
	if g.chance(30) {
		for _, s := range g.services {
			if g.chance(40) && !s.external && !s.headless {
				s.object["spec"].(M)["trafficDistribution"] = "PreferClose"
			}
		}
	}
}

// rareMenu are variables of istiod that change little.
var rareMenu = map[string]string{
	"PILOT_DISABLE_MX_ALPN": "true", "DISABLE_TRACK_REMAINING_CB_METRICS": "false", "DISABLE_SHADOW_HOST_SUFFIX": "false",
	"PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY": "false", "PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES": "false",
	"MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP": "0", "PILOT_DNS_CARES_UDP_MAX_QUERIES": "0", "PILOT_DNS_JITTER_DURATION": "50ms",
	"PILOT_SIDECAR_USE_REMOTE_ADDRESS": "true", "ENABLE_100_CONTINUE_HEADERS": "false", "PILOT_ENABLE_MYSQL_FILTER": "true",
	"PILOT_ENABLE_REDIS_FILTER": "true", "PILOT_ENABLE_PERSISTENT_SESSION_FILTER": "true", "ENABLE_LOCALITY_WEIGHTED_LB_CONFIG": "true",
	"PILOT_TRACE_SAMPLING": "5", "ENABLE_HCM_INTERNAL_NETWORKS": "true", "PILOT_SKIP_VALIDATE_TRUST_DOMAIN": "true",
	"PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT": "5s", "LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES": "true",
	"PILOT_MX_ADDITIONAL_LABELS": "team,cell", "PILOT_ENDPOINT_TELEMETRY_LABEL": "false", "PILOT_ENABLE_CDS_CACHE": "false",
	"PILOT_IP_AUTOALLOCATE_IPV4_PREFIX": "240.250.0.0/16", "PILOT_JWT_ENABLE_REMOTE_JWKS": "false",
}

// rareFlags sets some of them.
func (g *gen) rareFlags() {
	names := sortedKeys(rareMenu)
	for range g.between(0, 3) {
		n := pick(g, names...)
		g.istiodEnv[n] = rareMenu[n]
	}
}

// rareFilters names services that EnvoyFilters use.
func (g *gen) rareFilters() {
	for _, o := range g.out {
		if s := g.plainService(); o["kind"] == "EnvoyFilter" && s != nil && g.chance(30) {
			o["metadata"].(M)["annotations"] = M{"envoyfilter.istio.io/referenced-services": s.ns + "/" + s.host()}
		}
	}
}

// rareWasm gives WasmPlugins versions, as an API server does, of several lengths.
func (g *gen) rareWasm() {
	for _, o := range g.out {
		if o["kind"] == "WasmPlugin" && g.chance(80) {
			o["metadata"].(M)["resourceVersion"] = fmt.Sprint(pick(g, 812, 90417, 3300417, 1840027311))
		}
	}
}

// rareSecurity makes policies with more in them.
func (g *gen) rareSecurity() {
	if g.chance(40) {
		w := pick(g, g.workloads...)
		g.istio("security", "RequestAuthentication", w.ns, "jwt-places", M{
			"selector": M{"matchLabels": M{"app": w.labels["app"]}},
			"jwtRules": L{M{
				"issuer": "places@example.com", "jwks": jwks, "audiences": L{"a.example"}, "fromHeaders": L{M{"name": "x-token", "prefix": "Bearer "}},
				"fromParams": L{"token"}, "forwardOriginalToken": true, "outputClaimToHeaders": L{M{"header": "x-sub", "claim": "sub"}},
			}},
		})
	}
	if g.chance(40) {
		ns := g.anyNamespace()
		g.istio("security", "AuthorizationPolicy", ns, "by-claim", M{"action": "ALLOW", "rules": L{M{
			"from": L{M{"source": M{"requestPrincipals": L{"*"}, "notIpBlocks": L{"192.0.2.0/24"}, "serviceAccounts": L{ns + "/default"}}}},
			"to":   L{M{"operation": M{"hosts": L{"*.example"}, "notPaths": L{"/healthz"}}}},
			"when": L{M{"key": "request.auth.claims[groups]", "values": L{"admin"}}, M{"key": "source.namespace", "notValues": L{"kube-system"}}},
		}}})
	}
}

// rareServices labels Services for what labels change.
func (g *gen) rareServices() {
	for _, s := range g.services {
		if !g.chance(15) || s.external {
			continue
		}
		labels, _ := s.object["metadata"].(M)["labels"].(M)
		if labels == nil {
			labels = M{}
			s.object["metadata"].(M)["labels"] = labels
		}
		labels["istio.io/persistent-session"] = "cookie"
	}
}

// rareEgress leaves out what egress hosts import (1.31).
func (g *gen) rareEgress() {
	for _, o := range g.out {
		if o["kind"] != "Sidecar" || !g.chance(40) {
			continue
		}
		list, _ := o["spec"].(M)["egress"].(L)
		for _, e := range list {
			if hosts := e.(M)["hosts"].(L); g.chance(60) {
				e.(M)["hosts"] = append(hosts, pick(g, "~"+g.anyNamespace()+"/*", "~./*", "~"+system+"/*", "~"+g.anyNamespace()+"/*.svc.cluster.local", "~*/common.example"))
			}
		}
	}
}
