// Package parts takes xDS resources apart into the canonical parts that the
// judge and the plugin are compared by.
package parts

import (
	"fmt"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcp "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Listener gives one part per filter chain.
func Listener(l *listener.Listener) []report.Part {
	var out []report.Part
	for _, fc := range l.FilterChains {
		out = append(out, chain(fc, chainMatch(fc.FilterChainMatch)))
	}
	if l.DefaultFilterChain != nil {
		out = append(out, chain(l.DefaultFilterChain, "default"))
	}
	report.SortParts(out)
	return out
}

// chain gives the part of one filter chain.
func chain(fc *listener.FilterChain, match string) report.Part {
	var to []string
	for _, f := range fc.Filters {
		to = append(to, filterTargets(f.GetTypedConfig())...)
	}
	return report.Part{Match: &match, To: report.Set(to)}
}

// filterTargets says where a network filter leads to.
func filterTargets(cfg *anypb.Any) []string {
	if t := (&tcp.TcpProxy{}); cfg.UnmarshalTo(t) == nil {
		return tcpTargets(t)
	}
	if h := (&hcm.HttpConnectionManager{}); cfg.UnmarshalTo(h) == nil {
		return httpTargets(h)
	}
	return nil
}

// tcpTargets names the clusters of a TCP proxy.
func tcpTargets(t *tcp.TcpProxy) []string {
	if name := t.GetCluster(); name != "" {
		return []string{"cluster " + name}
	}
	var out []string
	for _, c := range t.GetWeightedClusters().GetClusters() {
		out = append(out, "cluster "+c.Name)
	}
	return out
}

// httpTargets names the route configuration of an HTTP connection manager,
// or what its inline one leads to.
func httpTargets(h *hcm.HttpConnectionManager) []string {
	if rds := h.GetRds(); rds != nil {
		return []string{"rds " + rds.RouteConfigName}
	}
	rc := h.GetRouteConfig()
	if rc == nil {
		return nil
	}
	var to []string
	for _, vh := range rc.VirtualHosts {
		to = append(to, virtualHostTargets(vh)...)
	}
	return []string{"inline-route -> " + strings.Join(report.Set(to), ",")}
}

// ConfigDiscoveryNames lists the extension configurations that a listener
// refers to.
func ConfigDiscoveryNames(l *listener.Listener) []string {
	var out []string
	chains := append([]*listener.FilterChain{}, l.FilterChains...)
	if l.DefaultFilterChain != nil {
		chains = append(chains, l.DefaultFilterChain)
	}
	for _, fc := range chains {
		for _, f := range fc.Filters {
			if f.GetConfigDiscovery() != nil {
				out = append(out, f.Name)
			}
			h := &hcm.HttpConnectionManager{}
			if f.GetTypedConfig() == nil || f.GetTypedConfig().UnmarshalTo(h) != nil {
				continue
			}
			for _, hf := range h.HttpFilters {
				if hf.GetConfigDiscovery() != nil {
					out = append(out, hf.Name)
				}
			}
		}
	}
	return report.Set(out)
}

// RouteNames lists the route configurations that a listener refers to.
func RouteNames(l *listener.Listener) []string {
	var out []string
	for _, p := range Listener(l) {
		for _, to := range p.To {
			if name, ok := strings.CutPrefix(to, "rds "); ok {
				out = append(out, name)
			}
		}
	}
	return report.Set(out)
}

// chainMatch writes a filter chain match as words.
func chainMatch(m *listener.FilterChainMatch) string {
	if m == nil {
		return ""
	}
	var words []string
	add := func(word string, values []string) {
		if set := report.Set(values); len(set) > 0 {
			words = append(words, word+":"+strings.Join(set, ","))
		}
	}
	add("sni", m.ServerNames)
	if dst := destination(m); dst != "" {
		words = append(words, dst)
	}
	switch m.SourceType {
	case listener.FilterChainMatch_EXTERNAL:
		words = append(words, "srctype:external")
	case listener.FilterChainMatch_SAME_IP_OR_LOOPBACK:
		words = append(words, "srctype:same_ip_or_loopback")
	}
	add("directsrc", cidrs(m.DirectSourcePrefixRanges))
	add("src", cidrs(m.SourcePrefixRanges))
	var ports []string
	for _, p := range m.SourcePorts {
		ports = append(ports, fmt.Sprint(p))
	}
	add("srcport", ports)
	add("app", m.ApplicationProtocols)
	if m.TransportProtocol != "" {
		words = append(words, "transport:"+m.TransportProtocol)
	}
	return strings.Join(words, " ")
}

// destination writes the address and port that a chain matches.
func destination(m *listener.FilterChainMatch) string {
	nets := strings.Join(report.Set(cidrs(m.PrefixRanges)), ",")
	switch {
	case m.DestinationPort == nil && nets == "":
		return ""
	case m.DestinationPort == nil:
		return "dst:" + nets
	case nets == "":
		nets = "*"
	}
	return fmt.Sprintf("dst:%s:%d", nets, m.DestinationPort.Value)
}

// cidrs writes address ranges, always with their length.
func cidrs(ranges []*core.CidrRange) []string {
	var out []string
	for _, r := range ranges {
		out = append(out, fmt.Sprintf("%s/%d", r.AddressPrefix, r.PrefixLen.GetValue()))
	}
	return out
}
