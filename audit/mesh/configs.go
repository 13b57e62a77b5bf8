package mesh

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// byCreation is istiod's usual order: creation time, name, namespace (Istio
// pilot/pkg/model/config.go sortConfigByCreationTime).
func byCreation(a, b *snapshot.Meta) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
}

// seen are the objects of a kind that the view reads, in istiod's usual order.
func seen[S proto.Message](v *View, all []snapshot.Config[S], usable func(S) bool) []*snapshot.Config[S] {
	var out []*snapshot.Config[S]
	for i := range all {
		if v.reads(&all[i].Meta) && usable(all[i].Spec) {
			out = append(out, &snapshot.Config[S]{Meta: all[i].Meta, Spec: known(v.Version, all[i].Spec)})
		}
	}
	slices.SortStableFunc(out, func(a, b *snapshot.Config[S]) int { return byCreation(&a.Meta, &b.Meta) })
	return out
}

// notNil tells a spec that is there from an object without one.
func notNil[T any](spec *T) bool { return spec != nil }

// first moves the objects that match to the front, otherwise keeping the order.
func first[S any](list []*snapshot.Config[S], matches func(S) bool) {
	slices.SortStableFunc(list, func(a, b *snapshot.Config[S]) int {
		switch x, y := matches(a.Spec), matches(b.Spec); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
}

// configs fills the lists of Istio's own kinds.
func (v *View) configs(snap *snapshot.Snapshot) {
	v.DestinationRules = seen(v, snap.DestinationRules, notNil[networking.DestinationRule])
	first(v.DestinationRules, func(s *networking.DestinationRule) bool { return s.GetWorkloadSelector() != nil })
	v.Gateways = seen(v, snap.Gateways, notNil[networking.Gateway])
	v.Sidecars = seen(v, snap.Sidecars, notNil[networking.Sidecar])
	first(v.Sidecars, func(s *networking.Sidecar) bool { return s.GetWorkloadSelector() != nil })
	for i := range snap.EnvoyFilters {
		filter := snap.EnvoyFilters[i]
		if v.reads(&filter.Meta) && filter.Spec != nil {
			filter.Spec = known(v.Version, filter.Spec)
			v.EnvoyFilters = append(v.EnvoyFilters, &filter)
		}
	}
	slices.SortStableFunc(v.EnvoyFilters, func(a, b *snapshot.EnvoyFilter) int {
		return cmp.Or(cmp.Compare(a.Spec.GetPriority(), b.Spec.GetPriority()), byCreation(&a.Meta, &b.Meta))
	})
	v.policies(snap)
}
