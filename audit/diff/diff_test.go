package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/diff"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// mesh is one sidecar, "apps/web-0", in one scope, with what a test puts in.
type mesh struct {
	lds, rds, cds, eds []*result.Resource
	objects            []result.Object
	services           []result.Service
	flags              map[string]string
	by                 result.Ref
}

func (m mesh) audit() *result.Audit {
	a := &result.Audit{
		Mesh: result.MeshInfo{ControlPlanes: []result.ControlPlane{{
			Revision: "default", Namespace: "istio-system", Version: "1.31.0", RootNamespace: "istio-system", Flags: m.flags,
		}}},
		Proxies:  []result.Proxy{{Namespace: "apps", Name: "web-0", Kind: result.Sidecar, Group: "g1", Workload: "statefulset/web", Revision: "default"}},
		Groups:   []result.Group{{ID: "g1", Kind: result.Sidecar, Namespace: "apps", Workload: "statefulset/web", Scope: "s1", Proxies: 1}},
		Scopes:   []result.Scope{{ID: "s1", Text: "default scope", By: m.by, Resources: result.Resources{LDS: m.lds, RDS: m.rds, CDS: m.cds, EDS: m.eds}}},
		Services: m.services, Objects: m.objects,
	}
	g := &a.Groups[0]
	for _, t := range result.Types {
		list := *a.Scopes[0].Resources.Of(t)
		slices.SortFunc(list, func(x, y *result.Resource) int { return strings.Compare(x.Name, y.Name) })
		for _, r := range list {
			*g.Bytes.Of(t) += r.Bytes
			*g.Counts.Of(t)++
			g.Bytes.Total += r.Bytes
		}
	}
	a.Mesh.Totals = result.Totals{Connections: 1, Bytes: g.Bytes.Total}
	return a
}

func compare(base, head mesh) *result.Diff {
	return diff.Compare(base.audit(), head.audit(), diff.Options{})
}

func chain(match string, to ...string) result.Part { return result.Part{Match: &match, To: to} }

func host(name, domain string, to ...string) result.Part {
	return result.Part{Name: name, Domains: []string{domain}, To: to}
}

func res(name string, parts ...result.Part) *result.Resource {
	return &result.Resource{Name: name, Bytes: 100, Digest: 1, Parts: parts}
}

func outbound(policy string) *result.Resource {
	return res("virtualOutbound", chain("", "cluster "+policy))
}

func object(kind, name, digest string) result.Object {
	return result.Object{Ref: result.Ref{Kind: kind, Namespace: "apps", Name: name}, Digest: digest}
}

// tell is one line for each change.
func tell(d *result.Diff) []string {
	out := []string{}
	for _, c := range d.Changes {
		line := string(c.Kind) + " " + c.Type + " " + c.Resource
		if c.Part != nil {
			line += " [" + *c.Part + "]"
		}
		if c.To != "" {
			line += " > " + c.To
		}
		if len(c.Fields) > 0 {
			line += " " + strings.Join(c.Fields, ",")
		}
		if c.Sees != "" {
			line += ": " + c.Sees
		}
		if c.Harmless {
			line += " (harmless)"
		}
		out = append(out, line)
	}
	return out
}

func expect(t *testing.T, d *result.Diff, want ...string) {
	t.Helper()
	if have := tell(d); !slices.EqualFunc(have, want, strings.HasPrefix) {
		t.Errorf("have\n  %s\nwant (as prefixes)\n  %s", strings.Join(have, "\n  "), strings.Join(want, "\n  "))
	}
}

const api, apiV1, apiV2 = "outbound|80||api.apps", "outbound|80|v1|api.apps", "outbound|80|v2|api.apps"

