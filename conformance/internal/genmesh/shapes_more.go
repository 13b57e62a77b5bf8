package genmesh

import "fmt"

// shapeService makes a Kubernetes Service with its port and one endpoint.
func (g *gen) shapeService(ns, name string, port M) {
	ip := g.vip()
	g.add("v1", "Service", ns, name, M{"spec": M{"clusterIP": ip, "clusterIPs": L{ip}, "selector": M{"app": name}, "ports": L{port}}})
	g.add("discovery.k8s.io/v1", "EndpointSlice", ns, name+"-s0", M{
		"labels": M{"kubernetes.io/service-name": name}, "addressType": "IPv4",
		"endpoints": L{M{"addresses": L{g.ip()}, "conditions": M{"ready": true, "serving": true, "terminating": false}}},
		"ports":     L{M{"name": port["name"], "port": port["targetPort"], "protocol": "TCP"}},
	})
}

// shapePeer gives the sidecar's four ports one mode of mutual TLS.
func (g *gen) shapePeer(mode string) {
	g.own(fourPorts...)
	g.istio("security", "PeerAuthentication", "default", "default", M{"mtls": M{"mode": mode}})
}

// shapePeerAuthentication gives n services other modes by port, as namespaces
// with exceptions have them.
func (g *gen) shapePeerAuthentication(n int) {
	g.shapeServices(n, M{}, fourPorts...)
	g.istio("security", "PeerAuthentication", system, "default", M{"mtls": M{"mode": "STRICT"}})
	g.istio("security", "PeerAuthentication", "default", "proxy", M{
		"selector": M{"matchLabels": M{"app": "proxy"}}, "mtls": M{"mode": "PERMISSIVE"},
		"portLevelMtls": M{"7070": M{"mode": "DISABLE"}, "443": M{"mode": "STRICT"}, "8443": M{"mode": "DISABLE"}},
	})
}

// shapeExternalName makes n aliases of a name outside, and one of a service.
func (g *gen) shapeExternalName(n int) {
	g.own(shapePort("http", 80, "HTTP"))
	for i := range n {
		g.add("v1", "Service", "default", fmt.Sprintf("service-%d", i), M{"spec": M{
			"type": "ExternalName", "externalName": fmt.Sprintf("random-%d.example.com", i),
			"ports": L{M{"name": "http", "port": 80, "protocol": "TCP"}},
		}})
	}
	g.shapeService("default", "real", M{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080})
	g.add("v1", "Service", "gateway", "alias", M{"spec": M{
		"type": "ExternalName", "externalName": "real.default.svc.cluster.local", "ports": L{M{"name": "http", "port": 80, "protocol": "TCP"}},
	}})
}

// shapeHeadless makes services without a cluster IP, of each kind of protocol,
// with n endpoints each.
func (g *gen) shapeHeadless(n int) {
	g.own(fourPorts...)
	for i, port := range []M{{"name": "http", "port": 80}, {"name": "tcp-db", "port": 5432}, {"name": "odd", "port": 7000}} {
		name := fmt.Sprintf("headless-%d", i)
		port["protocol"], port["targetPort"] = "TCP", port["port"]
		var endpoints L
		for range n {
			endpoints = append(endpoints, M{"addresses": L{g.ip()}, "conditions": M{"ready": true, "serving": true, "terminating": false}})
		}
		g.add("v1", "Service", "default", name, M{"spec": M{"clusterIP": "None", "clusterIPs": L{"None"}, "selector": M{"app": name}, "ports": L{port}}})
		g.add("discovery.k8s.io/v1", "EndpointSlice", "default", name+"-s0", M{
			"labels": M{"kubernetes.io/service-name": name}, "addressType": "IPv4", "endpoints": endpoints,
			"ports": L{M{"name": port["name"], "port": port["port"], "protocol": "TCP"}},
		})
	}
}

// shapeVirtualServices routes each of n services.
func (g *gen) shapeVirtualServices(n int) {
	g.shapeServices(n, M{"location": "MESH_EXTERNAL"}, shapePort("http", 80, "HTTP"))
	for i := range n {
		g.istio("networking", "VirtualService", "default", fmt.Sprintf("vs-%d", i), M{"hosts": L{numbered(i)}, "http": L{M{
			"name": "match-route", "match": L{M{"uri": M{"prefix": "/foo"}}, M{"uri": M{"regex": "/bar"}}},
			"rewrite": M{"uri": "/new-url"}, "route": L{M{"destination": M{"host": numbered(i)}}},
		}}})
	}
}

