package scope_test

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// owner is the namespace of the scope's service of a host; "" if none.
func owner(s *scope.Scope, host string) string {
	if svc := s.Service(host); svc != nil {
		return svc.Namespace
	}
	return ""
}

func TestOneNamespaceForAHost(t *testing.T) {
	objects := []string{
		aged(1, serviceEntry("old/x", "x.example", "", "http-80")), aged(2, serviceEntry("young/x", "x.example", "", "http-81")),
		aged(3, serviceEntry("own/x", "x.example", "", "http-82")), aged(4, serviceEntry("priv/x", "x.example", "c", "http-83")),
		aged(0, serviceEntry("old/k", "k.kube.svc.cluster.local", "", "http-80")), aged(5, service("kube/k", "", "http-81")),
	}
	v := view(t, objects...)
	s := scoper(v)
	for _, c := range []struct{ name, pod, host, want string }{
		{"own namespace", "own/p", "x.example", "own"},
		{"oldest", "other/p", "x.example", "old"},
		{"exported before public", "c/p", "x.example", "priv"},
		{"Kubernetes before older ServiceEntry", "other/p", "k.kube.svc.cluster.local", "kube"},
		{"own ServiceEntry before Kubernetes in the listener, Kubernetes not", "kube/p", "k.kube.svc.cluster.local", "kube"},
	} {
		equal(t, c.name, c.want, owner(s.For(proxy(v, c.pod)), c.host))
	}
	legacy := view(t, append(objects, istiod("1.31.0", "", "PILOT_UNIFIED_SIDECAR_SCOPE=false"))...)
	in := scoper(legacy).For(proxy(legacy, "other/p"))
	equal(t, "flag off: the listener takes the first", []string{"k.kube:80", "x.example:80"}, names(in.Egress[0].Services))
}

func TestPortsOfOneHostMerge(t *testing.T) {
	for _, c := range []struct {
		name   string
		second string
		want   []string
	}{
		{"same shape", serviceEntry("a/x2", "x.example", "", "http-81"), []string{"x.example:80,81"}},
		{"same ports", serviceEntry("a/x2", "x.example", "", "http-80"), []string{"x.example:80"}},
		{"other exportTo", serviceEntry("a/x2", "x.example", "'*'", "http-81"), []string{"x.example:80"}},
		{"other resolution", object("ServiceEntry a/x2", "{hosts: [x.example], resolution: NONE, ports: [{number: 81, name: http, protocol: HTTP}]}"), []string{"x.example:80"}},
		{"other selector", object("ServiceEntry a/x2", "{hosts: [x.example], resolution: STATIC, workloadSelector: {labels: {a: b}}, ports: [{number: 81, name: http, protocol: HTTP}]}"), []string{"x.example:80"}},
		{"other namespace", serviceEntry("b/x2", "x.example", "", "http-81"), []string{"x.example:80"}},
	} {
		v := view(t, aged(1, serviceEntry("a/x", "x.example", "", "http-80")), aged(2, c.second))
		equal(t, c.name, c.want, names(scoper(v).For(proxy(v, "z/p")).Services))
		equal(t, c.name+", router", c.want, names(scoper(v).For(router(v, "z/gw")).Services))
	}
	v := view(t, aged(1, serviceEntry("a/x", "x.example", "", "http-80")), aged(2, serviceEntry("a/x2", "x.example", "", "http-81")))
	equal(t, "the listener keeps both", []string{"x.example:80", "x.example:81"}, names(scoper(v).For(proxy(v, "z/p")).Egress[0].Services))
}

func TestVirtualServicePullsIn(t *testing.T) {
	objects := []string{
		service("a/web", "", "http-80"), service("b/api", "", "http-80", "http-81", "http-82"), service("b/mirror", "", "http-80"),
		service("b/hidden", ".", "http-80"), service("a/none", "~", "http-80"), serviceEntry("b/ext", "ext.example", "", "tls-443"),
		object("Sidecar a/default", "{egress: [{hosts: ['./*']}]}"),
	}
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"named port only", "{hosts: [web], http: [{route: [{destination: {host: api.b.svc.cluster.local, port: {number: 81}}}]}]}", []string{"api.b:81+", "web.a:80"}},
		{"ports of all destinations", "{hosts: [web], http: [{route: [{destination: {host: api.b.svc.cluster.local, port: {number: 81}}}]}, {route: [{destination: {host: api.b.svc.cluster.local, port: {number: 80}}}]}]}", []string{"api.b:80,81+", "web.a:80"}},
		{"no port: all", "{hosts: [web], http: [{route: [{destination: {host: api.b.svc.cluster.local}}]}]}", []string{"api.b:80,81,82+", "web.a:80"}},
		{"a port that is not there", "{hosts: [web], http: [{route: [{destination: {host: api.b.svc.cluster.local, port: {number: 99}}}]}]}", []string{"web.a:80"}},
		{"mirrors", "{hosts: [web], http: [{route: [{destination: {host: web}}], mirrors: [{destination: {host: mirror.b.svc.cluster.local}}]}]}", []string{"mirror.b:80+", "web.a:80"}},
		{"tls", "{hosts: [web], tls: [{match: [{sniHosts: [web], port: 443}], route: [{destination: {host: ext.example}}]}]}", []string{"ext.example:443+", "web.a:80"}},
		{"another sourceNamespace", "{hosts: [web], http: [{match: [{sourceNamespace: c}], route: [{destination: {host: api.b.svc.cluster.local}}]}]}", []string{"web.a:80"}},
		{"own sourceNamespace after another", "{hosts: [web], http: [{match: [{sourceNamespace: c}, {sourceNamespace: a}], route: [{destination: {host: mirror.b.svc.cluster.local}}]}]}", []string{"mirror.b:80+", "web.a:80"}},
		{"not visible", "{hosts: [web], http: [{route: [{destination: {host: hidden.b.svc.cluster.local}}]}]}", []string{"web.a:80"}},
		{"own service that is hidden from all", "{hosts: [web], http: [{route: [{destination: {host: none}}]}]}", []string{"none.a:80+", "web.a:80"}},
		{"short name of a namespace that it is not in", "{hosts: [web], http: [{route: [{destination: {host: api}}]}]}", []string{"web.a:80"}},
		{"redirect", "{hosts: [web], http: [{redirect: {uri: /x}}]}", []string{"web.a:80"}},
		{"./* imports whatever the host", "{hosts: [other.example], http: [{route: [{destination: {host: api.b.svc.cluster.local}}]}]}", []string{"api.b:80,81,82+", "web.a:80"}},
	} {
		v := view(t, append(objects, object("VirtualService a/web", c.spec))...)
		s := scoper(v).For(proxy(v, "a/p"))
		equal(t, c.name, c.want, names(s.Services))
		equal(t, c.name+": listener", []string{"web.a:80"}, names(s.Egress[0].Services))
	}
}