// A move is one change, and only where there is one counterpart.
func TestMoves(t *testing.T) {
	db := chain("sni:db", "cluster outbound|443||db")
	other := chain("sni:other", "cluster outbound|443||other")
	expect(t, compare(
		mesh{lds: []*result.Resource{res("0.0.0.0_443", db, other), outbound("PassthroughCluster")}},
		mesh{lds: []*result.Resource{res("0.0.0.0_443", other), res("240.0.0.10_443", chain("", "cluster outbound|443||db")), outbound("PassthroughCluster")}},
	), "moved lds 0.0.0.0_443 [sni:db] > 240.0.0.10_443")
	subset := func(name string, digest result.Digest) mesh {
		assignment := res(name, result.Part{Endpoints: new(2)})
		assignment.Endpoints, assignment.Digest = 2, digest
		return mesh{cds: []*result.Resource{res(name, result.Part{Type: "EDS"})}, eds: []*result.Resource{assignment}}
	}
	expect(t, compare(subset(apiV1, 7), subset(apiV2, 7)), "moved cds "+apiV1+" > "+apiV2, "moved eds "+apiV1+" > "+apiV2)
	before, after := subset(apiV1, 7), subset(apiV2, 7)
	before.rds, after.rds = []*result.Resource{res("80", host("api", "api", apiV1))}, []*result.Resource{res("80", host("api", "api", apiV1))}
	expect(t, compare(before, after), "lost cds "+apiV1+": 503 NC", "lost eds", "gained cds", "gained eds")
	expect(t, compare(subset(apiV1, 7), subset(apiV2, 8)), "lost cds", "lost eds", "gained cds", "gained eds")
}

// Contents that no canonical field tells are compared by digest.
func TestContent(t *testing.T) {
	with := func(routes result.Digest) mesh {
		h := host("api", "api", api)
		h.Digest = routes
		return mesh{rds: []*result.Resource{res("80", h)}}
	}
	expect(t, compare(with(1), with(2)), "changed rds 80 [api] content")
	expect(t, compare(with(1), with(1)))
	expect(t, compare(with(0), with(2))) // not known on one side
}

// The cause is the changed object that the evidence names; a part's origin goes
// before the service, and what changed elsewhere is no cause.
func TestCauses(t *testing.T) {
	by := func(kind, name string, p result.Part) result.Part {
		p.By = result.Ref{Kind: kind, Namespace: "apps", Name: name}
		return p
	}
	objects := func(digest string) []result.Object {
		return []result.Object{object("Service", "api", digest), object("Sidecar", "default", digest), object("VirtualService", "api", digest)}
	}
	services := []result.Service{{Host: "api.apps", Namespace: "apps", Ref: result.Ref{Kind: "Service", Namespace: "apps", Name: "api"}}}
	for name, c := range map[string]struct {
		base, head mesh
		want       string
	}{
		"a route": {
			mesh{rds: []*result.Resource{res("80", by("VirtualService", "api", host("api", "api", apiV1)))}},
			mesh{rds: []*result.Resource{res("80", by("VirtualService", "api", host("api", "api", apiV2)))}}, "VirtualService",
		},
		"a service's cluster": {
			mesh{cds: []*result.Resource{res(api, result.Part{Type: "EDS"})}},
			mesh{cds: []*result.Resource{res(api, result.Part{Type: "STRICT_DNS"})}}, "Service",
		},
		"an import": {
			mesh{by: result.Ref{Kind: "Sidecar", Namespace: "apps", Name: "default"}, cds: []*result.Resource{res("outbound|1||elsewhere", result.Part{})}},
			mesh{by: result.Ref{Kind: "Sidecar", Namespace: "apps", Name: "default"}}, "Sidecar",
		},
	} {
		c.base.objects, c.head.objects, c.base.services, c.head.services = objects("1"), objects("2"), services, services
		d := compare(c.base, c.head)
		if len(d.Changes) != 1 || len(d.Changes[0].Inputs) != 1 {
			t.Fatalf("%s: %+v", name, d.Changes)
		}
		for _, in := range d.Inputs {
			if in.ID == d.Changes[0].Inputs[0] && in.Head.Kind != c.want {
				t.Errorf("%s: because of %s, want %s", name, in.Head.Kind, c.want)
			}
		}
	}
	d := compare(mesh{}, mesh{flags: map[string]string{"PILOT_X": "true"}})
	if len(d.Inputs) != 1 || d.Inputs[0].Text != "PILOT_X: unset -> true" {
		t.Errorf("a flag: %+v", d.Inputs)
	}
}