// shapeWorkloadEntries gives n services ten workloads each.
func (g *gen) shapeWorkloadEntries(n int) {
	g.own(fourPorts...)
	for i := range n {
		g.istio("networking", "ServiceEntry", "default", fmt.Sprintf("service-%d", i), M{
			"hosts": L{numbered(i)}, "ports": toList(fourPorts), "resolution": "STATIC", "location": "MESH_INTERNAL",
			"workloadSelector": M{"labels": M{"app": fmt.Sprintf("random-%d", i)}},
		})
	}
	for j := range 10 * n {
		g.istio("networking", "WorkloadEntry", "default", fmt.Sprintf("random-%d", j), M{
			"serviceAccount": "random", "address": fmt.Sprintf("198.19.%d.%d", j/250, j%250+1), "labels": M{"app": fmt.Sprintf("random-%d", j%n)},
		})
	}
}

// shapeTelemetry writes metrics and access logs for the whole mesh, with all
// providers also traces, and logs by gRPC.
func (g *gen) shapeTelemetry(n int, all bool) {
	g.mesh["extensionProviders"] = L{
		M{"name": "envoy-json", "envoyFileAccessLog": M{"path": "/dev/stdout", "logFormat": M{"labels": M{}}}},
		M{"name": "otel", "opentelemetry": M{"service": numbered(0), "port": 7070}},
		M{"name": "als", "envoyHttpAls": M{"service": numbered(0), "port": 7070}},
		M{"name": "tcp-als", "envoyTcpAls": M{"service": numbered(0), "port": 7070}},
		M{"name": "otel-als", "envoyOtelAls": M{"service": numbered(0), "port": 7070, "logFormat": M{"text": "%PROTOCOL%", "labels": M{"a": "%DURATION%"}}}},
	}
	spec := M{"metrics": L{M{"providers": L{M{"name": "prometheus"}}}}, "accessLogging": L{M{"providers": L{M{"name": "envoy-json"}}}}}
	if all {
		spec["tracing"] = L{M{"providers": L{M{"name": "otel"}}, "randomSamplingPercentage": 5, "customTags": M{"cell": M{"literal": M{"value": "blue"}}}}}
		spec["accessLogging"] = L{M{"providers": L{M{"name": "envoy-json"}, M{"name": "als"}, M{"name": "tcp-als"}, M{"name": "otel-als"}}, "filter": M{"expression": "response.code >= 500"}}}
		spec["metrics"] = L{M{"providers": L{M{"name": "prometheus"}}, "overrides": L{
			M{"match": M{"metric": "REQUEST_DURATION", "mode": "CLIENT"}, "disabled": true},
			M{"match": M{"metric": "ALL_METRICS"}, "tagOverrides": M{"destination_x": M{"value": "request.host"}, "request_protocol": M{"operation": "REMOVE"}}},
		}}}
	}
	g.istio("telemetry", "Telemetry", system, "telemetry", spec)
	g.shapeServices(n, M{"location": "MESH_EXTERNAL"}, fourPorts...)
}

// shapeAuthorization makes n policies for the sidecar.
func (g *gen) shapeAuthorization(n int) {
	g.own(shapePort("http", 80, "HTTP"), shapePort("https", 443, "HTTPS"))
	for i := range n {
		g.istio("security", "AuthorizationPolicy", "default", fmt.Sprintf("authn-%d", i), M{"action": "DENY", "rules": L{M{
			"from": L{M{"source": M{"namespaces": L{"default"}}}}, "to": L{M{"operation": M{"methods": L{"POST"}}}},
		}}})
	}
}

// shapeSubsets gives each of n services three subsets.
func (g *gen) shapeSubsets(n int) {
	g.shapeServices(n, M{}, fourPorts[:2]...)
	for i := range n {
		var subsets L
		for _, v := range []string{"v1", "v2", "v3"} {
			subsets = append(subsets, M{"name": v, "labels": M{"version": v}})
		}
		g.istio("networking", "DestinationRule", "default", fmt.Sprintf("rule-%d", i), M{"host": numbered(i), "subsets": subsets})
	}
}

// shapeFiltered is gateways-shared with clusters for what is routed to only.
func (g *gen) shapeFiltered(n int) {
	g.istiodEnv["PILOT_FILTER_GATEWAY_CLUSTER_CONFIG"] = "true"
	g.shapeGateways(n/4, true)
	for i := range n {
		g.shapeService("default", fmt.Sprintf("unused-%d", i), M{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080})
	}
}

// shapeSidecar lets the sidecar see two of n services.
func (g *gen) shapeSidecar(n int) {
	g.shapeServices(n, M{"addresses": true}, fourPorts...)
	g.istio("networking", "Sidecar", "default", "default", M{"egress": L{M{"hosts": L{"./" + numbered(0), "./" + numbered(1), system + "/*"}}}})
}
