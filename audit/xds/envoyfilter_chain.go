package xds

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// patchChains changes, removes and adds filter chains.
func (c *listenerPatcher) patchChains() {
	for _, fc := range c.l.FilterChains {
		if len(fc.Filters) > 0 {
			c.patchChain(fc)
		}
	}
	if fc := c.l.DefaultFilterChain; fc != nil && len(fc.Filters) > 0 {
		if c.patchChain(fc); fc.Filters == nil {
			c.l.DefaultFilterChain = nil
		}
	}
	for _, p := range c.patches.of(networking.EnvoyFilter_FILTER_CHAIN) {
		if p.Operation != networking.EnvoyFilter_Patch_ADD || !c.matches(p) {
			continue
		}
		if fc, ok := valueOf[*listenerv3.FilterChain](c.Builder, p)(); ok {
			c.l.FilterChains = append(c.l.FilterChains, fc)
			c.origins[fc] = chainOrigin{by: p.Filter.Ref()}
		}
	}
	c.l.FilterChains = slices.DeleteFunc(c.l.FilterChains, func(fc *listenerv3.FilterChain) bool { return fc.Filters == nil })
}

// patchChain leaves a chain that is removed without filters.
func (c *listenerPatcher) patchChain(fc *listenerv3.FilterChain) {
	for _, p := range c.patches.of(networking.EnvoyFilter_FILTER_CHAIN) {
		switch {
		case !c.matchesChain(fc, p):
		case p.Operation == networking.EnvoyFilter_Patch_REMOVE:
			c.rec.Excluded(c.l.GetName(), result.Reason{Rule: "LDS-14", Object: p.Filter.Ref(), Field: p.field(),
				Text: "an EnvoyFilter removes the filter chain " + chainMatch(fc.GetFilterChainMatch())})
			fc.Filters = nil
			return
		case p.merges():
			value, ok := c.patchValue(p).(*listenerv3.FilterChain)
			if !ok {
				continue
			}
			socket, own := value.GetTransportSocket(), fc.GetTransportSocket()
			if socket != nil && own != nil && socket.GetName() == own.GetName() {
				if socket.GetTypedConfig() != nil && own.GetTypedConfig() != nil {
					mergeAny(own.GetTypedConfig(), socket.GetTypedConfig())
				}
				continue
			}
			c.mergePatch(fc, p)
		}
	}
	c.patchNetworkFilters(fc)
}

// filterMatch is what a patch says of the network filter; nil: nothing.
func filterMatch(p *envoyPatch) *networking.EnvoyFilter_ListenerMatch_FilterMatch {
	return p.Match.GetListener().GetFilterChain().GetFilter()
}

func (c *listenerPatcher) patchNetworkFilters(fc *listenerv3.FilterChain) {
	is := func(p *envoyPatch) func(*listenerv3.Filter) bool {
		return func(f *listenerv3.Filter) bool {
			return filterMatch(p) == nil || filterMatch(p).GetName() == f.GetName()
		}
	}
	patches := c.patches.of(networking.EnvoyFilter_NETWORK_FILTER)
	for _, p := range patches {
		if c.matchesChain(fc, p) {
			fc.Filters = edit(fc.Filters, p.Operation, filterMatch(p) != nil, is(p), valueOf[*listenerv3.Filter](c.Builder, p))
		}
	}
	for _, f := range fc.Filters {
		for _, p := range patches {
			value, ok := c.patchValue(p).(*listenerv3.Filter)
			if !ok || p.Operation != networking.EnvoyFilter_Patch_MERGE || !c.matchesChain(fc, p) || !is(p)(f) || f.GetTypedConfig() == nil {
				continue
			}
			if value.GetTypedConfig() != nil {
				mergeAny(f.GetTypedConfig(), value.GetTypedConfig())
			}
			if value.GetName() != "" {
				f.Name = value.GetName()
			}
		}
		if f.GetName() == hcmFilterName {
			c.patchHTTPFilters(fc, f)
		}
	}
}

func (c *listenerPatcher) patchHTTPFilters(fc *listenerv3.FilterChain, f *listenerv3.Filter) {
	var patches []*envoyPatch
	for _, p := range c.patches.of(networking.EnvoyFilter_HTTP_FILTER) {
		if c.matchesChain(fc, p) && (filterMatch(p) == nil || filterMatch(p).GetName() == f.GetName()) {
			patches = append(patches, p)
		}
	}
	m := &hcmv3.HttpConnectionManager{}
	if len(patches) == 0 || f.GetTypedConfig() == nil || f.GetTypedConfig().UnmarshalTo(m) != nil {
		return
	}
	is := func(p *envoyPatch) func(*hcmv3.HttpFilter) bool {
		return func(h *hcmv3.HttpFilter) bool {
			return filterMatch(p).GetSubFilter() == nil || filterMatch(p).GetSubFilter().GetName() == h.GetName()
		}
	}
	for _, p := range patches {
		m.HttpFilters = edit(m.HttpFilters, p.Operation, filterMatch(p).GetSubFilter() != nil, is(p), valueOf[*hcmv3.HttpFilter](c.Builder, p))
	}
	for _, h := range m.HttpFilters {
		for _, p := range patches {
			value, ok := c.patchValue(p).(*hcmv3.HttpFilter)
			if !ok || p.Operation != networking.EnvoyFilter_Patch_MERGE || !is(p)(h) || h.GetTypedConfig() == nil {
				continue
			}
			if value.GetTypedConfig() != nil {
				mergeAny(h.GetTypedConfig(), value.GetTypedConfig())
			}
			if value.GetName() != "" {
				h.Name = value.GetName()
			}
		}
	}
	f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: toAny(m)}
}