// A route before its subset, and a subset removed before its route, lose
// traffic; both at once have no safe order.
func TestOrder(t *testing.T) {
	routed := func(cluster string, digest string, clusters ...string) mesh {
		h := host("api", "api", cluster)
		h.By = result.Ref{Kind: "VirtualService", Namespace: "apps", Name: "api"}
		m := mesh{
			rds:     []*result.Resource{res("80", h)},
			objects: []result.Object{object("DestinationRule", "api", digest), object("VirtualService", "api", digest)},
		}
		for _, name := range clusters {
			rule := "apps/api"
			m.cds = append(m.cds, res(name, result.Part{Type: "EDS", Rule: &rule, By: result.Ref{Kind: "DestinationRule", Namespace: "apps", Name: "api"}}))
		}
		return m
	}
	for name, c := range map[string]struct {
		base, head mesh
		first      string
		unsafe     bool
	}{
		"a subset comes": {routed(apiV1, "1", apiV1), routed(apiV2, "2", apiV1, apiV2), "DestinationRule", false},
		"a subset goes":  {routed(apiV1, "1", apiV1, apiV2), routed(apiV2, "2", apiV2), "VirtualService", false},
		"both at once":   {routed(apiV1, "1", apiV1), routed(apiV2, "2", apiV2), "", true},
	} {
		d := compare(c.base, c.head)
		if len(d.Order.Hazards) == 0 {
			t.Errorf("%s: no hazard", name)
			continue
		}
		if c.unsafe != (d.Order.Unsafe != "") {
			t.Errorf("%s: unsafe %q", name, d.Order.Unsafe)
		}
		for _, in := range d.Inputs {
			if in.ID == d.Order.Steps[0].Input && c.first != "" && in.Head.Kind != c.first {
				t.Errorf("%s: first %s, want %s", name, in.Head.Kind, c.first)
			}
		}
	}
}

// Proxies of a workload whose pods have new names are the same proxies.
func TestMatching(t *testing.T) {
	base, head := mesh{lds: []*result.Resource{outbound("PassthroughCluster")}}.audit(), mesh{}.audit()
	head.Proxies[0].Name = "web-0-new"
	d := diff.Compare(base, head, diff.Options{})
	if s := d.Summary; s.Proxies != 1 || s.Added+s.Removed != 0 || s.Lose != 1 {
		t.Errorf("%+v", s)
	}
	head.Proxies[0].Workload = "statefulset/other"
	d = diff.Compare(base, head, diff.Options{})
	if s := d.Summary; s.Proxies != 0 || s.Added != 1 || s.Removed != 1 || s.Emptied != 1 {
		t.Errorf("%+v", s)
	}
	if len(d.Gone) != 1 || d.Gone[0].Workload != "statefulset/web" || len(d.New) != 1 || d.New[0].Workload != "statefulset/other" {
		t.Errorf("gone %+v, new %+v", d.Gone, d.New)
	}
	two := mesh{}.audit()
	two.Proxies = append(two.Proxies, two.Proxies[0])
	two.Proxies[1].Name = "web-1"
	d = diff.Compare(two, mesh{}.audit(), diff.Options{})
	if s := d.Summary; s.Removed != 1 || s.Emptied != 0 || d.Gone[0].Left != 1 || d.Gone[0].Proxies[0] != "web-1" {
		t.Errorf("%+v, gone %+v", s, d.Gone)
	}
}

// A push reaches the proxies that istiod decides on, whether anything changes
// for them or not: a VirtualService that a scope uses makes it send listeners
// and routes whole, a Gateway nothing to a sidecar.
func TestPush(t *testing.T) {
	both := func(digest string) *result.Audit {
		m := mesh{
			lds: []*result.Resource{outbound("PassthroughCluster")}, rds: []*result.Resource{res("80", host("api", "api", api))},
			objects: []result.Object{object("Gateway", "gw", digest), object("VirtualService", "api", digest), object("VirtualService", "unused", digest)},
		}
		a := m.audit()
		a.Scopes[0].Uses = []uint32{1}
		return a
	}
	d := diff.Compare(both("1"), both("2"), diff.Options{})
	if d.Push.Proxies != 1 || d.Push.Bytes != 200 {
		t.Errorf("%d proxies, %d bytes; want 1 and 200", d.Push.Proxies, d.Push.Bytes)
	}
	reached := map[string]int{}
	for _, p := range d.Push.Inputs {
		for _, in := range d.Inputs {
			if in.ID == p.Input {
				reached[in.Head.Name] = p.Any
			}
		}
	}
	if reached["api"] != 1 || reached["unused"] != 0 || reached["gw"] != 0 {
		t.Errorf("proxies reached: %v", reached)
	}
}
