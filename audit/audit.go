// Package audit runs the model: a snapshot in, what istiod sends to every proxy
// out. It reads nothing and prints nothing.
package audit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// Options narrow a run.
type Options struct {
	Select Selection
	// Details asks for what only a comparison needs: the digests of contents,
	// and what the scopes depend on.
	Details bool
	// Brief leaves out what a table does not show: the input's objects and the
	// parts of sidecars' route configurations. With Details it has no effect.
	Brief bool
	// Progress is called as proxies are finished; nil: not at all.
	Progress func(done, total int)
}

// CheckVersion returns an error if s is no Istio version.
func CheckVersion(s string) error {
	if _, ok := mesh.ParseVersion(s); !ok {
		return fmt.Errorf("%q is no Istio version such as 1.30.3", s)
	}
	return nil
}

// Selection says which proxies to answer for; the zero Selection: all. The
// mesh is computed from all objects whatever it says.
type Selection struct {
	Namespace string                       // empty: all
	Pod       string                       // empty: all
	Workload  string                       // "deployment/reviews-v1"; empty: all
	Labels    func(map[string]string) bool // of the pod; nil: all
}

func (s *Selection) selects(p *mesh.Proxy) bool {
	return (s.Namespace == "" || p.Namespace == s.Namespace) &&
		(s.Pod == "" || p.Name == s.Pod) &&
		(s.Workload == "" || p.Workload == s.Workload) &&
		(s.Labels == nil || s.Labels(p.Labels.Map()))
}

// Run answers for the snapshot's proxies. It fails only if an input object
// cannot be encoded for its digest.
func Run(snap *snapshot.Snapshot, o Options) (*result.Audit, error) {
	c, err := Compute(snap, o)
	if err != nil {
		return nil, err
	}
	return c.Audit, nil
}

// run is the state of one run.
type run struct {
	*assembly
	o      Options
	mesh   *mesh.Mesh
	chosen [][]*mesh.Proxy // of each view
	total  int             // of chosen
}

func newRun(snap *snapshot.Snapshot, o Options) (*run, error) {
	r := &run{o: o, mesh: mesh.New(snap)}
	out := &result.Audit{
		APIVersion: result.APIVersion, Kind: result.KindScopeReport,
		Proxies: []result.Proxy{}, Groups: []result.Group{}, Scopes: []result.Scope{}, Reasons: []result.Reason{}, Gaps: []result.Gap{},
	}
	out.Gaps = append(append(out.Gaps, snap.Gaps...), r.mesh.Gaps...)
	var err error
	if r.o.Brief = o.Brief && !o.Details; !r.o.Brief {
		if out.Objects, err = snap.Objects(o.Details); err != nil {
			return nil, err
		}
	}
	r.assembly = &assembly{out: out, ledger: newLedger(o.Details)}
	if o.Details {
		r.indexObjects()
	}
	r.chosen = make([][]*mesh.Proxy, len(r.mesh.Views))
	for i, view := range r.mesh.Views {
		for _, p := range view.Proxies {
			if o.Select.selects(p) {
				r.chosen[i] = append(r.chosen[i], p)
			}
		}
		r.total += len(r.chosen[i])
	}
	return r, nil
}

func (r *run) progress(done int) {
	if r.o.Progress != nil {
		r.o.Progress(done, r.total)
	}
}

// all computes all chosen proxies.
func (r *run) all() *Computation {
	c := &Computation{Audit: r.out, mesh: r.mesh, options: r.o}
	done := 0
	for i, view := range r.mesh.Views {
		parts := chosenParts(view, r.chosen[i])
		project(view, parts, &r.o, func(n int) { r.progress(done + n) })
		r.addParts(view, parts)
		r.out.Gaps = append(r.out.Gaps, parts[0].builder.SizeGaps(r.chosen[i])...)
		c.parts = append(c.parts, parts)
		done += len(r.chosen[i])
	}
	r.finish(r.mesh)
	return c
}

// Proxies lists the selected proxies by namespace and name, without computing
// what they get.
func Proxies(snap *snapshot.Snapshot, s Selection) []result.Proxy {
	var out []result.Proxy
	for _, view := range mesh.New(snap).Views {
		for _, p := range view.Proxies {
			if s.selects(p) {
				out = append(out, proxyOf(p))
			}
		}
	}
	sortProxies(out)
	return out
}

func proxyOf(p *mesh.Proxy) result.Proxy {
	return result.Proxy{
		Namespace: p.Namespace, Name: p.Name, Kind: p.Kind.String(), Workload: p.Workload,
		Revision: p.View.Revision, Version: p.Version.String(), Assumed: p.Pod.Assumed,
	}
}

func sortProxies(list []result.Proxy) {
	slices.SortFunc(list, func(x, y result.Proxy) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(x.Revision, y.Revision))
	})
}

// assembly joins the revisions' projections to one audit.
type assembly struct {
	out     *result.Audit
	ledger  *ledger
	members [][]*mesh.Proxy      // of out.Groups
	objects map[objectKey]uint32 // indexes in out.Objects; nil: without details
}

