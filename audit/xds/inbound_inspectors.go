package xds

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// inspectors are the TLS and HTTP inspectors that inbound chains need, off for
// the ports that do not (Istio listener_inbound.go populateListenerFilters).
func inspectors(chains []*listenerv3.FilterChain) []*listenerv3.ListenerFilter {
	tls, http := map[int]bool{}, map[int]bool{} // by port; 0: all others
	for _, fc := range chains {
		m := fc.GetFilterChainMatch()
		port := int(m.GetDestinationPort().GetValue())
		tls[port] = tls[port] || m.GetTransportProtocol() == "tls"
		http[port] = http[port] || slices.ContainsFunc(m.GetApplicationProtocols(), func(p string) bool {
			return p == "http/1.1" || p == "h2c"
		})
	}
	var out []*listenerv3.ListenerFilter
	if on, off := splitPorts(tls); len(on) > 0 || tls[0] {
		switch {
		case tls[0]:
			out = append(out, disabledFor(tlsInspector, portsPredicate(off)))
		case len(on) > 0:
			out = append(out, disabledFor(tlsInspector, notPredicate(portsPredicate(on))))
		}
	}
	if on, off := splitPorts(http); len(on) > 0 || http[0] {
		if has, known := http[0]; known && !has {
			off = append([]int{0}, off...)
		}
		out = append(out, disabledFor(httpInspector, portsPredicate(off)))
	}
	return out
}

// splitPorts are the ports beside 0 with and without an inspector, sorted.
func splitPorts(by map[int]bool) (on, off []int) {
	for port, has := range by {
		switch {
		case port == 0:
		case has:
			on = append(on, port)
		default:
			off = append(off, port)
		}
	}
	slices.Sort(on)
	slices.Sort(off)
	return on, off
}

func disabledFor(filter *listenerv3.ListenerFilter, predicate *listenerv3.ListenerFilterChainMatchPredicate) *listenerv3.ListenerFilter {
	if predicate == nil {
		return filter
	}
	return &listenerv3.ListenerFilter{Name: filter.Name, ConfigType: filter.ConfigType, FilterDisabled: predicate}
}

// portsPredicate matches any of the ports; nil: there are none.
func portsPredicate(ports []int) *listenerv3.ListenerFilterChainMatchPredicate {
	var rules []*listenerv3.ListenerFilterChainMatchPredicate
	for _, port := range ports {
		rules = append(rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(port), End: int32(port + 1)},
			},
		})
	}
	switch len(rules) {
	case 0:
		return nil
	case 1:
		return rules[0]
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
		OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
	}}
}

func notPredicate(p *listenerv3.ListenerFilterChainMatchPredicate) *listenerv3.ListenerFilterChainMatchPredicate {
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: p}}
}
