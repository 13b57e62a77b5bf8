package scope_test

import (
	"strings"
	"testing"
)

func TestTiesAreTold(t *testing.T) {
	objects := []string{
		pod("a/p", "sidecar"), pod("b/q", "sidecar"),
		object("Sidecar a/one", "{egress: [{hosts: ['./*']}]}"), object("Sidecar a/two", "{egress: [{hosts: ['*/*']}]}"),
		object("Sidecar b/sel", "{workloadSelector: {labels: {app: q}}, egress: [{hosts: ['./*']}]}"), object("Sidecar b/plain", "{egress: [{hosts: ['*/*']}]}"),
		serviceEntry("a/se", "x.example", "", "http-80"), serviceEntry("b/se", "x.example", "", "http-81"), serviceEntry("b/se2", "y.example", "", "http-80"),
		rule("a/r1", "host: x.example, trafficPolicy: {loadBalancer: {simple: RANDOM}}"), rule("a/r2", "host: x.example, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}"),
		rule("a/r3", "host: x.example, subsets: [{name: v1}]"),
	}
	told := func(objects []string) []string {
		v := view(t, objects...)
		out := []string{}
		for _, g := range scoper(v).Gaps() {
			out = append(out, g.Object.Kind+" "+g.Object.Namespace+"/"+g.Object.Name+" "+strings.Join(g.Proxies, ","))
		}
		return out
	}
	equal(t, "equally old", []string{"Sidecar a/two a/p", "ServiceEntry b/se ", "DestinationRule a/r2 "}, told(objects))
	for i := range objects {
		objects[i] = aged(i, objects[i])
	}
	equal(t, "of different ages", []string{}, told(objects))
}

func TestOrderOfConnectionsIsTold(t *testing.T) {
	v := view(t, service("a/web", "", "http-80"), service("a/none", "~", "http-80"), pod("a/m-sidecar", "sidecar"), pod("a/gw", "router"),
		object("VirtualService a/web", "{hosts: [web], http: [{route: [{destination: {host: none}}]}]}"))
	s := scoper(v)
	for _, p := range v.Proxies {
		s.For(p)
	}
	gaps := s.Gaps()
	if len(gaps) != 1 || strings.Join(gaps[0].Proxies, ",") != "a/gw" {
		t.Errorf("gaps %v, want one for a/gw", gaps)
	}
}
