package xds

import (
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// policyReasons are the policies that a workload's own listeners are made with:
// of mutual TLS, tokens, authorization, telemetry and extensions.
func (b *Builder) policyReasons(p *mesh.Proxy, class listenerClass) []result.ReasonID {
	if b.brief || b.view.Policies == nil {
		return nil
	}
	var ids []result.ReasonID
	add := func(rule string, object result.Ref, text string) {
		ids = append(ids, b.rec.Included(result.Reason{Rule: rule, Object: object, Text: text}))
	}
	if class == inboundClass {
		for _, policy := range b.view.PeerAuthentications(p.Namespace, p.Labels) {
			add("IN-5", policy.Ref(), "sets the mode of mutual TLS")
		}
	}
	for _, policy := range b.view.Policies.RequestAuthentications {
		if slices.Contains(lookedInto(p.Namespace, b.view.RootNamespace), policy.Namespace) && policyAttaches(p, policy.Namespace, policy.Spec) {
			add("VIS-11", policy.Ref(), "checks tokens")
		}
	}
	policies := b.authorizationPolicies(p, "")
	for _, action := range slices.Sorted(maps.Keys(policies)) {
		for _, policy := range policies[action] {
			add("VIS-11", policy.Ref(), "authorizes requests, action "+action.String())
		}
	}
	applied := b.telemetries(p)
	for _, t := range b.view.Policies.Telemetries {
		if slices.Contains(applied, t.Spec) {
			add("VIS-11", t.Ref(), "sets logs, metrics or tracing")
		}
	}
	for _, plugin := range b.wasmPlugins(p) {
		add("VIS-11", plugin.Ref(), "adds a filter")
	}
	return ids
}

// patchReason tells of a patch that a resource is looked up for and that
// matches it.
func (b *Builder) patchReason(rule string, p *envoyPatch) result.ReasonID {
	return b.rec.Included(result.Reason{Rule: rule, Object: p.Filter.Ref(), Field: p.field(), Text: "an EnvoyFilter patches it"})
}

// listenerPatches are the reasons for what EnvoyFilters change of a listener.
func (b *Builder) listenerPatches(l *listenerv3.Listener, e *envoyPatches, context networking.EnvoyFilter_PatchContext) []result.ReasonID {
	if b.brief || !patchesListeners(e, context) {
		return nil
	}
	c := &listenerPatcher{Builder: b, patches: e, context: context, l: l}
	var ids []result.ReasonID
	for _, p := range slices.Concat(e.of(networking.EnvoyFilter_LISTENER), e.of(networking.EnvoyFilter_LISTENER_FILTER)) {
		another := p.ApplyTo == networking.EnvoyFilter_LISTENER && p.Operation == networking.EnvoyFilter_Patch_ADD
		if !another && c.matches(p) {
			ids = append(ids, b.patchReason("LDS-14", p))
		}
	}
	chains := append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain())
	for _, kind := range []networking.EnvoyFilter_ApplyTo{
		networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER,
	} {
		for _, p := range e.of(kind) {
			if slices.ContainsFunc(chains, func(fc *listenerv3.FilterChain) bool { return fc != nil && c.matchesChain(fc, p) }) {
				ids = append(ids, b.patchReason("LDS-14", p))
			}
		}
	}
	return ids
}

// clusterPatches are the reasons for what EnvoyFilters change of a cluster;
// hosts are as in patch.
func (cb *clusterBuilder) clusterPatches(c *clusterv3.Cluster, hosts []string) []result.ReasonID {
	if cb.brief {
		return nil
	}
	var ids []result.ReasonID
	for _, p := range cb.patches.of(networking.EnvoyFilter_CLUSTER) {
		if p.merges() && p.in(cb.context) && clusterMatches(c, p.Match.GetCluster(), hosts) {
			ids = append(ids, cb.patchReason("CDS-16", p))
		}
	}
	return ids
}

// routePatches are the reasons for what EnvoyFilters change of a route
// configuration.
func (b *Builder) routePatches(name string, e *envoyPatches, context networking.EnvoyFilter_PatchContext, servicePorts func(int) []int) []result.ReasonID {
	if b.brief {
		return nil
	}
	r := &routePatcher{Builder: b, rc: &routev3.RouteConfiguration{Name: name}, context: context, servicePorts: servicePorts}
	var ids []result.ReasonID
	for _, kind := range []networking.EnvoyFilter_ApplyTo{
		networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE,
	} {
		for _, p := range e.of(kind) {
			if r.matches(p) {
				ids = append(ids, b.patchReason("VIS-11", p))
			}
		}
	}
	return ids
}
