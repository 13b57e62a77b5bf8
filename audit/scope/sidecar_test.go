package scope_test

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// A small shop: what each proxy sees is told by digest section 3.
var shop = []string{
	service("shop/cart", "", "http-80", "tcp-90"), service("shop/web", "", "http-80"),
	service("pay/bank", "", "http-80", "http-81"), service("ops/db", "", "tcp-3306"),
}

func TestSidecarChoice(t *testing.T) {
	v := view(t, append(shop,
		object("Sidecar istio-system/root", "{egress: [{hosts: ['./*']}]}"),
		object("Sidecar istio-system/rootsel", "{workloadSelector: {labels: {app: web}}, egress: [{hosts: ['*/*']}]}"),
		aged(1, object("Sidecar shop/b-old", "{egress: [{hosts: ['pay/*']}]}")),
		aged(2, object("Sidecar shop/a-young", "{egress: [{hosts: ['ops/*']}]}")),
		aged(3, object("Sidecar shop/sel", "{workloadSelector: {labels: {app: web}}, egress: [{hosts: ['shop/*']}]}")),
		object("Sidecar pay/sel", "{workloadSelector: {labels: {app: web}}, egress: [{hosts: ['*/*']}]}"),
	)...)
	s := scoper(v)
	for _, c := range []struct {
		name string
		pod  []string
		want string
	}{
		{"oldest without a selector", []string{"shop/x"}, "shop/b-old"},
		{"one with a matching selector first", []string{"shop/x", "app=web"}, "shop/sel"},
		{"root where none of the namespace matches", []string{"pay/x"}, "istio-system/root"},
		{"root where the namespace has none", []string{"ops/x", "app=web"}, "istio-system/root"},
		{"root with a selector in the root namespace only", []string{"istio-system/x", "app=web"}, "istio-system/rootsel"},
	} {
		got := s.For(proxy(v, c.pod[0], c.pod[1:]...)).Key.Sidecar
		equal(t, c.name, c.want, got)
	}
	equal(t, "./* of the root Sidecar is the client's namespace", []string{"db.ops:3306"}, names(s.For(proxy(v, "ops/x")).Services))
	equal(t, "a router ignores Sidecars", 4, len(s.For(router(v, "shop/gw")).Services))
}

func TestDefaultScopeIsShared(t *testing.T) {
	v := view(t, shop...)
	s := scoper(v)
	a, b := s.For(proxy(v, "shop/x", "app=a")), s.For(proxy(v, "shop/y", "app=b"))
	if a != b {
		t.Error("labels that nothing looks at make two scopes")
	}
	other := s.For(proxy(v, "pay/x"))
	if a == other || a.Services[0] != other.Services[0] || &a.Services[0] != &other.Services[0] {
		t.Error("default scopes of like namespaces do not share their services")
	}
}

func TestEgressHosts(t *testing.T) {
	objects := append(shop,
		serviceEntry("ops/maps", "maps.example.com", "", "http-80"), serviceEntry("ops/wild", "*.example.com", "", "http-80"),
		serviceEntry("ops/deep", "*.deep.example.com", "", "http-80"))
	for _, c := range []struct {
		name, hosts string
		want        []string
	}{
		{"no egress hosts match", "['none/*']", []string{}},
		{"exact entry leaves the wildcard host", "['*/maps.example.com']", []string{"maps.example.com:80"}},
		{"wildcard entry takes subsets", "['*/*.example.com']", []string{"*.deep.example.com:80", "*.example.com:80", "maps.example.com:80"}},
		{"narrow wildcard entry leaves wider hosts", "['*/*.deep.example.com']", []string{"*.deep.example.com:80"}},
		{"own namespace", "['./*']", []string{"cart.shop:80,90", "web.shop:80"}},
		{"exact and wildcard of one namespace", "['shop/web.shop.svc.cluster.local', 'pay/*']", []string{"bank.pay:80,81", "web.shop:80"}},
		{"nothing", "['~/*']", []string{}},
		{"exclusion of a namespace", "['*/*', '~ops/*']", []string{"bank.pay:80,81", "cart.shop:80,90", "web.shop:80"}},
		{"exclusion of a host everywhere", "['shop/*', '~/cart.shop.svc.cluster.local']", []string{"web.shop:80"}},
		{"exclusion of the own namespace", "['*/*.svc.cluster.local', '~./*']", []string{"bank.pay:80,81", "db.ops:3306"}},
	} {
		v := view(t, append(objects, object("Sidecar shop/default", "{egress: [{hosts: "+c.hosts+"}]}"))...)
		equal(t, c.name, c.want, names(scoper(v).For(proxy(v, "shop/x")).Services))
	}
}

