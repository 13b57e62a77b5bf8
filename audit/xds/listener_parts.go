package xds

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// chainOrigin says what a filter chain is sent for.
type chainOrigin struct {
	by      result.Ref // the object that decided the chain; zero: the service itself
	service string     // host name; empty: none or several
}

// listenerPartsOf takes a listener apart: one part for each filter chain, the
// default one included, with the origin of each (parts.md).
func (on digests) listenerPartsOf(l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin) []result.Part {
	parts, chains := listenerChains(l, origins)
	for i, fc := range chains {
		parts[i].Digest, parts[i].Fails = on.chain(fc), on.chainFails(fc)
	}
	return parts
}

// listenerChains are the parts, and the chains that they are of.
func listenerChains(l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin) (parts []result.Part, chains []*listenerv3.FilterChain) {
	type chainPart struct {
		result.Part
		chain *listenerv3.FilterChain
	}
	list := make([]chainPart, 0, len(l.FilterChains)+1)
	add := func(fc *listenerv3.FilterChain, match string) {
		origin := origins[fc]
		list = append(list, chainPart{result.Part{
			Match:   &match,
			To:      chainTargets(fc),
			By:      origin.by,
			Service: origin.service,
			Bytes:   int64(proto.Size(fc)),
		}, fc})
	}
	for _, fc := range l.FilterChains {
		add(fc, chainMatch(fc.FilterChainMatch))
	}
	if l.DefaultFilterChain != nil {
		add(l.DefaultFilterChain, "default")
	}
	slices.SortStableFunc(list, func(x, y chainPart) int { return compareChainParts(&x.Part, &y.Part) })
	for i := range list {
		parts, chains = append(parts, list[i].Part), append(chains, list[i].chain)
	}
	return parts, chains
}

// compareChainParts orders chains by match, then by what the part says in JSON.
func compareChainParts(x, y *result.Part) int {
	canonical := func(p *result.Part) string {
		text, _ := json.Marshal(struct {
			Match *string  `json:"match,omitempty"`
			To    []string `json:"to,omitempty"`
		}{p.Match, p.To})
		return string(text)
	}
	if c := cmp.Compare(*x.Match, *y.Match); c != 0 {
		return c
	}
	return cmp.Compare(canonical(x), canonical(y))
}

// chainTargets names what a chain leads to, sorted.
func chainTargets(fc *listenerv3.FilterChain) []string {
	var to []string
	for _, f := range fc.Filters {
		to = append(to, filterTargets(f.GetTypedConfig())...)
	}
	slices.Sort(to)
	return slices.Compact(to)
}

func filterTargets(config *anypb.Any) []string {
	if config == nil {
		return nil
	}
	if t := (&tcpproxyv3.TcpProxy{}); config.MessageIs(t) && config.UnmarshalTo(t) == nil {
		if name := t.GetCluster(); name != "" {
			return []string{"cluster " + name}
		}
		var to []string
		for _, c := range t.GetWeightedClusters().GetClusters() {
			to = append(to, "cluster "+c.Name)
		}
		return to
	}
	if h := (&hcmv3.HttpConnectionManager{}); config.MessageIs(h) && config.UnmarshalTo(h) == nil {
		if rds := h.GetRds(); rds != nil {
			return []string{"rds " + rds.RouteConfigName}
		}
		if routes := h.GetRouteConfig(); routes != nil {
			return []string{"inline-route -> " + strings.Join(inlineTargets(routes), ",")}
		}
	}
	return nil
}

// inlineTargets is the set of what all virtual hosts lead to.
func inlineTargets(routes *routev3.RouteConfiguration) []string {
	var to []string
	for _, p := range digests(false).routeParts(routes) {
		to = append(to, p.To...)
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// rdsNames are the route configurations that a listener refers to, sorted.
func rdsNames(parts []result.Part) []string {
	var names []string
	for _, p := range parts {
		for _, to := range p.To {
			if name, ok := strings.CutPrefix(to, "rds "); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// chainMatch writes a match as the words of parts.md; "" matches everything.
func chainMatch(m *listenerv3.FilterChainMatch) string {
	if m == nil {
		return ""
	}
	var words []string
	add := func(word string, values []string) {
		values = slices.Clone(values)
		slices.Sort(values)
		if values = slices.Compact(values); len(values) > 0 {
			words = append(words, word+":"+strings.Join(values, ","))
		}
	}
	add("sni", m.ServerNames)
	if dst := chainDestination(m); dst != "" {
		words = append(words, dst)
	}
	switch m.SourceType {
	case listenerv3.FilterChainMatch_EXTERNAL:
		words = append(words, "srctype:external")
	case listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK:
		words = append(words, "srctype:same_ip_or_loopback")
	}
	add("directsrc", cidrWords(m.DirectSourcePrefixRanges))
	add("src", cidrWords(m.SourcePrefixRanges))
	var ports []string
	for _, p := range m.SourcePorts {
		ports = append(ports, strconv.FormatUint(uint64(p), 10))
	}
	add("srcport", ports)
	add("app", m.ApplicationProtocols)
	if m.TransportProtocol != "" {
		words = append(words, "transport:"+m.TransportProtocol)
	}
	return strings.Join(words, " ")
}

func chainDestination(m *listenerv3.FilterChainMatch) string {
	ranges := cidrWords(m.PrefixRanges)
	slices.Sort(ranges)
	nets := strings.Join(slices.Compact(ranges), ",")
	switch {
	case m.DestinationPort == nil && nets == "":
		return ""
	case m.DestinationPort == nil:
		return "dst:" + nets
	case nets == "":
		nets = "*"
	}
	return "dst:" + nets + ":" + strconv.FormatUint(uint64(m.DestinationPort.Value), 10)
}

func cidrWords(ranges []*corev3.CidrRange) []string {
	var words []string
	for _, r := range ranges {
		words = append(words, r.AddressPrefix+"/"+strconv.FormatUint(uint64(r.PrefixLen.GetValue()), 10))
	}
	return words
}
