package scope_test

import (
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// applied is "first/rule second/rule: subset,subset lb" of the rule that a
// proxy's scope has for a host; "" if none.
func applied(s *scope.Scope, p *mesh.Proxy, host string) string {
	svc := s.Service(host)
	if svc == nil {
		return "no service"
	}
	return describeRule(s.DestinationRule(svc.Service, p))
}

func describeRule(dr *scope.DestinationRule) string {
	if dr == nil {
		return ""
	}
	var from, subsets []string
	for _, m := range dr.From {
		from = append(from, m.Namespace+"/"+m.Name)
	}
	for _, subset := range dr.Spec.GetSubsets() {
		subsets = append(subsets, subset.GetName())
	}
	out := strings.Join(from, " ")
	if len(subsets) > 0 {
		out += ": " + strings.Join(subsets, ",")
	}
	if lb := dr.Spec.GetTrafficPolicy().GetLoadBalancer(); lb != nil {
		out += " " + lb.GetSimple().String()
	}
	return out
}

func rule(name, spec string) string { return object("DestinationRule "+name, "{"+spec+"}") }

func TestDestinationRuleLookup(t *testing.T) {
	const host = "svc.owner.svc.cluster.local"
	for _, c := range []struct {
		name, client string
		rules        []string
		want         string
	}{
		{"client before service", "client", []string{rule("client/r", "host: "+host), rule("owner/r", "host: svc")}, "client/r"},
		{"a broad client rule hides a specific one of the service", "client", []string{rule("client/r", "host: '*.local'"), rule("owner/r", "host: svc")}, "client/r"},
		{"service before root", "client", []string{rule("owner/r", "host: '*.owner.svc.cluster.local'"), rule("istio-system/r", "host: "+host)}, "owner/r"},
		{"root", "client", []string{rule("istio-system/r", "host: '*.local'")}, "istio-system/r"},
		{"a third namespace does not count", "client", []string{rule("third/r", "host: "+host)}, ""},
		{"most specific wildcard", "client", []string{rule("owner/a", "host: '*.local'"), rule("owner/b", "host: '*.owner.svc.cluster.local'"), rule("owner/c", "host: '*.cluster.local'")}, "owner/b"},
		{"exact before wildcard", "client", []string{rule("owner/a", "host: '*.owner.svc.cluster.local'"), rule("owner/b", "host: svc")}, "owner/b"},
		{"private to the service's namespace", "client", []string{rule("owner/r", "host: svc, exportTo: ['.']")}, ""},
		{"hidden in the service's namespace falls to the root", "client", []string{rule("owner/r", "host: svc, exportTo: [other]"), rule("istio-system/r", "host: "+host)}, "istio-system/r"},
		{"a more specific one that is hidden hides the wider one", "client", []string{rule("owner/a", "host: svc, exportTo: [other]"), rule("owner/b", "host: '*.local'")}, ""},
		{"named", "client", []string{rule("owner/r", "host: svc, exportTo: [client]")}, "owner/r"},
		{"exported elsewhere is of no use at home", "owner", []string{rule("owner/r", "host: svc, exportTo: [client]")}, ""},
		{"a root client looks at the service first", "istio-system", []string{rule("istio-system/r", "host: '*.local'"), rule("owner/r", "host: svc")}, "owner/r"},
		{"but at a private root rule before", "istio-system", []string{rule("istio-system/r", "host: '*.local', exportTo: ['.']"), rule("owner/r", "host: svc")}, "istio-system/r"},
		{"a private root rule is for no other", "client", []string{rule("istio-system/r", "host: '*.local', exportTo: ['.']")}, ""},
		{"a dotted host is not expanded", "client", []string{rule("owner/r", "host: svc.owner")}, ""},
	} {
		v := view(t, append(c.rules, service("owner/svc", "", "http-80"))...)
		p := proxy(v, c.client+"/p")
		equal(t, c.name, c.want, applied(scoper(v).For(p), p, host))
		gw := router(v, c.client+"/gw")
		equal(t, c.name+", router", c.want, applied(scoper(v).For(gw), gw, host))
	}
}

func TestPrivateByDefault(t *testing.T) {
	v := view(t, istiod("1.31.0", "defaultDestinationRuleExportTo: ['.']"), service("owner/svc", "", "http-80"), rule("owner/r", "host: svc"))
	s := scoper(v)
	client, own := proxy(v, "client/p"), proxy(v, "owner/p")
	equal(t, "other namespace", "", applied(s.For(client), client, "svc.owner.svc.cluster.local"))
	equal(t, "own namespace", "owner/r", applied(s.For(own), own, "svc.owner.svc.cluster.local"))
}

func TestDestinationRulesMerge(t *testing.T) {
	first := aged(1, rule("owner/r1", "host: svc, subsets: [{name: a}, {name: b}]"))
	for _, c := range []struct{ name, second, want, legacy string }{
		{"subsets are joined, the first policy is taken", "subsets: [{name: b}, {name: c}], trafficPolicy: {loadBalancer: {simple: RANDOM}}", "owner/r1 owner/r2: a,b,c RANDOM", "owner/r1 owner/r2: a,b,c RANDOM"},
		{"another exportTo stands alone, the last decides", "exportTo: ['*'], subsets: [{name: c}]", "owner/r2: c", "owner/r1 owner/r2: a,b,c"},
	} {
		for _, flag := range []struct{ env, want string }{{"X=y", c.want}, {"ENABLE_ENHANCED_DESTINATIONRULE_MERGE=false", c.legacy}} {
			v := view(t, istiod("1.31.0", "", flag.env), service("owner/svc", "", "http-80"), first, aged(2, rule("owner/r2", "host: svc, "+c.second)))
			p := proxy(v, "client/p")
			equal(t, c.name+" "+flag.env, flag.want, applied(scoper(v).For(p), p, "svc.owner.svc.cluster.local"))
		}
	}
}

func TestWiderExportToMergesToo(t *testing.T) {
	v := view(t, service("owner/svc", "", "http-80"),
		aged(1, rule("owner/r1", "host: svc, exportTo: [client], subsets: [{name: a}]")),
		aged(2, rule("owner/r2", "host: svc, exportTo: [client, other], subsets: [{name: b}]")))
	s := scoper(v)
	for client, want := range map[string]string{"client": "owner/r1 owner/r2: a,b", "other": ""} {
		p := proxy(v, client+"/p")
		equal(t, client, want, applied(s.For(p), p, "svc.owner.svc.cluster.local"))
	}
}

func TestWorkloadSelector(t *testing.T) {
	v := view(t, service("owner/svc", "", "http-80"),
		aged(1, rule("client/plain", "host: svc.owner.svc.cluster.local, subsets: [{name: a}]")),
		aged(2, rule("client/sel", "host: svc.owner.svc.cluster.local, workloadSelector: {matchLabels: {app: x}}, subsets: [{name: b}]")),
		aged(3, rule("owner/sel", "host: svc, workloadSelector: {matchLabels: {app: x}}")))
	s := scoper(v)
	selected, plain, third := proxy(v, "client/p", "app=x", "v=1"), proxy(v, "client/q", "app=y"), proxy(v, "third/p", "app=x")
	const host = "svc.owner.svc.cluster.local"
	equal(t, "selected", "client/sel: b", applied(s.For(selected), selected, host))
	equal(t, "not selected", "client/plain: a", applied(s.For(plain), plain, host))
	equal(t, "a selector keeps it to its namespace", "", applied(s.For(third), third, host))
	in := s.For(selected)
	equal(t, "inbound no selector counts", "client/plain: a", describeRule(in.InboundDestinationRule(in.Service(host).Service, selected)))
	equal(t, "only labels that a matching selector names make a scope", `"app"="x"`, in.Key.Labels)
	equal(t, "none", "", s.For(plain).Key.Labels)
}

func TestExplainDestinationRules(t *testing.T) {
	v := view(t, service("owner/svc", "", "http-80"), rule("third/r", "host: svc.owner.svc.cluster.local"), rule("owner/r", "host: svc"), rule("client/r", "host: '*.local'"))
	rec := scope.NewExplainRecorder(nil)
	scope.NewScoper(v, rec).For(proxy(v, "client/p"))
	got := map[string]string{}
	for _, e := range rec.Exclusions() {
		got[e.Reason.Object.Namespace+"/"+e.Reason.Object.Name] = e.Reason.Word
	}
	equal(t, "turned away", map[string]string{"third/r": "destinationrule-lookup", "owner/r": "destinationrule-lookup"}, got)
}