func TestExclusionsAreNamespacesBefore131(t *testing.T) {
	v := view(t, append(shop, istiod("1.30.3", ""), object("Sidecar shop/default", "{egress: [{hosts: ['shop/*', '~/web.shop.svc.cluster.local']}]}"))...)
	equal(t, "services", []string{"cart.shop:80,90", "web.shop:80"}, names(scoper(v).For(proxy(v, "shop/x")).Services))
}

func TestEgressPort(t *testing.T) {
	v := view(t, append(shop, object("Sidecar shop/default",
		"{egress: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['*/*']}, {port: {number: 9999, protocol: HTTP_PROXY, name: proxy}, hosts: ['ops/*']}, {hosts: ['shop/*']}]}"))...)
	s := scoper(v).For(proxy(v, "shop/x"))
	equal(t, "port 80 trims", []string{"bank.pay:80", "cart.shop:80", "web.shop:80"}, names(s.Egress[0].Services))
	equal(t, "HTTP_PROXY does not", []string{"db.ops:3306"}, names(s.Egress[1].Services))
	equal(t, "catch-all does not", []string{"cart.shop:80,90", "web.shop:80"}, names(s.Egress[2].Services))
	equal(t, "scope-wide ports are joined", []string{"bank.pay:80", "cart.shop:80,90", "db.ops:3306", "web.shop:80"}, names(s.Services))
	for _, c := range []struct{ port, want int }{{80, 0}, {9999, 1}, {1234, 2}} {
		equal(t, "listener of a port", c.want, s.EgressFor(c.port, "").Index)
	}
}

func TestReasons(t *testing.T) {
	v := view(t, append(shop, service("ops/shared", "shop,ops", "http-80"), object("Sidecar shop/default", "{egress: [{port: {number: 1234, protocol: HTTP, name: http}, hosts: ['none/*']}, {hosts: ['./*', 'pay/*']}]}"))...)
	rec := scope.NewRecorder()
	s := scope.NewScoper(v, rec)
	sidecar, other := s.For(proxy(v, "shop/x")), s.For(proxy(v, "ops/x"))
	equal(t, "own namespace", "SC-9 Sidecar shop/default spec.egress[1].hosts[0]", why(rec, sidecar.Service("web.shop.svc.cluster.local").Because))
	equal(t, "named namespace", "SC-9 Sidecar shop/default spec.egress[1].hosts[1]", why(rec, sidecar.Service("bank.pay.svc.cluster.local").Because))
	equal(t, "default scope", "SC-2  /", why(rec, other.Service("bank.pay.svc.cluster.local").Because))
	equal(t, "own exportTo", "VIS-2 Service ops/shared metadata.annotations[networking.istio.io/exportTo]", why(rec, other.Service("shared.ops.svc.cluster.local").Because))
}

func TestOutboundPolicy(t *testing.T) {
	v := view(t, append(shop, istiod("1.31.0", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"),
		object("Sidecar shop/default", "{outboundTrafficPolicy: {mode: ALLOW_ANY}, egress: [{hosts: ['./*']}]}"))...)
	s := scoper(v)
	equal(t, "the Sidecar's", "ALLOW_ANY", s.For(proxy(v, "shop/x")).OutboundPolicy.GetMode().String())
	equal(t, "the mesh's", "REGISTRY_ONLY", s.For(proxy(v, "pay/x")).OutboundPolicy.GetMode().String())
	if s.For(router(v, "pay/gw")).OutboundPolicy != nil {
		t.Error("a router has a policy")
	}
}
