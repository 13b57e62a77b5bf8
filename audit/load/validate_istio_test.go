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
		{"VirtualService", "gateways: [g]\n  http: [{route: [{destination: {host: a}}]}]", "spec.hosts is empty"},
		{"VirtualService", "hosts: [a]", "one of http, tls, tcp"},
		{"VirtualService", "hosts: ['*']\n  http: [{route: [{destination: {host: a}}]}]", "spec.hosts[0]"},
		{"VirtualService", "hosts: [a_b]\n  http: [{route: [{destination: {host: a}}]}]", "spec.hosts[0]"},
		{"VirtualService", "hosts: [a]\n  http: [{route: [{destination: {host: '*'}}]}]", "spec.http[0].route[0].destination.host"},
		{"VirtualService", "hosts: [a]\n  tcp: [{route: [{destination: {host: a, port: {number: 0}}}]}]", "spec.tcp[0].route[0].destination.port.number: 0"},
		{"DestinationRule", "host: 'a/b'", "spec.host"},
		{"Gateway", "servers: []", "spec.servers is empty"},
		{"Gateway", "servers: [{port: {number: 65536, name: a, protocol: HTTP}, hosts: ['*']}]", "spec.servers[0].port.number"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: []}]", "spec.servers[0].hosts is empty"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: [short]}]", "short name"},
		{"Gateway", "servers: [{port: {number: 80, name: a, protocol: HTTP}, hosts: ['n.s/a.example']}]", "spec.servers[0].hosts[0]"},
		{"Sidecar", "egress: [{hosts: [a/b/c]}]", "spec.egress[0].hosts[0]"},
		{"Sidecar", "egress: [{hosts: [a.example]}]", "namespace/dnsName"},
		{"Sidecar", "egress: [{hosts: []}]", "spec.egress[0].hosts is empty"},
		{"Sidecar", "egress: [{hosts: ['./*']}, {hosts: ['./*'], port: {number: 80, protocol: HTTP, name: a}}]", "spec.egress[0]"},
		{"Sidecar", "ingress: [{port: {number: 0, protocol: HTTP, name: a}, defaultEndpoint: '127.0.0.1:80'}]", "spec.ingress[0].port.number"},
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
		text := "apiVersion: networking.istio.io/v1\nkind: " + c.kind + "\nmetadata: {name: x, namespace: a}\nspec:\n  " + c.spec + "\n"
		r := readText(t, text)
		switch {
		case c.refused == "" && (len(r.Objects) != 1 || len(r.Diagnostics) > 0):
			t.Errorf("%s refused: %v\n%s", c.kind, r.Diagnostics, c.spec)
		case c.refused != "" && (len(r.Objects) != 0 || len(r.Diagnostics) != 1 || !strings.Contains(r.Diagnostics[0].Text, c.refused)):
			t.Errorf("want %q, have %v\n%s", c.refused, r.Diagnostics, c.spec)
		}
	}
}

func readText(t *testing.T, text string) *load.Result {
	t.Helper()
	r, err := load.Files(t.Context(), load.Options{Filenames: []string{"-"}, Stdin: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
