package scope_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// gateway reads a spec in YAML.
func gateway(t *testing.T, name, spec string) *snapshot.Config[*networking.Gateway] {
	t.Helper()
	json, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	g := &networking.Gateway{}
	if err := g.UnmarshalJSON(json); err != nil {
		t.Fatal(err)
	}
	ns, short, _ := strings.Cut(name, "/")
	return &snapshot.Config[*networking.Gateway]{Meta: snapshot.Meta{Kind: "Gateway", Namespace: ns, Name: short}, Spec: g}
}

func http(number int, name string, hosts ...string) string {
	return server(number, "HTTP", name, "", hosts...)
}

func server(number int, protocol, name, more string, hosts ...string) string {
	return fmt.Sprintf("- {port: {number: %d, protocol: %s, name: %s}, hosts: ['%s']%s}\n", number, protocol, name, strings.Join(hosts, "','"), more)
}

// target is a port of a Service that selects the router.
func target(host string, port, targetPort int, labels map[string]string) mesh.ServiceTarget {
	return mesh.ServiceTarget{
		Service:    &mesh.Service{Host: host, Namespace: "istio-system", Labels: labels},
		Port:       mesh.Port{Number: port, Protocol: mesh.TCP},
		TargetPort: targetPort,
	}
}

func render(g *scope.MergedGateway) string {
	if g == nil {
		return "none"
	}
	var b strings.Builder
	for _, p := range g.Ports {
		fmt.Fprintf(&b, "%s_%d %s", p.Bind, p.Port, p.Protocol)
		for _, s := range p.Servers {
			fmt.Fprintf(&b, " [%s %d %s %s]", s.GatewayName(), s.Index, strings.Join(s.Hosts, ","), s.Route)
		}
		b.WriteByte('\n')
	}
	for _, s := range g.Skipped {
		fmt.Fprintf(&b, "skipped %s %d %s\n", s.Server.GatewayName(), s.Server.Index, s.Rule)
	}
	return b.String()
}

