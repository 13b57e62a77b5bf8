package genmesh

import "fmt"

// discovery selects some namespaces.
func (g *gen) discovery() {
	g.mesh["discoverySelectors"] = pick(g,
		L{M{"matchLabels": M{"team": "red"}}},
		L{M{"matchLabels": M{"team": "red"}}, M{"matchLabels": M{"kubernetes.io/metadata.name": system}}},
		L{M{"matchExpressions": L{M{"key": "team", "operator": "NotIn", "values": L{"blue"}}}}},
		L{M{"matchLabels": M{"istio-injection": "enabled"}}},
	)
}

// outbound changes the policy for unknown destinations and mesh ports.
func (g *gen) outbound() {
	g.mesh["outboundTrafficPolicy"] = M{"mode": pick(g, "REGISTRY_ONLY", "REGISTRY_ONLY", "ALLOW_ANY")}
	if g.chance(20) {
		g.mesh["inboundTrafficPolicy"] = M{"mode": "LOCALHOST"}
	}
	if g.chance(20) {
		g.mesh["proxyHttpPort"] = 15002
	}
	if g.chance(20) {
		g.mesh["enableAutoMtls"] = false
	}
	if g.chance(20) {
		g.mesh["protocolDetectionTimeout"] = "1s"
	}
	if g.chance(20) {
		g.mesh["h2UpgradePolicy"] = "UPGRADE"
	}
	if g.chance(20) {
		g.mesh["outboundClusterStatName"] = "%SERVICE%_%SERVICE_PORT%"
	}
	if g.chance(20) {
		g.mesh["trustDomainAliases"] = L{"old.example"}
	}
	for _, ns := range g.namespaces {
		if g.chance(25) {
			g.istio("networking", "Sidecar", ns, "outbound", M{
				"egress":                L{M{"hosts": L{"*/*"}}},
				"outboundTrafficPolicy": M{"mode": pick(g, "REGISTRY_ONLY", "ALLOW_ANY")},
			})
		}
	}
}

// dns turns DNS capture on; some ServiceEntries refuse automatic addresses.
func (g *gen) dns() {
	for _, w := range g.workloads {
		if g.chance(60) {
			w.meta["DNS_CAPTURE"] = "true"
		}
		if g.chance(30) {
			w.meta["DNS_AUTO_ALLOCATE"] = "true"
		}
	}
	if len(g.externals) == 0 {
		g.serviceEntries()
	}
	for _, e := range g.externals {
		if g.chance(15) {
			e.object["metadata"].(M)["labels"] = M{"networking.istio.io/enable-autoallocate-ip": "false"}
		}
	}
}

// allocate writes the automatic addresses of ServiceEntries into their
// status, as istiod's controller does in any cluster.
func (g *gen) allocate() {
	if g.istiodEnv["PILOT_ENABLE_IP_AUTOALLOCATE"] == "false" {
		return
	}
	next := 1
	for _, e := range g.externals {
		spec, labels := e.object["spec"].(M), e.object["metadata"].(M)["labels"]
		if spec["addresses"] != nil || spec["resolution"] == "NONE" || optedOut(labels) {
			continue
		}
		var addresses L
		for _, h := range e.hosts {
			if h[0] == '*' && spec["resolution"] != "DYNAMIC_DNS" {
				continue
			}
			addresses = append(addresses,
				M{"value": "240.240.0." + itoa(next), "host": h},
				M{"value": fmt.Sprintf("2001:2::%x", next), "host": h})
			next++
		}
		if len(addresses) > 0 {
			e.object["status"] = M{"addresses": addresses}
		}
	}
}

// optedOut is whether labels refuse automatic addresses.
func optedOut(labels any) bool {
	m, _ := labels.(M)
	return m["networking.istio.io/enable-autoallocate-ip"] == "false"
}

// itoa writes a small number.
func itoa(n int) string {
	if n >= 10 {
		return itoa(n/10) + string(rune('0'+n%10))
	}
	return string(rune('0' + n))
}

// revisioned adds a second control plane and labels some configuration.
func (g *gen) revisioned() {
	g.revisions = append(g.revisions, "canary")
	for _, w := range g.workloads {
		if g.chance(40) {
			for _, p := range w.pods {
				p.revision = "canary"
			}
		}
	}
	for _, o := range g.out {
		api, _ := o["apiVersion"].(string)
		if len(api) < 8 || !hasSuffixBefore(api, ".istio.io") || !g.chance(35) {
			continue
		}
		meta := o["metadata"].(M)
		labels, _ := meta["labels"].(M)
		if labels == nil {
			labels = M{}
		}
		labels["istio.io/rev"] = pick(g, "default", "canary", "other")
		meta["labels"] = labels
	}
}

