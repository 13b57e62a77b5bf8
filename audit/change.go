package audit

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// Computation is an audit with what it was computed from, so that the audit
// after a small change need not compute everything again.
type Computation struct {
	Audit   *result.Audit
	mesh    *mesh.Mesh
	options Options
	parts   [][]*part // of each view
}

// Compute is Run for a mesh whose Change is to be audited too.
func Compute(snap *snapshot.Snapshot, o Options) (*Computation, error) {
	r, err := newRun(snap, o)
	if err != nil {
		return nil, err
	}
	return r.all(), nil
}

// namespaced are the kinds that, outside the root namespace, change what the
// proxies of their own namespace get and nothing else (Istio
// pilot/pkg/model/{sidecar,authorization,authentication,telemetry}.go).
var namespaced = map[string]bool{
	"Sidecar": true, "RequestAuthentication": true, "Telemetry": true,
}

// Change is the audit, with the same options, of a mesh that is like the
// computation's: Run's answer but for the numbers of the reasons. Where all that
// changed touches the proxies of few namespaces, only those are computed.
// progress is called as proxies are finished; nil: not at all.
func (c *Computation) Change(snap *snapshot.Snapshot, progress func(done, total int)) (*result.Audit, error) {
	o := c.options
	o.Progress = progress
	r, err := newRun(snap, o)
	if err != nil {
		return nil, err
	}
	touched, few := c.touched(r)
	if !few {
		return r.all().Audit, nil
	}
	return r.from(c, touched), nil
}

// touched are the namespaces whose proxies may get something else in r; few
// reports that it is known and worth computing those alone.
func (c *Computation) touched(r *run) (namespaces map[string]bool, few bool) {
	if !r.o.Details || len(c.mesh.Views) != len(r.mesh.Views) || !sameBeside(c.mesh.Snapshot, r.mesh.Snapshot) {
		return nil, false
	}
	namespaces = map[string]bool{}
	for _, o := range changedObjects(c.Audit.Objects, r.out.Objects) {
		if !namespaced[o.Kind] {
			return nil, false
		}
		namespaces[o.Namespace] = true
	}
	recomputed := 0
	for i, view := range r.mesh.Views {
		if namespaces[view.RootNamespace] || namespaces[c.mesh.Views[i].RootNamespace] {
			return nil, false
		}
		for _, p := range r.chosen[i] {
			if namespaces[p.Namespace] {
				recomputed++
			}
		}
	}
	return namespaces, 2*recomputed < r.total
}

// sameBeside compares what the model reads beside what the objects' digests are
// made of.
func sameBeside(x, y *snapshot.Snapshot) bool {
	return x.Partial == y.Partial && reflect.DeepEqual(x.Overrides, y.Overrides) &&
		maps.EqualFunc(x.Balancers, y.Balancers, slices.Equal) && maps.Equal(x.Unhealthy, y.Unhealthy) &&
		slices.EqualFunc(x.Namespaces, y.Namespaces, func(a, b snapshot.Namespace) bool {
			return a.Name == b.Name && a.Implied == b.Implied
		}) &&
		slices.EqualFunc(x.WasmPlugins, y.WasmPlugins, func(a, b snapshot.Config[*extensions.WasmPlugin]) bool {
			return a.ResourceVersion == b.ResourceVersion
		})
}

// changedObjects are those of two lists, sorted alike, that are not in both with
// the same digest and from the same place.
func changedObjects(before, after []result.Object) []result.Object {
	var out []result.Object
	for len(before) > 0 && len(after) > 0 {
		x, y := &before[0], &after[0]
		switch order := cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name)); {
		case order < 0:
			out, before = append(out, *x), before[1:]
		case order > 0:
			out, after = append(out, *y), after[1:]
		default:
			if x.Digest != y.Digest || x.Ref != y.Ref || x.Owner != y.Owner || x.Assumed != y.Assumed {
				out = append(out, *x)
			}
			before, after = before[1:], after[1:]
		}
	}
	return append(append(out, before...), after...)
}

// from computes the proxies of the touched namespaces, and takes all others from
// a computation. Reasons keep their numbers; new ones follow.
func (r *run) from(c *Computation, touched map[string]bool) *result.Audit {
	r.out.Reasons = slices.Clone(c.Audit.Reasons)
	done := 0
	for i, view := range r.mesh.Views {
		fresh := map[string]*part{}
		var parts []*part
		for _, p := range r.chosen[i] {
			if !touched[p.Namespace] {
				continue
			}
			if fresh[p.Namespace] == nil {
				fresh[p.Namespace] = &part{}
				parts = append(parts, fresh[p.Namespace])
			}
			fresh[p.Namespace].proxies = append(fresh[p.Namespace].proxies, p)
		}
		project(view, parts, &r.o, func(int) {})
		for _, known := range c.parts[i] {
			r.addKnown(view, known, touched, fresh)
		}
		sizes := &part{}
		sizes.prepare(view, &r.o)
		r.out.Gaps = append(r.out.Gaps, sizes.builder.SizeGaps(r.chosen[i])...)
		done += len(r.chosen[i])
		r.progress(done)
	}
	r.finish(r.mesh)
	return r.out
}

// addKnown takes the scopes of a computed part in, those of touched namespaces
// from fresh.
func (r *run) addKnown(view *mesh.View, known *part, touched map[string]bool, fresh map[string]*part) {
	scopes := known.projection.Scopes
	for len(scopes) > 0 {
		namespace := scopes[0].Namespace()
		n := slices.IndexFunc(scopes, func(s *xds.ScopeResult) bool {
			if touched[namespace] {
				return s.Namespace() != namespace
			}
			return touched[s.Namespace()]
		})
		if n < 0 {
			n = len(scopes)
		}
		if touched[namespace] {
			r.addParts(view, []*part{fresh[namespace]})
		} else {
			r.add(view, &xds.Projection{Scopes: scopes[:n], Services: known.projection.Services}, nil)
		}
		scopes = scopes[n:]
	}
	for _, g := range known.projection.Gaps {
		if !slices.ContainsFunc(g.Proxies, func(id string) bool {
			namespace, _, _ := strings.Cut(id, "/")
			return touched[namespace]
		}) {
			r.out.Gaps = append(r.out.Gaps, g)
		}
	}
}