func TestMergedGateway(t *testing.T) {
	const simple = ", tls: {mode: SIMPLE, credentialName: c}"
	ingress := target("ingress", 80, 8080, nil)
	tests := []struct {
		name     string
		gateways []string // "ns/name" and spec, alternating
		targets  []mesh.ServiceTarget
		flags    mesh.Flags
		meta     mesh.Metadata
		want     string
	}{
		{
			name:     "no Gateway selects the pod",
			gateways: []string{"a/g", "selector: {app: other}\nservers:\n" + http(80, "http", "*")},
			want:     "none",
		}, {
			name:     "no selector binds every router",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*")},
			want:     "_80 HTTP [a/g 0 * http.80]\n",
		}, {
			name:     "hosts",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "./x.com", "*/y.com", "b/z.com", "w.com") + http(81, "h", "./x.com", "*/*")},
			want:     "_80 HTTP [a/g 0 a/x.com,y.com,b/z.com,w.com http.80]\n_81 HTTP [a/g 1 * http.81]\n",
		}, {
			name:     "target ports, first Service first",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*") + server(443, "HTTPS", "https", simple, "x.com") + http(9000, "other", "*")},
			targets:  []mesh.ServiceTarget{ingress, target("second", 80, 9999, nil), target("ingress", 443, 8443, nil)},
			want:     "_8080 HTTP [a/g 0 * http.8080]\n_8443 HTTPS [a/g 1 x.com https.443.https.g.a]\n_9000 HTTP [a/g 2 * http.9000]\n",
		}, {
			name:     "a Service that opts out of translation",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*")},
			targets: []mesh.ServiceTarget{
				target("first", 80, 1234, map[string]string{"experimental.istio.io/disable-gateway-port-translation": ""}), ingress,
			},
			want: "_8080 HTTP [a/g 0 * http.8080]\n",
		}, {
			name:     "two ports that lead to one target port share its route",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "x.com"), "b/g", "servers:\n" + http(8080, "http", "y.com")},
			targets:  []mesh.ServiceTarget{ingress},
			want:     "_8080 HTTP [a/g 0 x.com http.8080] [b/g 0 y.com http.8080]\n",
		}, {
			name:     "own namespace only",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*"), "istio-system/g", "servers:\n" + http(81, "http", "*")},
			flags:    mesh.Flags{ScopeGatewayToNamespace: true},
			want:     "_81 HTTP [istio-system/g 0 * http.81]\n",
		}, {
			name:     "HTTPS is turned away where plain HTTP was first",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*") + server(80, "HTTPS", "https", simple, "x.com") + server(80, "TCP", "tcp", "", "*")},
			want:     "_80 HTTP [a/g 0 * http.80]\nskipped a/g 1 GW-5\nskipped a/g 2 GW-5\n",
		}, {
			name:     "plain HTTP after HTTPS is a part of its own",
			gateways: []string{"a/g", "servers:\n" + server(80, "HTTPS", "https", simple, "x.com") + http(80, "http", "*")},
			want:     "_80 HTTPS [a/g 0 x.com https.80.https.g.a]\n_80 HTTP [a/g 1 * http.80]\n",
		}, {
			name: "HTTPS servers stand side by side, but not with one host or one port name",
			gateways: []string{
				"a/g", "servers:\n" + server(443, "HTTPS", "https", simple, "x.com") + server(443, "HTTPS", "https", simple, "y.com") +
					server(443, "HTTPS", "https-2", simple, "z.com", "x.com") + server(443, "HTTPS", "https-3", simple, "z.com"),
				"b/g", "servers:\n" + server(443, "HTTPS", "https", simple, "b.com"),
			},
			want: "_443 HTTPS [a/g 0 x.com https.443.https.g.a] [a/g 3 z.com https.443.https-3.g.a] [b/g 0 b.com https.443.https.g.b]\n" +
				"skipped a/g 1 GW-5\nskipped a/g 2 GW-5\n",
		}, {
			name:     "plain HTTP with a redirect claims its hosts",
			gateways: []string{"a/g", "servers:\n" + server(80, "HTTP", "http", ", tls: {httpsRedirect: true}", "x.com") + server(80, "HTTP", "h2", ", tls: {httpsRedirect: true}", "x.com")},
			want:     "_80 HTTP [a/g 0 x.com http.80]\nskipped a/g 1 GW-5\n",
		}, {
			name:     "another bind is another listener",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*") + server(80, "TCP", "tcp", ", bind: 10.0.0.1", "*") + server(80, "HTTP", "h", ", bind: 10.0.0.1", "*")},
			want:     "_80 HTTP [a/g 0 * http.80]\n10.0.0.1_80 TCP [a/g 1 * ]\nskipped a/g 2 GW-5\n",
		}, {
			name:     "TCP twice",
			gateways: []string{"a/g", "servers:\n" + server(90, "TCP", "t1", "", "*") + server(90, "TCP", "t2", "", "*")},
			want:     "_90 TCP [a/g 0 * ]\nskipped a/g 1 GW-5\n",
		}, {
			name:     "unprivileged",
			gateways: []string{"a/g", "servers:\n" + http(80, "http", "*") + http(1024, "other", "*")},
			meta:     mesh.Metadata{Unprivileged: true},
			want:     "_1024 HTTP [a/g 1 * http.1024]\nskipped a/g 0 GW-7\n",
		}, {
			name:     "servers without a port",
			gateways: []string{"a/g", "servers:\n- {hosts: ['*']}\n"},
			want:     "skipped a/g 0 GW-5\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			view := &mesh.View{Flags: test.flags}
			for i := 0; i < len(test.gateways); i += 2 {
				view.Gateways = append(view.Gateways, gateway(t, test.gateways[i], test.gateways[i+1]))
			}
			p := &mesh.Proxy{Kind: mesh.RouterProxy, Namespace: "istio-system", Labels: mesh.LabelsOf(map[string]string{"app": "ingress"}), Targets: test.targets, Metadata: test.meta}
			if diff := cmp.Diff(test.want, render(scope.NewScoper(view, scope.NewRecorder()).MergedGateway(p))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMergedGatewaySharedByKey(t *testing.T) {
	view := &mesh.View{Gateways: []*snapshot.Config[*networking.Gateway]{
		gateway(t, "a/none", "selector: {app: other}\nservers:\n"+http(80, "http", "*")),
		gateway(t, "a/g", "selector: {app: ingress}\nservers:\n"+http(80, "http", "*")+server(443, "HTTPS", "https", ", tls: {mode: SIMPLE}", "x.com")),
		gateway(t, "b/late", "servers:\n"+server(80, "TCP", "tcp", "", "*")),
	}}
	router := func(labels map[string]string, targets ...mesh.ServiceTarget) *mesh.Proxy {
		return &mesh.Proxy{Kind: mesh.RouterProxy, Namespace: "istio-system", Labels: mesh.LabelsOf(labels), Targets: targets}
	}
	app := map[string]string{"app": "ingress", "version": "v1"}
	rec := scope.NewExplainRecorder(nil)
	s := scope.NewScoper(view, rec)
	one := s.MergedGateway(router(app, target("i", 80, 8080, nil)))
	same := s.MergedGateway(router(app, target("j", 80, 8080, nil)))
	other := s.MergedGateway(router(app, target("i", 80, 8081, nil)))
	if one != same {
		t.Error("routers that bind the same servers on the same ports do not share")
	}
	keys := []string{one.Key(), other.Key(), s.MergedGateway(router(nil)).Key()}
	if diff := cmp.Diff([]string{"a/g:8080:443 b/late:8080", "a/g:8081:443 b/late:8081", "b/late:80"}, keys); diff != "" {
		t.Error(diff)
	}
	// A Gateway whose only server is turned away still counts (CDS-14).
	if diff := cmp.Diff([]string{"a/g", "b/late"}, one.Names); diff != "" {
		t.Error(diff)
	}
	want := []string{"a/none GW-1 a/none spec.selector", "0.0.0.0_8080 GW-5 b/late spec.servers[0]"}
	var got []string
	for _, e := range rec.Exclusions()[:2] {
		got = append(got, e.Subject+" "+e.Reason.Rule+" "+e.Reason.Object.Namespace+"/"+e.Reason.Object.Name+" "+e.Reason.Field)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
