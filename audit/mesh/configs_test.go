package mesh_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

func TestVirtualServiceNames(t *testing.T) {
	v := only(t, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: vs, namespace: a}
spec:
  hosts: [reviews, reviews.prod, "*.prod.example", "10.0.0.1"]
  gateways: [gw, ./own, other/gw, gw.legacy, gw.legacy.svc.cluster.local, mesh]
  exportTo: [".", b]
  http:
  - {match: [{gateways: [gw]}], route: [{destination: {host: ratings}}], mirror: {host: shadow}}
  - {route: [{destination: {host: ratings}}], mirrors: [{destination: {host: m.x}}]}
  tcp:
  - {route: [{destination: {host: tcp}}]}
  tls:
  - {match: [{sniHosts: [x.prod.example], gateways: [own]}], route: [{destination: {host: tls}}]}
`)
	vs := v.VirtualServices[0]
	for _, c := range []struct {
		what      string
		got, want []string
	}{
		{"hosts", vs.Spec.Hosts, []string{"reviews.a.svc.cluster.local", "reviews.prod", "*.prod.example", "10.0.0.1"}},
		{"gateways", vs.Spec.Gateways, []string{"a/gw", "a/own", "other/gw", "legacy/gw", "legacy/gw", "mesh"}},
		{"exportTo", vs.ExportTo, []string{"a", "b"}},
		{"match gateways", vs.Spec.Http[0].Match[0].Gateways, []string{"a/gw"}},
		{"tls gateways", vs.Spec.Tls[0].Match[0].Gateways, []string{"a/own"}},
		{"destinations", []string{
			vs.Spec.Http[0].Route[0].Destination.Host, vs.Spec.Http[0].Mirror.Host, vs.Spec.Http[1].Mirrors[0].Destination.Host,
			vs.Spec.Tcp[0].Route[0].Destination.Host, vs.Spec.Tls[0].Route[0].Destination.Host,
		}, []string{"ratings.a.svc.cluster.local", "shadow.a.svc.cluster.local", "m.x", "tcp.a.svc.cluster.local", "tls.a.svc.cluster.local"}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestDelegates(t *testing.T) {
	v := only(t, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: root, namespace: a}
spec:
  hosts: [x.example.com]
  gateways: [gw]
  http:
  - {name: r, match: [{uri: {prefix: /one}}], timeout: 5s, delegate: {name: sub, namespace: b}}
  - {match: [{uri: {prefix: /two}}], delegate: {name: missing}}
  - {match: [{uri: {prefix: /three}}], delegate: {name: hidden, namespace: b}}
  - {route: [{destination: {host: last}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: sub, namespace: b}
spec:
  exportTo: [a]
  http:
  - {name: s, match: [{uri: {prefix: /one/deep}}], route: [{destination: {host: deep}}]}
  - {match: [{uri: {exact: /other}}], route: [{destination: {host: conflict}}]}
  - {timeout: 1s, route: [{destination: {host: rest}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: hidden, namespace: b}
spec: {exportTo: ["."], http: [{route: [{destination: {host: h}}]}]}
`)
	if len(v.VirtualServices) != 1 {
		t.Fatalf("%d VirtualServices, want the root alone", len(v.VirtualServices))
	}
	vs := v.VirtualServices[0]
	var got []string
	for i, r := range vs.Spec.Http {
		uri := ""
		if len(r.Match) > 0 {
			uri = r.Match[0].Uri.GetPrefix()
		}
		by := ""
		if vs.Delegates[i] != nil {
			by = vs.Delegates[i].Name
		}
		got = append(got, fmt.Sprintf("%s %s %s %s by %q", r.Name, uri, r.Route[0].Destination.Host, r.Timeout.AsDuration(), by))
	}
	want := []string{
		`r-s /one/deep deep.b.svc.cluster.local 5s by "sub"`,
		`r /one rest.b.svc.cluster.local 1s by "sub"`,
		`  last.a.svc.cluster.local 0s by ""`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if len(vs.Dropped) != 3 {
		t.Errorf("dropped: %q", vs.Dropped)
	}
}

func TestMTLSModes(t *testing.T) {
	v := only(t, `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: mesh, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: a-unset, namespace: a}
spec: {}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: b-younger, namespace: a}
spec: {mtls: {mode: DISABLE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: workload, namespace: a}
spec: {selector: {matchLabels: {app: x}}, mtls: {mode: PERMISSIVE}, portLevelMtls: {8080: {mode: DISABLE}, 9090: {}}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: disabled, namespace: b}
spec: {mtls: {mode: DISABLE}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: b}, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: headless, namespace: c}, spec: {clusterIP: None, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: plain, namespace: c}, spec: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}}
`)
	x := map[string]string{"app": "x", "more": "1"}
	for _, c := range []struct {
		namespace string
		labels    map[string]string
		port      int
		want      mesh.MTLSMode
	}{
		{"a", nil, 80, mesh.MTLSStrict}, {"a", x, 80, mesh.MTLSPermissive}, {"a", x, 8080, mesh.MTLSDisable},
		{"a", x, 9090, mesh.MTLSPermissive}, {"b", x, 80, mesh.MTLSDisable}, {"c", nil, 80, mesh.MTLSStrict},
		{"istio-system", nil, 80, mesh.MTLSStrict},
	} {
		if got := v.MTLSMode(c.namespace, mesh.LabelsOf(c.labels), c.port); got != c.want {
			t.Errorf("%s %v %d: mode %d, want %d", c.namespace, c.labels, c.port, got, c.want)
		}
	}
	for host, want := range map[string]mesh.MTLSMode{
		"s.b.svc.cluster.local": mesh.MTLSDisable, "headless.c.svc.cluster.local": mesh.MTLSDisable, "plain.c.svc.cluster.local": mesh.MTLSStrict,
	} {
		if got := v.ServiceMTLSMode(v.ServicesByHost(host)[0], 80); got != want {
			t.Errorf("%s: mode %d, want %d", host, got, want)
		}
	}
}
