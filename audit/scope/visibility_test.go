package scope_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// seen are the services that a namespace sees, in istiod's order.
func seen(v *mesh.View, ns string) []string {
	out := []string{}
	for _, s := range scoper(v).VisibleServices(ns) {
		out = append(out, strings.TrimSuffix(s.Host, ".svc.cluster.local"))
	}
	return out
}

func TestExportTo(t *testing.T) {
	objects := []string{
		service("a/all", "*,b", "http-80"), service("a/unset", "", "http-80"), service("a/own", ".", "http-80"), service("a/ownname", "a", "http-80"),
		service("a/none", "~", "http-80"), service("a/noneb", "~,b", "http-80"), service("a/b", "b", "http-80"), service("a/ab", ".,b", "http-80"),
	}
	v := view(t, objects...)
	for _, c := range []struct {
		ns   string
		want []string
	}{
		{"a", []string{"ab.a", "own.a", "ownname.a", "all.a", "unset.a"}},
		{"b", []string{"ab.a", "b.a", "all.a", "unset.a"}},
		{"c", []string{"all.a", "unset.a"}},
	} {
		equal(t, c.ns, c.want, seen(v, c.ns))
	}
	s := scoper(v)
	equal(t, "one service", true, s.Visible(v.Service("b.a.svc.cluster.local", "a"), "b"))
	equal(t, "~ with a name is not indexed, but is visible (VIS-3)", true, s.Visible(v.Service("noneb.a.svc.cluster.local", "a"), "b"))
	equal(t, "no service", false, s.Visible(nil, "b"))
}

func TestDefaultExportToByVersion(t *testing.T) {
	for _, c := range []struct {
		version, list string
		want          []string
	}{
		{"1.31.0", "[b]", []string{"x.a"}},
		{"1.30.3", "[b]", []string{"x.a"}},
		{"1.30.2", "[b]", []string{}},
		{"1.29.6", "[b]", []string{}},
		{"1.30.2", "['*', '.']", []string{}},
		{"1.31.0", "['*', '.']", []string{"x.a"}},
	} {
		v := view(t, istiod(c.version, "defaultServiceExportTo: "+c.list), service("a/x", "", "http-80"))
		equal(t, c.version+" "+c.list, c.want, seen(v, "b"))
	}
}

func TestOrderByVersion(t *testing.T) {
	objects := []string{aged(1, service("b/forc", "c", "http-80")), aged(2, service("c/own", ".", "http-80")), aged(0, service("a/all", "", "http-80"))}
	equal(t, "1.31: one list by age", []string{"forc.b", "own.c", "all.a"}, seen(view(t, append(objects, istiod("1.31.0", ""))...), "c"))
	equal(t, "1.30.2: private first", []string{"own.c", "forc.b", "all.a"}, seen(view(t, append(objects, istiod("1.30.2", ""))...), "c"))
}

func TestServiceEntryVisibility(t *testing.T) {
	config := "serviceEntryVisibility: {applyToSidecars: true, defaultVisibility: NAMESPACE, policies: [{visibility: PUBLIC, matchingRules: [{namespaceSelector: {matchLabels: {open: 'yes'}}}]}]}"
	objects := []string{
		"apiVersion: v1\nkind: Namespace\nmetadata: {name: open, labels: {open: 'yes'}}", serviceEntry("open/x", "x.example", "", "http-80"),
		serviceEntry("closed/y1", "y.example", "", "http-80"), serviceEntry("closed/z", "z.example", "other", "http-80"), service("closed/svc", "", "http-80"),
	}
	equal(t, "other namespace", []string{"svc.closed", "x.example"}, seen(view(t, append(objects, istiod("1.31.0", config))...), "other"))
	equal(t, "own namespace", []string{"y.example", "svc.closed", "x.example"}, seen(view(t, append(objects, istiod("1.31.0", config))...), "closed"))
	equal(t, "1.30 does not know it", []string{"z.example", "svc.closed", "x.example", "y.example"}, seen(view(t, append(objects, istiod("1.30.3", config))...), "other"))
}

func TestExplainTellsWhoIsHidden(t *testing.T) {
	v := view(t, service("a/own", ".", "http-80"), service("b/x", "", "http-80", "http-81"), service("c/other", "", "http-90"),
		object("Sidecar b/default", "{egress: [{port: {number: 80, protocol: HTTP, name: http}, hosts: ['b/*', 'a/*', '~b/z.example']}]}"))
	rec := scope.NewExplainRecorder(func(subject string) bool { return subject != "x.b.svc.cluster.local" })
	scope.NewScoper(v, rec).For(proxy(v, "b/p"))
	got := []string{}
	for _, e := range rec.Exclusions() {
		got = append(got, strings.TrimSuffix(e.Subject, ".svc.cluster.local")+" "+e.Reason.Rule+" "+e.Reason.Word+" "+e.Reason.Object.Kind+" "+e.Reason.Field)
	}
	slices.Sort(got)
	equal(t, "turned away", []string{
		"other.c SC-9 sidecar-hosts Sidecar spec.egress[0].hosts",
		"own.a VIS-2 exportTo Service metadata.annotations[networking.istio.io/exportTo]",
	}, got)
}
