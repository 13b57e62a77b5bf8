package snapshot

import (
	"cmp"
	"maps"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Build returns the snapshot. The Builder must not be used afterwards.
func (b *Builder) Build() *Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.snap
	s.Namespaces = settle(s.Namespaces, func(o *Namespace) *Meta { return &o.Meta })
	s.Nodes = settle(s.Nodes, func(o *Node) *Meta { return &o.Meta })
	s.Services = settleConfigs(s.Services)
	s.Slices = settle(s.Slices, func(o *EndpointSlice) *Meta { return &o.Meta })
	if more := mirrored(b.endpoints, s.Slices); len(more) > 0 {
		s.Slices = append(s.Slices, more...)
		slices.SortStableFunc(s.Slices, func(a, c EndpointSlice) int { return compareMeta(&a.Meta, &c.Meta) })
	}
	s.Pods = settle(s.Pods, func(o *Pod) *Meta { return &o.Meta })
	s.Workloads = settle(s.Workloads, func(o *Workload) *Meta { return &o.Meta })
	s.Istiods = settle(s.Istiods, func(o *Istiod) *Meta { return &o.Meta })
	s.ConfigMaps = meshConfigs(settle(s.ConfigMaps, func(o *ConfigMap) *Meta { return &o.Meta }), s.Istiods)
	s.Webhooks = settle(s.Webhooks, func(o *Webhook) *Meta { return &o.Meta })
	s.ServiceEntries = settle(s.ServiceEntries, func(o *ServiceEntry) *Meta { return &o.Meta })
	s.EnvoyFilters = settle(s.EnvoyFilters, func(o *EnvoyFilter) *Meta { return &o.Meta })
	s.WorkloadEntries = settleConfigs(s.WorkloadEntries)
	s.WorkloadGroups = settleConfigs(s.WorkloadGroups)
	s.DestinationRules = settleConfigs(s.DestinationRules)
	s.VirtualServices = settleConfigs(s.VirtualServices)
	s.Gateways = settleConfigs(s.Gateways)
	s.Sidecars = settleConfigs(s.Sidecars)
	s.ProxyConfigs = settleConfigs(s.ProxyConfigs)
	s.PeerAuthentications = settleConfigs(s.PeerAuthentications)
	s.RequestAuthentications = settleConfigs(s.RequestAuthentications)
	s.AuthorizationPolicies = settleConfigs(s.AuthorizationPolicies)
	s.Telemetries = settleConfigs(s.Telemetries)
	s.WasmPlugins = settleConfigs(s.WasmPlugins)
	s.Unmodelled = append(s.Unmodelled, b.ingresses.istio()...)
	s.Unmodelled = effective(settle(s.Unmodelled, func(o *Meta) *Meta { return o }))
	slices.SortStableFunc(s.Gaps, compareGaps)
	s.ImplyNamespaces()
	return s
}

// settle sorts a list by namespace and name (then kind) and keeps the last of
// those that are equal.
func settle[T any](list []T, meta func(*T) *Meta) []T {
	compare := func(a, b *T) int { return compareMeta(meta(a), meta(b)) }
	order := make([]*T, len(list)) // rows are large: what is sorted is where they are
	rises := true
	for i := range list {
		order[i] = &list[i]
		rises = rises && (i == 0 || compare(order[i-1], order[i]) < 0)
	}
	if rises {
		return slices.Clip(list)
	}
	slices.SortStableFunc(order, compare)
	out := make([]T, 0, len(list))
	for i, row := range order {
		if i+1 == len(order) || compare(row, order[i+1]) != 0 {
			out = append(out, *row)
		}
	}
	return slices.Clip(out)
}

func settleConfigs[S any](list []Config[S]) []Config[S] {
	return settle(list, func(o *Config[S]) *Meta { return &o.Meta })
}

func compareMeta(a, b *Meta) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Kind, b.Kind),
	)
}

func compareGaps(a, b result.Gap) int {
	return cmp.Or(
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Object.Kind, b.Object.Kind),
		cmp.Compare(a.Object.Namespace, b.Object.Namespace),
		cmp.Compare(a.Object.Name, b.Object.Name),
		cmp.Compare(a.Object.Source.File, b.Object.Source.File),
		cmp.Compare(a.Text, b.Text),
	)
}

// ImplyNamespaces adds the namespaces that objects are in and that were not
// read, and drops those of them that no object is in any more.
func (s *Snapshot) ImplyNamespaces() {
	s.Namespaces = slices.DeleteFunc(slices.Clone(s.Namespaces), func(n Namespace) bool { return n.Implied })
	known := map[string]bool{"": true}
	for i := range s.Namespaces {
		known[s.Namespaces[i].Name] = true
	}
	implied := map[string]bool{}
	for m := range s.metas() {
		if !known[m.Namespace] {
			implied[m.Namespace] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(implied)) {
		s.Namespaces = append(s.Namespaces, Namespace{Meta: Meta{Kind: "Namespace", Name: name}, Implied: true})
	}
	slices.SortFunc(s.Namespaces, func(a, b Namespace) int { return compareMeta(&a.Meta, &b.Meta) })
}
