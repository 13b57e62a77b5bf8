package diff_test

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// What callers see follows Envoy: a listener's other chain, the port's wildcard
// listener, virtualOutbound; a virtual host's wildcard, then none.
func TestSees(t *testing.T) {
	strict := []result.Service{{Host: "api.apps", Namespace: "apps", MTLS: "STRICT"}}
	two := []result.Service{{Host: "api.apps", MTLS: "STRICT"}, {Host: "web.apps", MTLS: "PERMISSIVE"}}
	of := func(service string, p result.Part) result.Part {
		p.Service = service
		return p
	}
	routed := func(to string) []*result.Resource { return []*result.Resource{res("80", host("api", "api", to))} }
	for name, c := range map[string]struct {
		base, head mesh
		want       []string
	}{
		"a TCP listener under ALLOW_ANY": {
			mesh{lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api)), outbound("PassthroughCluster")}},
			mesh{lds: []*result.Resource{outbound("PassthroughCluster")}},
			[]string{"lost lds 10.0.0.1_80: passthrough"},
		},
		"the same, of a STRICT service": {
			mesh{services: strict, lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api)), outbound("PassthroughCluster")}},
			mesh{services: strict, lds: []*result.Resource{outbound("PassthroughCluster")}},
			[]string{"lost lds 10.0.0.1_80: connection reset"},
		},
		"the same under REGISTRY_ONLY": {
			mesh{lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api)), outbound("BlackHoleCluster")}},
			mesh{lds: []*result.Resource{outbound("BlackHoleCluster")}},
			[]string{"lost lds 10.0.0.1_80: connection closed by outboundTrafficPolicy"},
		},
		"an SNI chain without a default": {
			mesh{lds: []*result.Resource{res("0.0.0.0_443", chain("sni:a", "cluster outbound|443||a"), chain("sni:b", "cluster outbound|443||b")), outbound("PassthroughCluster")}},
			mesh{lds: []*result.Resource{res("0.0.0.0_443", chain("sni:b", "cluster outbound|443||b")), outbound("PassthroughCluster")}},
			[]string{"lost lds 0.0.0.0_443 [sni:a]: connection closed (no filter chain"},
		},
		"a virtual host beside block_all": {
			mesh{lds: []*result.Resource{outbound("BlackHoleCluster")}, rds: []*result.Resource{res("80", host("api", "api", api), host("block_all", "*", "direct:502"))}},
			mesh{lds: []*result.Resource{outbound("BlackHoleCluster")}, rds: []*result.Resource{res("80", host("block_all", "*", "direct:502"))}},
			[]string{"lost rds 80 [api]: 502"},
		},
		"a virtual host without a catch-all": {
			mesh{rds: []*result.Resource{res("http.80", host("api", "api", api), host("web", "web", api))}},
			mesh{rds: []*result.Resource{res("http.80", host("web", "web", api))}},
			[]string{"lost rds http.80 [api]: 404 NR"},
		},
		"a virtual host whose domain a wildcard takes": {
			mesh{rds: []*result.Resource{res("http.80", host("api", "a.example", api), host("all", "*.example", api))}},
			mesh{rds: []*result.Resource{res("http.80", host("all", "*.example", api))}},
			[]string{"lost rds http.80 [api]"},
		},
		"a cluster that a route still leads to": {
			mesh{cds: []*result.Resource{res(apiV1, result.Part{Type: "EDS"})}, rds: []*result.Resource{res("80", host("api", "api", apiV1))}},
			mesh{rds: []*result.Resource{res("80", host("api", "api", apiV1))}},
			[]string{"lost cds " + apiV1 + ": 503 NC"},
		},
		"endpoints that all go": {
			mesh{rds: routed(api), eds: []*result.Resource{res(api, result.Part{Endpoints: new(3)})}},
			mesh{rds: routed(api), eds: []*result.Resource{res(api, result.Part{Endpoints: new(0)})}},
			[]string{"lost eds " + api + " endpoints: 503 UH"},
		},
		"endpoints that all go, of a chain": {
			mesh{lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api))}, eds: []*result.Resource{res(api, result.Part{Endpoints: new(3)})}},
			mesh{lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api))}, eds: []*result.Resource{res(api, result.Part{Endpoints: new(0)})}},
			[]string{"lost eds " + api + " endpoints: connection closed (no endpoint)"},
		},
		"endpoints that all go, of a cluster by DNS": {
			mesh{rds: routed(api), cds: []*result.Resource{res(api, result.Part{Type: "STRICT_DNS", Endpoints: new(1)})}},
			mesh{rds: routed(api), cds: []*result.Resource{res(api, result.Part{Type: "STRICT_DNS", Endpoints: new(0)})}},
			[]string{"lost cds " + api + " endpoints: 503 UH"},
		},
		"endpoints that all go, of what nothing leads to": {
			mesh{eds: []*result.Resource{res(api, result.Part{Endpoints: new(3)})}},
			mesh{eds: []*result.Resource{res(api, result.Part{Endpoints: new(0)})}},
			[]string{"lost eds " + api + " endpoints (harmless)"},
		},
		"a cluster that only mirrored requests go to": {
			mesh{cds: []*result.Resource{res(apiV1, result.Part{Type: "EDS"})}, rds: routed("mirror " + apiV1)},
			mesh{rds: routed("mirror " + apiV1)},
			[]string{"lost cds " + apiV1 + " (harmless)"},
		},
		"a chain that leads to no cluster": {
			mesh{cds: []*result.Resource{res(api, result.Part{Type: "EDS"})}, lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api))}},
			mesh{cds: []*result.Resource{res(api, result.Part{Type: "EDS"})}, lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+apiV1))}},
			[]string{"changed lds 10.0.0.1_80 [] to: connection closed: the chain leads to " + apiV1 + ": the service has no subset v1"},
		},
		"a virtual host that takes a wildcard's domain to no cluster": {
			mesh{cds: []*result.Resource{res(api, result.Part{})}, rds: []*result.Resource{res("http.80", host("all", "*.example", api))}},
			mesh{cds: []*result.Resource{res(api, result.Part{})}, rds: []*result.Resource{res("http.80", host("all", "*.example", api), host("new", "a.example", "outbound|80||none.apps"))}},
			[]string{"gained rds http.80 [new]: 503 NC for what is led to outbound|80||none.apps: no service of the name is in this proxy's scope"},
		},
		"a virtual host that a wildcard leads elsewhere": {
			mesh{rds: []*result.Resource{res("http.80", host("api", "a.example", api), host("all", "*.example", apiV1))}},
			mesh{rds: []*result.Resource{res("http.80", host("all", "*.example", apiV1))}},
			[]string{"lost rds http.80 [api]: virtual host all instead"},
		},
		"passthrough to a service of which some endpoints are STRICT": {
			mesh{services: []result.Service{{Host: "api.apps", MTLS: "MIXED"}}, lds: []*result.Resource{res("10.0.0.1_80", chain("", "cluster "+api)), outbound("PassthroughCluster")}},
			mesh{services: []result.Service{{Host: "api.apps", MTLS: "MIXED"}}, lds: []*result.Resource{outbound("PassthroughCluster")}},
			[]string{"lost lds 10.0.0.1_80: passthrough: forwarded as it is to the original address, without the mesh's routes, policy or mTLS; connection reset by the endpoints of api.apps that demand STRICT mTLS"},
		},
		"a PERMISSIVE service's port that leads to a STRICT one": {
			mesh{services: two, lds: []*result.Resource{res("10.0.0.1_80", of("web.apps", chain("", "cluster "+api))), outbound("PassthroughCluster")}},
			mesh{services: two, lds: []*result.Resource{outbound("PassthroughCluster")}},
			[]string{"lost lds 10.0.0.1_80: passthrough"},
		},
		"an inbound plaintext chain beside another": {
			mesh{lds: []*result.Resource{outbound("PassthroughCluster"), res("virtualInbound", chain("dst:*:80 app:http/1.1 transport:raw_buffer"), chain("dst:*:80 transport:raw_buffer"), chain("dst:*:80 transport:tls"))}},
			mesh{lds: []*result.Resource{outbound("PassthroughCluster"), res("virtualInbound", chain("dst:*:80 transport:raw_buffer"), chain("dst:*:80 transport:tls"))}},
			[]string{"lost lds virtualInbound [dst:*:80 app:http/1.1 transport:raw_buffer] (harmless)"},
		},
		"an SNI chain whose connections the default takes to the same": {
			mesh{lds: []*result.Resource{res("0.0.0.0_443", chain("sni:a", "cluster outbound|443||a"), chain("default", "cluster PassthroughCluster")), outbound("PassthroughCluster")}},
			mesh{lds: []*result.Resource{res("0.0.0.0_443", chain("", "cluster outbound|443||a")), outbound("PassthroughCluster")}},
			[]string{
				"lost lds 0.0.0.0_443 [default]: led to outbound|443||a instead",
				`lost lds 0.0.0.0_443 [sni:a]: filter chain "" instead (harmless)`,
				"gained lds 0.0.0.0_443 []",
			},
		},
		"a listener whose connections the wildcard one leads to another service": {
			mesh{lds: []*result.Resource{res("10.0.0.1_443", chain("", "cluster outbound|443||a")), res("0.0.0.0_443", chain("", "cluster outbound|443||b"))}},
			mesh{lds: []*result.Resource{res("0.0.0.0_443", chain("", "cluster outbound|443||b")), outbound("PassthroughCluster")}},
			[]string{"lost lds 10.0.0.1_443: led to outbound|443||b instead", "gained lds virtualOutbound"},
		},
		"endpoints that all go with the cluster's type": {
			mesh{rds: routed(api), cds: []*result.Resource{res(api, result.Part{Type: "STRICT_DNS", Endpoints: new(1)})}},
			mesh{rds: routed(api), cds: []*result.Resource{res(api, result.Part{Type: "EDS"})}, eds: []*result.Resource{res(api, result.Part{Endpoints: new(0)})}},
			[]string{"changed cds " + api + " type,endpoints: 503 UH", "gained eds " + api},
		},
		"a new Service without endpoints": {
			mesh{rds: []*result.Resource{res("80", host("allow_any", "*", "PassthroughCluster"))}},
			mesh{
				services: []result.Service{{Host: "new.apps", Namespace: "apps", Ref: result.Ref{Kind: "Service", Namespace: "apps", Name: "new"}}},
				objects:  []result.Object{object("Service", "new", "1")},
				rds:      []*result.Resource{res("80", of("new.apps", host("new", "new:80", "outbound|80||new.apps")), host("allow_any", "*", "PassthroughCluster"))},
				cds:      []*result.Resource{res("outbound|80||new.apps", result.Part{Type: "EDS"})}, eds: []*result.Resource{res("outbound|80||new.apps", result.Part{Endpoints: new(0)})},
			},
			[]string{"gained cds outbound|80||new.apps", "gained eds outbound|80||new.apps", "gained rds 80 [new]"},
		},
		"a new ServiceEntry without endpoints": {
			mesh{rds: []*result.Resource{res("80", host("allow_any", "*", "PassthroughCluster"))}},
			mesh{
				services: []result.Service{{Host: "new.example", Namespace: "apps", Ref: result.Ref{Kind: "ServiceEntry", Namespace: "apps", Name: "new"}}},
				objects:  []result.Object{object("ServiceEntry", "new", "1")},
				rds:      []*result.Resource{res("80", of("new.example", host("new", "new.example:80", "outbound|80||new.example")), host("allow_any", "*", "PassthroughCluster"))},
				cds:      []*result.Resource{res("outbound|80||new.example", result.Part{Type: "EDS"})}, eds: []*result.Resource{res("outbound|80||new.example", result.Part{Endpoints: new(0)})},
			},
			[]string{"gained rds 80 [new]: 503 UH", "gained cds outbound|80||new.example", "gained eds outbound|80||new.example"},
		},
		"some endpoints": {
			mesh{eds: []*result.Resource{res(api, result.Part{Endpoints: new(3)})}},
			mesh{eds: []*result.Resource{res(api, result.Part{Endpoints: new(2)})}},
			[]string{"resized eds " + api + " endpoints"},
		},
	} {
		t.Run(name, func(t *testing.T) { expect(t, compare(c.base, c.head), c.want...) })
	}
}
