package load_test

import (
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// What istiod's validation says of each is from Istio 1.31's own
// (pkg/config/validation, by the judge of conformance/).
func TestIstioValidation(t *testing.T) {
	for _, c := range []struct {
		kind, spec string
		refused    string // part of what is said; empty: taken
	}{
		{"ServiceEntry", "hosts: [a|b]\n  ports: [{number: 80, name: http, protocol: HTTP}]\n  resolution: DNS", "spec.hosts[0]: \"a|b\""},
		{"ServiceEntry", "hosts: ['*']\n  resolution: NONE", "spec.hosts[0]"},
		{"ServiceEntry", "hosts: ['a.*.example']\n  resolution: NONE", "spec.hosts[0]"},
		{"ServiceEntry", "hosts: [a.1]\n  resolution: NONE", "spec.hosts[0]"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 4294967295, name: http, protocol: HTTP}]\n  resolution: DNS", "spec.ports[0].number: 4294967295"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: http, targetPort: 70000}]\n  resolution: DNS", "spec.ports[0].targetPort: 70000"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a}, {number: 80, name: b}]\n  resolution: DNS", "spec.ports[1]"},
		{"ServiceEntry", "hosts: [a.example]\n  addresses: [1.2.3.4/99]\n  resolution: NONE", "spec.addresses[0]"},
		{"ServiceEntry", "hosts: [a.example]\n  addresses: [a.b]\n  resolution: NONE", "spec.addresses[0]"},
		{"ServiceEntry", "hosts: [a.example]\n  endpoints: [{address: 1.2.3.4}]\n  resolution: NONE", "spec.endpoints"},
		{"ServiceEntry", "hosts: [a.example]\n  endpoints: [{address: 1.2.3.4}]\n  workloadSelector: {labels: {a: b}}\n  resolution: STATIC", "spec.endpoints"},
		{"VirtualService", "gateways: [g]\n  http: [{route: [{destination: {host: a}}]}]", "spec.hosts: empty"},
		{"VirtualService", "hosts: [a]", "one of http, tls, tcp"},
		{"VirtualService", "hosts: ['*']\n  http: [{route: [{destination: {host: a}}]}]", "spec.hosts[0]"},
		{"VirtualService", "hosts: [a_b]\n  http: [{route: [{destination: {host: a}}]}]", "spec.hosts[0]"},
		{"VirtualService", "hosts: [a]\n  http: [{route: [{destination: {host: '*'}}]}]", "spec.http[0].route[0].destination.host"},
		{"VirtualService", "hosts: [a]\n  tcp: [{route: [{destination: {host: a, port: {number: 0}}}]}]", "spec.tcp[0].route[0].destination.port.number: 0"},
		{"DestinationRule", "host: 'a/b'", "spec.host"},
		{"Gateway", "servers: []", "spec.servers: empty"},
		{"Gateway", "servers: [{port: {number: 65536, name: a, protocol: HTTP}, hosts: ['*']}]", "spec.servers[0].port.number"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: []}]", "spec.servers[0].hosts: empty"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: [short]}]", "short name"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: ['n.s/a.example']}]", "spec.servers[0].hosts[0]"},
		{"Sidecar", "egress: [{hosts: [a/b/c]}]", "spec.egress[0].hosts[0]"},
		{"Sidecar", "egress: [{hosts: [a.example]}]", "namespace/dnsName"},
		{"Sidecar", "egress: [{hosts: []}]", "spec.egress[0].hosts: empty"},
		{"Sidecar", "egress: [{hosts: ['./*']}, {hosts: ['./*'], port: {number: 80, protocol: HTTP, name: a}}]", "spec.egress[0]"},
		{"Sidecar", "ingress: [{port: {number: 0, protocol: HTTP, name: a}, defaultEndpoint: '127.0.0.1:80'}]", "spec.ingress[0].port.number"},
		// Of ServiceEntries.
		{"ServiceEntry", "hosts: [a.example, b.example]\n  ports: [{number: 9000, name: tcp, protocol: TCP}]\n  resolution: DNS", "spec.ports[0]: several hosts"},
		{"ServiceEntry", "hosts: [a.example, b.example]\n  ports: [{number: 9000, name: tcp, protocol: TCP}]\n  resolution: NONE", ""},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 9000, name: tcp, protocol: TCP}]\n  resolution: DNS", ""},
		{"ServiceEntry", "hosts: [a.example]\n  addresses: [1.2.3.0/24]\n  resolution: DNS", "spec.addresses[0]: a range"},
		{"ServiceEntry", "hosts: ['*.example']\n  ports: [{number: 80, name: http, protocol: HTTP}]\n  resolution: DNS", "spec.hosts[0]: \"*.example\" cannot be looked up"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}, {number: 81, name: b, protocol: HTTP}]\n  endpoints: [{address: 'unix:///a'}]\n  resolution: STATIC", "spec.endpoints[0].address: a Unix domain socket serves exactly one port, not 2"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  endpoints: [{address: 'unix:///a', ports: {a: 81}}]\n  resolution: STATIC", "spec.endpoints[0].ports"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  endpoints: [{address: 'unix://a'}]\n  resolution: STATIC", "spec.endpoints[0].address: \"unix://a\""},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  endpoints: [{address: 'unix:///a'}]\n  resolution: STATIC", ""},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  endpoints: [{address: b.example}]\n  resolution: STATIC", "spec.endpoints[0].address"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  endpoints: [{address: 1.2.3.4, ports: {c: 1}}]\n  resolution: STATIC", "spec.endpoints[0].ports.c"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  endpoints: [{address: a.example}, {address: b.example}]\n  resolution: DNS_ROUND_ROBIN", "spec.endpoints: more than one"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: HTTP}]\n  resolution: DYNAMIC_DNS\n  location: MESH_EXTERNAL", "spec.hosts[0]"},
		{"ServiceEntry", "hosts: ['*.example']\n  ports: [{number: 80, name: a, protocol: TCP}]\n  resolution: DYNAMIC_DNS", "spec.ports[0].protocol"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a.b, protocol: HTTP}]\n  resolution: DNS", "spec.ports[0].name"},
		{"ServiceEntry", "hosts: [a.example]\n  ports: [{number: 80, name: a, protocol: SMTP}]\n  resolution: DNS", "spec.ports[0].protocol"},
		{"ServiceEntry", "hosts: [a.example]\n  exportTo: ['*', a]\n  resolution: DNS", "spec.exportTo"},
		{"ServiceEntry", "hosts: [a.example]\n  exportTo: [., a]\n  resolution: DNS", "spec.exportTo[1]: \"a\" is there twice"},
		{"ServiceEntry", "hosts: [a.example]\n  exportTo: ['~']\n  resolution: DNS", ""},
		{"WorkloadEntry", "address: a_b", "spec.address"},
		{"WorkloadEntry", "address: 1.2.3.4\n  labels: {a: -b}", "spec.labels.a"},
		{"WorkloadEntry", "network: east", ""},
		// Of VirtualServices.
		{"VirtualService", "hosts: [x.com, '*.com']\n  http: [{redirect: {uri: /}}]", "spec.hosts[1]: \"*.com\" overlaps with \"x.com\""},
		{"VirtualService", "hosts: [a]\n  http: [{timeout: 0s, route: [{destination: {host: a}}]}]", "spec.http[0].timeout: 0s is less than 1ms"},
		{"VirtualService", "hosts: [a]\n  http: [{timeout: 1.0005s, route: [{destination: {host: a}}]}]", "spec.http[0].timeout: 1.0005s is not a whole number"},
		{"VirtualService", "hosts: [a]\n  http: [{name: b}]", "spec.http[0]: one of route"},
		{"VirtualService", "hosts: [a]\n  http: [{redirect: {uri: /}, route: [{destination: {host: a}}]}]", "spec.http[0].redirect: not together"},
		{"VirtualService", "hosts: [a]\n  http: [{redirect: {redirectCode: 200, uri: /}}]", "spec.http[0].redirect.redirectCode: 200"},
		{"VirtualService", "hosts: [a]\n  http: [{directResponse: {status: 199}}]", "spec.http[0].directResponse.status: 199"},
		{"VirtualService", "hosts: [a]\n  http: [{route: [{destination: {host: a}}, {destination: {host: b}}]}]", "spec.http[0].route: the weights add up to 0"},
		{"VirtualService", "hosts: [a]\n  http: [{route: [{destination: {host: a}, weight: -1}]}]", "spec.http[0].route[0].weight: -1 is negative"},
		{"VirtualService", "hosts: [a]\n  http: [{retries: {attempts: 0, retryOn: 5xx}, route: [{destination: {host: a}}]}]", "spec.http[0].retries: attempts is 0"},
		{"VirtualService", "hosts: [a]\n  http: [{retries: {attempts: 1, retryOn: '5xx,soon'}, route: [{destination: {host: a}}]}]", "spec.http[0].retries.retryOn: \"soon\""},
		{"VirtualService", "hosts: [a]\n  http: [{retries: {attempts: 1, retryOn: '5xx,503'}, route: [{destination: {host: a}}]}]", ""},
		{"VirtualService", "hosts: [a]\n  http: [{match: [{uri: {regex: '['}}], route: [{destination: {host: a}}]}]", "spec.http[0].match[0].uri.regex"},
		{"VirtualService", "hosts: [a]\n  http: [{match: [{uri: {prefix: ''}}], route: [{destination: {host: a}}]}]", ""},
		{"VirtualService", "hosts: [a]\n  http: [{match: [{method: {prefix: ''}}], route: [{destination: {host: a}}]}]", "spec.http[0].match[0].method.prefix: empty"},
		{"VirtualService", "hosts: [a]\n  http: [{match: [{headers: {'@request.auth.claims.a': {exact: b}}}], route: [{destination: {host: a}}]}]", "only gateways route by claims"},
		{"VirtualService", "hosts: [a]\n  http: [{match: [{headers: {'a b': {exact: b}}}], route: [{destination: {host: a}}]}]", "\"a b\" is not the name of a header"},
		{"VirtualService", "hosts: [a]\n  http: [{headers: {request: {set: {':path': b}}}, route: [{destination: {host: a}}]}]", "\":path\" cannot be changed"},
		{"VirtualService", "hosts: [a]\n  http: [{headers: {request: {set: {':authority': b}}}, route: [{destination: {host: a}}]}]", ""},
		{"VirtualService", "hosts: [a]\n  http: [{headers: {response: {set: {b: '50%'}}}, route: [{destination: {host: a}}]}]", "\"50%\" is not the value of a header"},
		{"VirtualService", "hosts: [a]\n  http: [{headers: {response: {set: {b: '50%% %REQ(x)% %DYNAMIC_METADATA([\"a\", \"b\"])%'}}}, route: [{destination: {host: a}}]}]", ""},
		{"VirtualService", "hosts: [a]\n  http: [{fault: {abort: {httpStatus: 999, percentage: {value: 1}}}, route: [{destination: {host: a}}]}]", "spec.http[0].fault.abort.httpStatus: 999"},
		{"VirtualService", "hosts: [a]\n  http: [{fault: {delay: {fixedDelay: 1s, percentage: {value: 101}}}, route: [{destination: {host: a}}]}]", "spec.http[0].fault.delay.percentage.value: 101"},
		{"VirtualService", "hosts: [a]\n  http: [{corsPolicy: {allowMethods: [GRAB]}, route: [{destination: {host: a}}]}]", "spec.http[0].corsPolicy.allowMethods[0]"},
		{"VirtualService", "hosts: [a]\n  http: [{rewrite: {}, route: [{destination: {host: a}}]}]", "spec.http[0].rewrite: one of uri"},
		{"VirtualService", "hosts: [a]\n  http: [{route: [{destination: {host: a, subset: b.c}}]}]", "spec.http[0].route[0].destination.subset"},
		{"VirtualService", "hosts: [a.b]\n  tls: [{match: [{sniHosts: [c.d]}], route: [{destination: {host: a}}]}]", "spec.tls[0].match[0].sniHosts[0]: \"c.d\" is not among the hosts a.b"},
		{"VirtualService", "hosts: ['*.b']\n  tls: [{match: [{sniHosts: [a.b]}], route: [{destination: {host: a}}]}]", ""},
		{"VirtualService", "hosts: [a]\n  gateways: [a/b/c]\n  http: [{redirect: {uri: /}}]", "spec.gateways[0]"},
		{"VirtualService", "hosts: [a]\n  exportTo: ['~']\n  http: [{redirect: {uri: /}}]", "spec.exportTo[0]"},
		// Of DestinationRules.
		{"DestinationRule", "host: a\n  trafficPolicy: {}", "spec.trafficPolicy: empty"},
		{"DestinationRule", "host: a\n  subsets: [{name: v1, labels: {a: b}}, {name: v1, labels: {a: c}}]", "spec.subsets[1].name: \"v1\" is there twice"},
		{"DestinationRule", "host: a\n  trafficPolicy: {outlierDetection: {maxEjectionPercent: 101}}", "spec.trafficPolicy.outlierDetection.maxEjectionPercent: 101"},
		{"DestinationRule", "host: a\n  trafficPolicy: {connectionPool: {tcp: {connectTimeout: 0s}}}", "spec.trafficPolicy.connectionPool.tcp.connectTimeout"},
		{"DestinationRule", "host: a\n  trafficPolicy: {connectionPool: {tcp: {idleTimeout: 0s}}}", ""},
		{"DestinationRule", "host: a\n  trafficPolicy: {tls: {mode: MUTUAL}}", "spec.trafficPolicy.tls.clientCertificate: missing"},
		{"DestinationRule", "host: a\n  trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: a, maglev: {tableSize: 4}}}}", "spec.trafficPolicy.loadBalancer.consistentHash.maglev.tableSize: 4"},
		{"DestinationRule", "host: a\n  trafficPolicy: {loadBalancer: {localityLbSetting: {distribute: [{from: r/a, to: {r/a: 60, r/b: 30}}]}}}", "distribute[0].to: the weights add up to 90, not 100"},
		{"DestinationRule", "host: a\n  trafficPolicy: {loadBalancer: {localityLbSetting: {distribute: [{from: 'r/*', to: {r: 100}}, {from: r/a, to: {r: 100}}]}}}", "overlap"},
		{"DestinationRule", "host: a\n  trafficPolicy: {loadBalancer: {localityLbSetting: {distribute: [{from: r/a, to: {r: 100}}, {from: 'r/*', to: {r: 100}}]}}}", ""},
		{"DestinationRule", "host: a\n  trafficPolicy: {loadBalancer: {localityLbSetting: {failover: [{from: a, to: a}]}}}", "failover[0]: from and to are both \"a\""},
		{"DestinationRule", "host: a\n  trafficPolicy: {portLevelSettings: [{port: {number: 80}}]}", "spec.trafficPolicy.portLevelSettings[0]: empty"},
		{"DestinationRule", "host: a\n  workloadSelector: {matchLabels: {a: b}}\n  exportTo: ['*']", "spec.exportTo[0]"},
		// Of Gateways and Sidecars.
		{"Gateway", "servers: [{port: {number: 443, name: a, protocol: HTTPS}, hosts: ['*']}]", "spec.servers[0].tls: missing"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, tls: {mode: SIMPLE, credentialName: a}, hosts: ['*']}]", "spec.servers[0].tls: protocol HTTP has no TLS"},
		{"Gateway", "servers: [{port: {number: 443, name: a, protocol: HTTPS}, tls: {mode: SIMPLE}, hosts: ['*']}]", "spec.servers[0].tls: mode SIMPLE needs a certificate"},
		{"Gateway", "servers: [{port: {number: 443, name: a, protocol: HTTPS}, tls: {mode: ISTIO_MUTUAL, credentialName: a}, hosts: ['*']}]", "ISTIO_MUTUAL has certificates of its own"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: ['*']}, {port: {number: 81, name: a, protocol: HTTP}, hosts: ['*']}]", "spec.servers[1].port.name: \"a\" is there twice"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: WEB}, hosts: ['*']}]", "spec.servers[0].port.protocol"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, bind: here, hosts: ['*']}]", "spec.servers[0].bind"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: ['*a.b']}]", "spec.servers[0].hosts[0]"},
		{"Sidecar", "workloadSelector: {labels: {a: b}}", "one of egress, ingress"},
		{"Sidecar", "egress: [{hosts: ['./*'], port: {number: 80, protocol: HTTP, name: a}}, {hosts: ['./*'], port: {number: 80, protocol: HTTP, name: b}}]", "another listener has port 80"},
		{"Sidecar", "egress: [{hosts: ['./*'], port: {number: 80, protocol: WEB, name: a}}]", "spec.egress[0].port.protocol"},
		{"Sidecar", "ingress: [{port: {number: 80, protocol: HTTP, name: a}, defaultEndpoint: '10.0.0.1:80'}]", "spec.ingress[0].defaultEndpoint"},
		{"Sidecar", "ingress: [{port: {number: 80, protocol: HTTP, name: a}, tls: {mode: SIMPLE, serverCertificate: a, privateKey: b}}]", "spec.ingress[0].tls: protocol HTTP has no TLS"},
		{"Sidecar", "outboundTrafficPolicy: {mode: REGISTRY_ONLY, egressProxy: {host: a.b, port: {number: 80}}}", "spec.outboundTrafficPolicy.egressProxy"},
		// Of policies.
		{"PeerAuthentication", "portLevelMtls: {80: {mode: STRICT}}", "spec.portLevelMtls: only with a selector"},
		{"RequestAuthentication", "jwtRules: [{audiences: [a]}]", "spec.jwtRules[0]: one of issuer"},
		{"RequestAuthentication", "jwtRules: [{issuer: a, jwksUri: 'ftp://a'}]", "spec.jwtRules[0].jwksUri"},
		{"AuthorizationPolicy", "action: DENY", "spec.rules: missing"},
		{"AuthorizationPolicy", "action: CUSTOM\n  rules: [{}]", "spec.provider.name: missing"},
		{"AuthorizationPolicy", "rules: [{from: [{source: {}}]}]", "spec.rules[0].from[0].source: empty"},
		{"AuthorizationPolicy", "rules: [{from: [{source: {ipBlocks: [a]}}]}]", "spec.rules[0].from[0].source.ipBlocks[0]"},
		{"AuthorizationPolicy", "rules: [{to: [{operation: {ports: ['70000']}}]}]", "spec.rules[0].to[0].operation.ports[0]"},
		{"AuthorizationPolicy", "rules: [{to: [{operation: {paths: ['/{**}/a/{*}']}}]}]", "spec.rules[0].to[0].operation.paths[0]"},
		{"AuthorizationPolicy", "rules: [{when: [{key: request.headers, values: [a]}]}]", "spec.rules[0].when[0].key"},
		{"AuthorizationPolicy", "rules: [{when: [{key: source.colour, values: [a]}]}]", "spec.rules[0].when[0].key"},
		{"AuthorizationPolicy", "rules: [{when: [{key: 'request.headers[a]', values: [a]}, {key: destination.port, notValues: ['80']}]}]", ""},
		{"AuthorizationPolicy", "selector: {matchLabels: {a: '*'}}", "spec.selector.matchLabels"},
		{"Telemetry", "tracing: [{randomSamplingPercentage: 101}]", "spec.tracing[0].randomSamplingPercentage"},
		{"Telemetry", "accessLogging: [{providers: [{name: ''}]}]", "spec.accessLogging[0].providers[0].name"},
		{"WasmPlugin", "url: 'ftp://a/b'", "spec.url"},
		{"WasmPlugin", "url: a/b\n  sha256: abc", "spec.sha256"},
		{"EnvoyFilter", "configPatches: [{applyTo: CLUSTER, match: {listener: {}}, patch: {operation: REMOVE}}]", "spec.configPatches[0].match"},
		{"EnvoyFilter", "configPatches: [{applyTo: CLUSTER, patch: {operation: ADD}}]", "spec.configPatches[0].patch.value: missing"},
		{"EnvoyFilter", "configPatches: [{applyTo: CLUSTER, match: {proxy: {proxyVersion: '('}}, patch: {operation: REMOVE}}]", "spec.configPatches[0].match.proxy.proxyVersion"},
		{"ProxyConfig", "concurrency: -1", "spec.concurrency: -1 is negative"},

		{"ServiceEntry", "hosts: ['*.Example.com.', '*-a.b', '*x.b', a]\n  addresses: [1.2.3.4/24, '::1']\n  ports: [{number: 65535, name: http, protocol: HTTP}]\n  resolution: NONE", ""},
		{"VirtualService", "http: [{route: [{destination: {host: a}}]}]", ""},
		{"VirtualService", "hosts: [1.2.3.4, '::1', '*.a']\n  http: [{redirect: {uri: /}}]", ""},
		{"VirtualService", "hosts: ['*']\n  gateways: [g]\n  http: [{route: [{destination: {host: a}}]}]", ""},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: [1.2.3.4, '*', './a.b', '*/*.c', 'ns/*']}]", ""},
		{"Gateway", "servers: [{port: {number: 0, name: a, protocol: HTTP}, bind: 'unix:///a', hosts: ['*']}]", ""},
		{"Sidecar", "egress: [{hosts: ['./*', '~/*', '*/a.b']}]", ""},
		{"Sidecar", "egress: [{port: {number: 0, protocol: HTTP, name: a}, bind: 'unix:///tmp/x', hosts: ['./*']}]", ""},
		{"DestinationRule", "host: '*'", ""},
	} {
		text := "apiVersion: " + apiVersionOf(c.kind) + "\nkind: " + c.kind + "\nmetadata: {name: x, namespace: a}\nspec:\n  " + c.spec + "\n"
		r := readText(t, text)
		switch {
		case c.refused == "" && (len(r.Objects) != 1 || len(r.Diagnostics) > 0):
			t.Errorf("%s refused: %v\n%s", c.kind, r.Diagnostics, c.spec)
		case c.refused != "" && (len(r.Objects) != 0 || len(r.Diagnostics) != 1 || !strings.Contains(r.Diagnostics[0].Text, c.refused)):
			t.Errorf("want %q, have %v\n%s", c.refused, r.Diagnostics, c.spec)
		}
	}
}

func apiVersionOf(kind string) string {
	switch kind {
	case "PeerAuthentication", "RequestAuthentication", "AuthorizationPolicy":
		return "security.istio.io/v1"
	case "Telemetry":
		return "telemetry.istio.io/v1"
	case "WasmPlugin":
		return "extensions.istio.io/v1alpha1"
	case "EnvoyFilter":
		return "networking.istio.io/v1alpha3"
	case "ProxyConfig":
		return "networking.istio.io/v1beta1"
	}
	return "networking.istio.io/v1"
}

func readText(t *testing.T, text string) *load.Result {
	t.Helper()
	r, err := load.Files(t.Context(), load.Options{Filenames: []string{"-"}, Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