// hasSuffixBefore is whether the part of an apiVersion before the slash ends
// like that.
func hasSuffixBefore(api, suffix string) bool {
	for i := range api {
		if api[i] == '/' {
			return i >= len(suffix) && api[i-len(suffix):i] == suffix
		}
	}
	return false
}

// flagMenu are environment variables of istiod that change what it sends.
// PILOT_ENABLE_SERVICEENTRY_SELECT_PODS has its default: Istio's server for tests
// takes no notice of it (pilot/test/xds/fake.go).
var flagMenu = map[string]string{
	"PILOT_FILTER_GATEWAY_CLUSTER_CONFIG": "true", "PILOT_SCOPE_GATEWAY_TO_NAMESPACE": "true",
	"PILOT_UNIFIED_SIDECAR_SCOPE": "false", "ENABLE_ENHANCED_DESTINATIONRULE_MERGE": "false",
	"PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE": "false", "PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES": "true",
	"PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE": "true", "PILOT_ENABLE_SERVICEENTRY_SELECT_PODS": "true",
	"PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES": "false", "PILOT_ENABLE_QUIC_LISTENERS": "true",
	"PILOT_SEND_UNHEALTHY_ENDPOINTS": "true", "PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN": "false",
	"PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION": "false", "PILOT_ENABLE_METADATA_EXCHANGE": "false",
	"PILOT_ENABLE_ALPN_FILTER": "false", "PILOT_ENABLE_MONGO_FILTER": "false", "PILOT_ENABLE_TELEMETRY_LABEL": "false",
	"PILOT_HTTP10": "true", "PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS": "false", "ISTIO_DUAL_STACK": "true",
	"ENABLE_MULTICLUSTER_HEADLESS": "false", "PILOT_ENABLE_IP_AUTOALLOCATE": "false", "ENABLE_TLS_ON_SIDECAR_INGRESS": "true",
}

// flags sets some of them.
func (g *gen) flags() {
	names := sortedKeys(flagMenu)
	for i := 0; i < g.between(1, 4); i++ {
		n := pick(g, names...)
		g.istiodEnv[n] = flagMenu[n]
	}
	if g.chance(50) {
		g.istiodEnv["PILOT_FILTER_GATEWAY_CLUSTER_CONFIG"] = "true"
		if !g.families["gateways"] {
			g.gatewayConfig()
		}
	}
}

// topology makes networks and locality settings.
func (g *gen) topology() {
	if g.chance(60) {
		gw := pick(g, g.gateways...)
		g.networks["net-1"] = M{"endpoints": L{M{"fromRegistry": "Kubernetes"}}, "gateways": L{M{"address": "203.0.113.1", "port": 15443}}}
		g.networks["net-2"] = M{"endpoints": L{M{"fromCidr": "192.0.2.0/24"}}, "gateways": L{M{"registryServiceName": gw.svc.host(), "port": 15443}}}
		for _, w := range g.workloads {
			if g.chance(40) {
				network := pick(g, "net-1", "net-2")
				w.meta["NETWORK"] = network
				w.labels["topology.istio.io/network"] = network
			}
		}
	}
	if g.chance(60) {
		g.mesh["localityLbSetting"] = pick(g, M{"enabled": false},
			M{"distribute": L{M{"from": "region-1/zone-a/*", "to": M{"region-1/zone-a/*": 80, "region-1/zone-b/*": 20}}}},
			M{"failover": L{M{"from": "region-1", "to": "region-2"}}}, M{"failoverPriority": L{"topology.kubernetes.io/region", "app"}})
	}
	if len(g.services) > 0 && g.chance(60) {
		s := pick(g, g.services...)
		g.mesh["serviceSettings"] = L{M{"settings": M{"clusterLocal": true}, "hosts": L{s.host()}}}
	}
	for i := 0; i < 2; i++ {
		ns := g.anyNamespace()
		g.istio("networking", "DestinationRule", ns, "outlier-"+itoa(i), M{
			"host": g.anyHost(ns), "trafficPolicy": M{"outlierDetection": M{"consecutive5xxErrors": 2}},
		})
	}
}

// avoidPanics takes outlier detection away from rules that may meet a
// ServiceEntry with DYNAMIC_DNS: istiod 1.31 panics on them (istio#61433).
func (g *gen) avoidPanics() {
	dynamic := false
	for _, e := range g.externals {
		dynamic = dynamic || e.object["spec"].(M)["resolution"] == "DYNAMIC_DNS"
	}
	if !dynamic {
		return
	}
	for _, o := range g.out {
		if o["kind"] == "DestinationRule" {
			dropKey(o["spec"], "outlierDetection")
		}
	}
}

// dropKey removes a key wherever it is.
func dropKey(v any, key string) {
	switch x := v.(type) {
	case M:
		delete(x, key)
		for _, e := range x {
			dropKey(e, key)
		}
	case L:
		for _, e := range x {
			dropKey(e, key)
		}
	}
}
