package snapshot

import "iter"

// metas yields the metadata of every object, kind by kind.
func (s *Snapshot) metas() iter.Seq[*Meta] {
	return func(yield func(*Meta) bool) {
		_ = each(s.Namespaces, func(o *Namespace) *Meta { return &o.Meta }, yield) &&
			each(s.Nodes, func(o *Node) *Meta { return &o.Meta }, yield) &&
			eachConfig(s.Services, yield) &&
			each(s.Slices, func(o *EndpointSlice) *Meta { return &o.Meta }, yield) &&
			each(s.Pods, func(o *Pod) *Meta { return &o.Meta }, yield) &&
			each(s.Workloads, func(o *Workload) *Meta { return &o.Meta }, yield) &&
			each(s.ConfigMaps, func(o *ConfigMap) *Meta { return &o.Meta }, yield) &&
			each(s.Webhooks, func(o *Webhook) *Meta { return &o.Meta }, yield) &&
			each(s.ServiceEntries, func(o *ServiceEntry) *Meta { return &o.Meta }, yield) &&
			each(s.EnvoyFilters, func(o *EnvoyFilter) *Meta { return &o.Meta }, yield) &&
			eachConfig(s.WorkloadEntries, yield) &&
			eachConfig(s.WorkloadGroups, yield) &&
			eachConfig(s.DestinationRules, yield) &&
			eachConfig(s.VirtualServices, yield) &&
			eachConfig(s.Gateways, yield) &&
			eachConfig(s.Sidecars, yield) &&
			eachConfig(s.ProxyConfigs, yield) &&
			eachConfig(s.PeerAuthentications, yield) &&
			eachConfig(s.RequestAuthentications, yield) &&
			eachConfig(s.AuthorizationPolicies, yield) &&
			eachConfig(s.Telemetries, yield) &&
			eachConfig(s.WasmPlugins, yield) &&
			each(s.Unmodelled, func(o *Meta) *Meta { return o }, yield)
	}
}

func each[T any](list []T, meta func(*T) *Meta, yield func(*Meta) bool) bool {
	for i := range list {
		if !yield(meta(&list[i])) {
			return false
		}
	}
	return true
}

func eachConfig[S any](list []Config[S], yield func(*Meta) bool) bool {
	return each(list, func(o *Config[S]) *Meta { return &o.Meta }, yield)
}
