package scope_test

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func TestKey(t *testing.T) {
	base := []string{service("a/web", "", "http-80")}
	local := "apiVersion: v1\nkind: Service\nmetadata: {name: local, namespace: a}\nspec: {internalTrafficPolicy: Local, ports: [{name: http, port: 80}]}"
	filter := "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: ef, namespace: a}\nspec: {workloadSelector: {labels: {app: x}}, configPatches: [{applyTo: CLUSTER, match: {proxy: {metadata: {TIER: gold}}}, patch: {operation: MERGE, value: {}}}]}"
	authz := "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: a}\nspec: {selector: {matchLabels: {app: x}}}"
	telemetry := "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: t, namespace: istio-system}\nspec: {selector: {matchLabels: {app: x}}}"
	for _, c := range []struct {
		name    string
		objects []string
		change  func(*mesh.Proxy)
		same    bool
	}{
		{"node", nil, func(p *mesh.Proxy) { p.Node = "n2" }, true},
		{"node with a node-local service", []string{local}, func(p *mesh.Proxy) { p.Node = "n2" }, false},
		{"node with a node-local service that is not imported", []string{local, object("Sidecar a/d", "{egress: [{hosts: ['a/web.a.svc.cluster.local']}]}")}, func(p *mesh.Proxy) { p.Node = "n2" }, true},
		{"locality", nil, func(p *mesh.Proxy) { p.Locality = "r/z" }, true},
		{"locality with outlier detection", []string{rule("a/r", "host: web, trafficPolicy: {outlierDetection: {consecutive5xxErrors: 1}}")}, func(p *mesh.Proxy) { p.Locality = "r/z" }, false},
		{"a label", nil, func(p *mesh.Proxy) { p.Labels = app("x") }, true},
		{"a label that an EnvoyFilter selects by", []string{filter}, func(p *mesh.Proxy) { p.Labels = app("x") }, false},
		{"a label that an EnvoyFilter of another namespace selects by", []string{filter}, func(p *mesh.Proxy) { p.Namespace, p.Labels = "b", app("x") }, false},
		{"another value of it", []string{filter}, func(p *mesh.Proxy) { p.Labels = app("z") }, true},
		{"metadata that an EnvoyFilter matches", []string{filter}, func(p *mesh.Proxy) { p.Metadata.Raw = map[string]string{"TIER": "gold"} }, false},
		{"other metadata", []string{filter}, func(p *mesh.Proxy) { p.Metadata.Raw = map[string]string{"OTHER": "gold"} }, true},
		{"a label that an AuthorizationPolicy selects by, inbound", []string{authz}, func(p *mesh.Proxy) { p.Labels = app("x") }, true},
		{"a label that a root Telemetry selects by", []string{telemetry}, func(p *mesh.Proxy) { p.Labels = app("x") }, false},
		{"sourceLabels", []string{object("VirtualService b/v", "{hosts: [h.example], http: [{match: [{sourceLabels: {app: x}}], route: [{destination: {host: web}}]}]}")}, func(p *mesh.Proxy) { p.Labels = app("x") }, false},
		{"a failover priority's label", []string{rule("b/r", "host: web, trafficPolicy: {loadBalancer: {localityLbSetting: {failoverPriority: [app]}}}")}, func(p *mesh.Proxy) { p.Labels = app("y") }, false},
		{"DNS capture", nil, func(p *mesh.Proxy) { p.Metadata.DNSCapture = true }, false},
		{"network", nil, func(p *mesh.Proxy) { p.Network = "n" }, false},
		{"version", nil, func(p *mesh.Proxy) { p.Version = mesh.Version{Major: 1, Minor: 30} }, false},
		{"canonical name", nil, func(p *mesh.Proxy) { p.CanonicalName = "other" }, true},
	} {
		v := view(t, append(c.objects, base...)...)
		s := scoper(v)
		p, q := proxy(v, "a/p"), proxy(v, "a/q")
		c.change(q)
		equal(t, c.name, c.same, s.For(p) == s.For(q))
	}
}

// BenchmarkScopes computes the scopes of 300 namespaces with 20 services each,
// a third of them with a Sidecar, for 30,000 proxies.
func BenchmarkScopes(b *testing.B) {
	snap := &snapshot.Snapshot{}
	for n := range 300 {
		ns := "ns" + strconv.Itoa(n)
		for i := range 20 {
			snap.Services = append(snap.Services, snapshot.Config[*corev1.ServiceSpec]{
				Meta: snapshot.Meta{Kind: "Service", Namespace: ns, Name: "svc" + strconv.Itoa(i)},
				Spec: &corev1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
			})
		}
		if n%3 == 0 {
			snap.Sidecars = append(snap.Sidecars, sidecarOf(ns, "./*", "istio-system/*", "ns1/svc1.ns1.svc.cluster.local"))
		}
	}
	v := mesh.New(snap).Views[0]
	var proxies []*mesh.Proxy
	for n := range 300 {
		for i := range 100 {
			proxies = append(proxies, proxy(v, "ns"+strconv.Itoa(n)+"/p"+strconv.Itoa(i), "app=a"+strconv.Itoa(i)))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s := scope.NewScoper(v, scope.NewRecorder())
		for _, p := range proxies {
			s.For(p)
		}
	}
}

func app(name string) mesh.Labels { return mesh.LabelsOf(map[string]string{"app": name}) }