// add takes a projection in; number tells the audit's number of a reason of it;
// nil: its resources have those already.
func (a *assembly) add(view *mesh.View, p *xds.Projection, number func(result.ReasonID) result.ReasonID) {
	a.out.Gaps = append(a.out.Gaps, p.Gaps...)
	moved := map[*result.Resource]bool{}
	renumber := func(r *result.Resources) {
		if number == nil {
			return
		}
		for _, t := range result.Types {
			for _, res := range *r.Of(t) {
				if moved[res] {
					continue
				}
				moved[res] = true
				for i := range res.Because {
					res.Because[i] = number(res.Because[i])
				}
			}
		}
	}
	groups := 0
	for _, s := range p.Scopes {
		groups += len(s.Groups)
	}
	a.out.Groups, a.members = slices.Grow(a.out.Groups, groups), slices.Grow(a.members, groups)
	for _, s := range p.Scopes {
		s.ID = fmt.Sprintf("s%d", len(a.out.Scopes)+1)
		renumber(&s.Resources)
		for _, g := range s.Groups {
			g.ID = fmt.Sprintf("g%d", len(a.out.Groups)+1)
			g.Scope = s.ID
			renumber(&g.Resources)
			a.out.Groups = append(a.out.Groups, g.Group)
			a.members = append(a.members, g.Members)
		}
		if a.objects != nil {
			s.Scope.Uses = a.uses(s)
		}
		a.out.Scopes = append(a.out.Scopes, s.Scope)
	}
	a.ledger.add(view, p)
}

// finish tells the proxies and the totals, and sorts all lists.
func (a *assembly) finish(m *mesh.Mesh) {
	out := a.out
	proxies := 0
	for _, members := range a.members {
		proxies += len(members)
	}
	out.Proxies = make([]result.Proxy, 0, proxies)
	for i := range out.Groups {
		g := &out.Groups[i]
		for _, p := range a.members[i] {
			proxy := proxyOf(p)
			proxy.Group = g.ID
			out.Proxies = append(out.Proxies, proxy)
		}
		n := int64(g.Proxies)
		out.Mesh.Totals.Connections += g.Proxies
		out.Mesh.Totals.EndpointRows += n * int64(g.Counts.Endpoints)
		out.Mesh.Totals.Bytes += n * g.Bytes.Total
	}
	sortProxies(out.Proxies)
	out.Services, out.Remainder = a.ledger.lists()
	for i := range out.Scopes {
		notNil(&out.Scopes[i].Resources)
	}
	for i := range out.Groups {
		notNil(&out.Groups[i].Resources)
	}
	out.Gaps = sortGaps(out.Gaps)
	describeMesh(&out.Mesh, m)
}

// notNil makes each list that every proxy has an empty one where it has none.
func notNil(r *result.Resources) {
	for _, t := range result.CommonTypes {
		if list := r.Of(t); *list == nil {
			*list = []*result.Resource{}
		}
	}
}

// weight orders gaps: what could not be read, then assumptions that are in the
// bytes, what is not modelled, and what completion assumed.
func weight(g result.Gap) int {
	switch {
	case g.Kind == result.Unread:
		return 0
	case g.Counted:
		return 1
	case g.Kind == result.Unmodelled:
		return 2
	}
	return 3
}

// sortGaps sorts by weight and object, and drops what is said twice.
func sortGaps(gaps []result.Gap) []result.Gap {
	compare := func(x, y result.Gap) int {
		return cmp.Or(cmp.Compare(weight(x), weight(y)), cmp.Compare(x.Object.Kind, y.Object.Kind),
			cmp.Compare(x.Object.Namespace, y.Object.Namespace), cmp.Compare(x.Object.Name, y.Object.Name),
			cmp.Compare(x.Text, y.Text), slices.Compare(x.Proxies, y.Proxies))
	}
	slices.SortFunc(gaps, compare)
	return slices.CompactFunc(gaps, func(x, y result.Gap) bool { return compare(x, y) == 0 })
}

func describeMesh(info *result.MeshInfo, m *mesh.Mesh) {
	info.ControlPlanes = []result.ControlPlane{}
	info.Namespaces = len(m.Snapshot.Namespaces)
	info.Partial = m.Snapshot.Partial
	hosts := map[string]bool{}
	for _, view := range m.Views {
		for _, s := range view.Services {
			hosts[s.Host] = true
		}
		info.Proxies += len(view.Proxies)
		for _, p := range view.Proxies {
			if p.Pod.Assumed {
				info.Assumed++
			}
		}
		info.EndpointRows = max(info.EndpointRows, len(view.Endpoints.Rows))
		info.TrustDomain = view.Config.GetTrustDomain()
		info.ControlPlanes = append(info.ControlPlanes, result.ControlPlane{
			Revision: view.Revision, Tags: view.Tags, Namespace: view.Namespace,
			Version: view.Version.String(), VersionAssumed: view.VersionAssumed,
			RootNamespace: view.RootNamespace, OutboundPolicy: view.Config.GetOutboundTrafficPolicy().GetMode().String(),
			Flags: view.Flags.Set, Proxies: len(view.Proxies), MeshConfig: meshConfigDigests(view.Config),
		})
		if view.Istiod != nil {
			info.ControlPlanes[len(info.ControlPlanes)-1].Ref = view.Istiod.Ref()
		}
	}
	info.Services = len(hosts)
}

// Node is a proxy as it presents itself to istiod when it connects.
type Node = mesh.Node

// Nodes lists what the selected proxies' agents tell istiod, by namespace and name.
func Nodes(snap *snapshot.Snapshot, s Selection) []Node {
	var out []Node
	for _, view := range mesh.New(snap).Views {
		for _, p := range view.Proxies {
			if s.selects(p) {
				out = append(out, p.AsNode())
			}
		}
	}
	slices.SortFunc(out, func(x, y Node) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return out
}
