package snapshot

import "maps"

// Absorb moves everything from another Builder into b. The other one must not
// be used afterwards. A caller that reads in pages adds them to a Builder of
// their own first, so that a kind is taken whole or not at all.
func (b *Builder) Absorb(other *Builder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, o := &b.snap, &other.snap
	s.Namespaces = append(s.Namespaces, o.Namespaces...)
	s.Nodes = append(s.Nodes, o.Nodes...)
	s.Services = append(s.Services, o.Services...)
	s.Slices = append(s.Slices, o.Slices...)
	s.Pods = append(s.Pods, o.Pods...)
	s.Workloads = append(s.Workloads, o.Workloads...)
	s.ConfigMaps = append(s.ConfigMaps, o.ConfigMaps...)
	s.Istiods = append(s.Istiods, o.Istiods...)
	s.Webhooks = append(s.Webhooks, o.Webhooks...)
	s.ServiceEntries = append(s.ServiceEntries, o.ServiceEntries...)
	s.WorkloadEntries = append(s.WorkloadEntries, o.WorkloadEntries...)
	s.WorkloadGroups = append(s.WorkloadGroups, o.WorkloadGroups...)
	s.DestinationRules = append(s.DestinationRules, o.DestinationRules...)
	s.VirtualServices = append(s.VirtualServices, o.VirtualServices...)
	s.Gateways = append(s.Gateways, o.Gateways...)
	s.Sidecars = append(s.Sidecars, o.Sidecars...)
	s.EnvoyFilters = append(s.EnvoyFilters, o.EnvoyFilters...)
	s.ProxyConfigs = append(s.ProxyConfigs, o.ProxyConfigs...)
	s.PeerAuthentications = append(s.PeerAuthentications, o.PeerAuthentications...)
	s.RequestAuthentications = append(s.RequestAuthentications, o.RequestAuthentications...)
	s.AuthorizationPolicies = append(s.AuthorizationPolicies, o.AuthorizationPolicies...)
	s.Telemetries = append(s.Telemetries, o.Telemetries...)
	s.WasmPlugins = append(s.WasmPlugins, o.WasmPlugins...)
	s.Unmodelled = append(s.Unmodelled, o.Unmodelled...)
	s.Gaps = append(s.Gaps, o.Gaps...)
	if len(o.Unhealthy) > 0 && s.Unhealthy == nil {
		s.Unhealthy = map[string]bool{}
	}
	maps.Copy(s.Unhealthy, o.Unhealthy)
	if len(o.Balancers) > 0 && s.Balancers == nil {
		s.Balancers = map[string][]string{}
	}
	maps.Copy(s.Balancers, o.Balancers)
	b.endpoints = append(b.endpoints, other.endpoints...)
	b.ingresses.absorb(&other.ingresses)
}

// Istiods lists the control planes added so far.
func (b *Builder) Istiods() []Istiod {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snap.Istiods
}

// Webhooks lists the injection webhooks added so far.
func (b *Builder) Webhooks() []Webhook {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.snap.Webhooks
}
