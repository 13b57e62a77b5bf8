package overlay

import (
	"cmp"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// table is one list of a snapshot, whatever its rows.
type table interface {
	// find returns the metadata of the object; nil if it is not in the list.
	find(k Key) *snapshot.Meta
	each(yield func(*snapshot.Meta))
	// merge replaces the list by one without what is gone and with the rows of
	// another table of the same kind, which win.
	merge(added table, gone func(*snapshot.Meta) bool)
}

// rows is a list sorted by namespace, name and kind.
type rows[T any] struct {
	list *[]T
	meta func(*T) *snapshot.Meta
}

func compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
}

func (r rows[T]) row(k Key) *T {
	list := *r.list
	i, found := slices.BinarySearchFunc(list, k, func(row T, k Key) int { return compare(metaKey(r.meta(&row)), k) })
	if !found {
		return nil
	}
	return &list[i]
}

func (r rows[T]) find(k Key) *snapshot.Meta {
	if row := r.row(k); row != nil {
		return r.meta(row)
	}
	return nil
}

func (r rows[T]) each(yield func(*snapshot.Meta)) {
	for i := range *r.list {
		yield(r.meta(&(*r.list)[i]))
	}
}

func (r rows[T]) merge(added table, gone func(*snapshot.Meta) bool) {
	list, more := *r.list, *added.(rows[T]).list
	if len(more) == 0 && !slices.ContainsFunc(list, func(row T) bool { return gone(r.meta(&row)) }) {
		return
	}
	out := make([]T, 0, len(list)+len(more))
	for i := range list {
		m := r.meta(&list[i])
		for len(more) > 0 && compare(metaKey(r.meta(&more[0])), metaKey(m)) < 0 {
			out, more = append(out, more[0]), more[1:]
		}
		replaced := len(more) > 0 && compare(metaKey(r.meta(&more[0])), metaKey(m)) == 0
		if !replaced && !gone(m) {
			out = append(out, list[i])
		}
	}
	*r.list = append(out, more...)
}

func configs[S any](list *[]snapshot.Config[S]) table {
	return rows[snapshot.Config[S]]{list, func(r *snapshot.Config[S]) *snapshot.Meta { return &r.Meta }}
}

// tablesOf lists the tables of a snapshot, always in the same order.
func tablesOf(s *snapshot.Snapshot) []table {
	return []table{
		rows[snapshot.Namespace]{&s.Namespaces, func(r *snapshot.Namespace) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.Node]{&s.Nodes, func(r *snapshot.Node) *snapshot.Meta { return &r.Meta }},
		configs(&s.Services),
		rows[snapshot.EndpointSlice]{&s.Slices, func(r *snapshot.EndpointSlice) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.Pod]{&s.Pods, func(r *snapshot.Pod) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.Workload]{&s.Workloads, func(r *snapshot.Workload) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.ConfigMap]{&s.ConfigMaps, func(r *snapshot.ConfigMap) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.Istiod]{&s.Istiods, func(r *snapshot.Istiod) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.Webhook]{&s.Webhooks, func(r *snapshot.Webhook) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.ServiceEntry]{&s.ServiceEntries, func(r *snapshot.ServiceEntry) *snapshot.Meta { return &r.Meta }},
		rows[snapshot.EnvoyFilter]{&s.EnvoyFilters, func(r *snapshot.EnvoyFilter) *snapshot.Meta { return &r.Meta }},
		configs(&s.WorkloadEntries), configs(&s.WorkloadGroups), configs(&s.DestinationRules), configs(&s.VirtualServices),
		configs(&s.Gateways), configs(&s.Sidecars), configs(&s.ProxyConfigs), configs(&s.PeerAuthentications),
		configs(&s.RequestAuthentications), configs(&s.AuthorizationPolicies), configs(&s.Telemetries), configs(&s.WasmPlugins),
		rows[snapshot.Meta]{&s.Unmodelled, func(r *snapshot.Meta) *snapshot.Meta { return r }},
	}
}

// find returns the metadata of an object of base; nil if there is none.
func (l *laying) find(k Key) *snapshot.Meta {
	for _, t := range l.tables {
		if m := t.find(k); m != nil {
			return m
		}
	}
	return nil
}

func (l *laying) pod(k Key) *snapshot.Pod {
	return rows[snapshot.Pod]{&l.base.Pods, func(r *snapshot.Pod) *snapshot.Meta { return &r.Meta }}.row(k)
}

func (l *laying) workload(k Key) *snapshot.Workload {
	return rows[snapshot.Workload]{&l.base.Workloads, func(r *snapshot.Workload) *snapshot.Meta { return &r.Meta }}.row(k)
}

// KeysOf lists the objects of files.
func KeysOf(files *load.Result) []Key {
	var out []Key
	for _, o := range files.Objects {
		out = append(out, keyOf(o))
	}
	for i := range files.Unmodelled {
		out = append(out, metaKey(&files.Unmodelled[i]))
	}
	return out
}

// Keys lists the objects of a mesh for which keep returns true. Of what other
// objects make (pods of workloads, endpoints) there are none.
func Keys(s *snapshot.Snapshot, keep func(*snapshot.Meta) bool) []Key {
	made := map[Key]bool{}
	for i := range s.Slices {
		made[metaKey(&s.Slices[i].Meta)] = true
	}
	for i := range s.Pods {
		if s.Pods[i].Owner != (snapshot.OwnerRef{}) {
			made[metaKey(&s.Pods[i].Meta)] = true
		}
	}
	for i := range s.Workloads {
		if s.Workloads[i].Owner != (snapshot.OwnerRef{}) {
			made[metaKey(&s.Workloads[i].Meta)] = true
		}
	}
	for i := range s.Namespaces {
		if s.Namespaces[i].Implied {
			made[metaKey(&s.Namespaces[i].Meta)] = true
		}
	}
	var out []Key
	seen := map[Key]bool{}
	for _, t := range tablesOf(s) {
		t.each(func(m *snapshot.Meta) {
			if k := metaKey(m); !made[k] && !seen[k] && keep(m) {
				seen[k] = true
				out = append(out, k)
			}
		})
	}
	return out
}