func TestPullInNamespace(t *testing.T) {
	objects := []string{
		service("a/web", "", "http-80"), object("Sidecar a/default", "{egress: [{hosts: ['./*']}]}"),
		object("VirtualService a/web", "{hosts: [web], http: [{route: [{destination: {host: x.example}}]}]}"),
		aged(1, serviceEntry("z-old/x", "x.example", "", "http-80")), aged(2, serviceEntry("b-young/x", "x.example", "", "http-81")),
	}
	v := view(t, objects...)
	equal(t, "oldest", "z-old", owner(scoper(v).For(proxy(v, "a/p")), "x.example"))
	v = view(t, append(objects, istiod("1.29.0", ""))...)
	equal(t, "before 1.30: the alphabet", "b-young", owner(scoper(v).For(proxy(v, "a/p")), "x.example"))
}

func TestImportedVirtualServices(t *testing.T) {
	objects := []string{
		object("VirtualService a/wild", "{hosts: ['*.com'], http: [{route: [{destination: {host: x}}]}]}"),
		object("VirtualService b/exact", "{hosts: [b.com], http: [{route: [{destination: {host: x}}]}]}"),
		object("VirtualService b/private", "{hosts: [c.com], exportTo: ['.'], http: [{route: [{destination: {host: x}}]}]}"),
		object("VirtualService b/gateway", "{hosts: [b.com], gateways: [gw], http: [{route: [{destination: {host: x}}]}]}"),
		object("VirtualService b/both", "{hosts: [d.com], gateways: [gw, mesh, mesh], http: [{route: [{destination: {host: x}}]}]}"),
	}
	for _, c := range []struct {
		name, ns, hosts string
		want            []string
	}{
		{"default scope", "z", "", []string{"both", "exact", "wild"}},
		{"private first", "b", "", []string{"private", "both", "exact", "wild"}},
		{"by the VirtualService's namespace", "z", "['b/*']", []string{"both", "exact"}},
		{"either may be the wildcard", "z", "['a/x.com']", []string{"wild"}},
		{"exact entries match exactly", "z", "['*/b.com']", []string{"exact", "wild"}},
		{"excluded host", "z", "['*/*', '~b/b.com']", []string{"both", "wild"}},
	} {
		all := objects
		if c.hosts != "" {
			all = append(all, object("Sidecar "+c.ns+"/default", "{egress: [{hosts: "+c.hosts+"}]}"))
		}
		v := view(t, all...)
		equal(t, c.name, c.want, vsNames(scoper(v).For(proxy(v, c.ns+"/p")).Egress[0].VirtualServices))
	}
	v := view(t, objects...)
	equal(t, "a gateway's", []string{}, vsNames(scoper(v).GatewayVirtualServices("b", "a/gw")))
	equal(t, "a gateway's by full name", []string{"both", "gateway"}, vsNames(scoper(v).GatewayVirtualServices("z", "b/gw")))
}

func vsNames(list []*mesh.VirtualService) []string {
	out := []string{}
	for _, vs := range list {
		out = append(out, vs.Name)
	}
	return out
}

func TestAliases(t *testing.T) {
	v := view(t, service("a/real", "", "http-80"),
		"apiVersion: v1\nkind: Service\nmetadata: {name: alias, namespace: b}\nspec: {type: ExternalName, externalName: real.a.svc.cluster.local}",
		object("Sidecar c/default", "{egress: [{hosts: ['a/*']}]}"), object("Sidecar d/default", "{egress: [{hosts: ['a/real.a.svc.cluster.local']}]}"))
	s := scoper(v)
	count := func(pod string) int { return len(s.For(proxy(v, pod)).Service("real.a.svc.cluster.local").Aliases) }
	equal(t, "default scope", 1, count("z/p"))
	equal(t, "a/* covers the alias's name too", 1, count("c/p"))
	equal(t, "an exact host does not", 0, count("d/p"))
}
