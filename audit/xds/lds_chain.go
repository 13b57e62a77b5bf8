package xds

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const (
	unspecifiedIPv4 = "0.0.0.0"
	unspecifiedIPv6 = "::"
	unixPrefix      = "unix://"
	rawBuffer       = "raw_buffer"
)

// chain is a filter chain of an outbound listener before it is built.
type chain struct {
	sni, cidrs, alpn []string
	transport        string // "raw_buffer", "tls", "": any
	// from is the VirtualService or Sidecar that the chain names in its metadata; nil: none.
	from *snapshot.Meta
	// http is set for a connection manager, filters for what is routed as bytes.
	http    *httpChain
	filters func() []*listenerv3.Filter
	// key tells the filters apart from those of other chains that are matched
	// alike; empty: they depend on the scope.
	key string
	// dynamicSNI says that filters look up the server name.
	dynamicSNI bool
	origin     chainOrigin
}

// httpChain is what differs between the connection managers of outbound listeners.
type httpChain struct {
	rds      string
	protocol mesh.Protocol
	service  *mesh.Service // a DYNAMIC_DNS wildcard; nil: none
	proxy    bool          // the HTTP proxy port
}

// matchesAll reports that every connection matches (Istio listener.go isMatchAll).
func (c *chain) matchesAll() bool {
	return (len(c.sni) == 0 || slices.Contains(c.sni, "*")) && len(c.alpn) == 0 && c.transport == "" && len(c.cidrs) == 0
}

// match is the chain's match; nil: everything.
func (c *chain) match() *listenerv3.FilterChainMatch {
	if c.matchesAll() {
		return nil
	}
	m := &listenerv3.FilterChainMatch{ApplicationProtocols: c.alpn, TransportProtocol: c.transport}
	if !slices.Contains(c.sni, "*") {
		m.ServerNames = slices.Sorted(slices.Values(c.sni))
	}
	for _, cidr := range slices.Sorted(slices.Values(c.cidrs)) {
		if prefix, ok := parsePrefix(cidr); ok && prefix.Addr().String() != unspecifiedIPv4 {
			m.PrefixRanges = append(m.PrefixRanges, cidrRange(prefix))
		}
	}
	return m
}

// matchKey tells what connections the chain matches: Envoy could not tell two
// chains of one key apart (LDS-9; Istio listener.go conflictsWith).
func (c *chain) matchKey() string {
	key := strconv.AppendQuote(nil, c.transport)
	for _, list := range [][]string{c.alpn, distinctNames(c.sni), distinctNets(c.cidrs)} {
		key = append(key, ';')
		for _, s := range list {
			key = strconv.AppendQuote(key, s)
		}
	}
	return string(key)
}

func distinctNames(names []string) []string {
	if len(names) == 1 && names[0] != "*" {
		return names
	}
	out := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "*" })
	slices.Sort(out)
	return slices.Compact(out)
}

func distinctNets(cidrs []string) []string {
	var out []string
	for _, c := range cidrs {
		if prefix, ok := parsePrefix(c); ok && prefix.Addr().String() != unspecifiedIPv4 {
			out = append(out, prefix.Masked().String())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// listenerName is a listener's name (LDS-2).
func listenerName(bind string, port int) string { return bind + "_" + strconv.Itoa(port) }

// buildAddress is a socket address, or a unix socket where there is no port.
func buildAddress(bind string, port int) *corev3.Address {
	if port == 0 {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: strings.TrimPrefix(bind, unixPrefix)}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address:       bind,
		PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

func additionalAddresses(binds []string, port int) []*listenerv3.AdditionalAddress {
	var out []*listenerv3.AdditionalAddress
	for _, bind := range binds {
		if bind != "" {
			out = append(out, &listenerv3.AdditionalAddress{Address: buildAddress(bind, port)})
		}
	}
	return out
}

// wildcards are the addresses that stand for all of a proxy's families, and
// localhosts the loopback ones; IPv4 first.
func wildcards(p *mesh.Proxy) []string  { return ofProxyFamilies(p, unspecifiedIPv4, unspecifiedIPv6) }
func localhosts(p *mesh.Proxy) []string { return ofProxyFamilies(p, "127.0.0.1", "::1") }

func ofProxyFamilies(p *mesh.Proxy, v4, v6 string) []string {
	switch {
	case p.IPv4 && p.IPv6:
		return []string{v4, v6}
	case p.IPv6:
		return []string{v6}
	}
	return []string{v4}
}

// isAddress reports an IP address.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// canBind reports that a listener may take a port: not one of the proxy's own
// on the wildcard, nor a privileged one of an unprivileged pod (LDS-3; Istio
// pilot/pkg/model/context.go CanBindToPort). virtual also keeps the ports of
// the virtual listeners free.
func (b *Builder) canBind(p *mesh.Proxy, bindToPort bool, bind string, port int, protocol mesh.Protocol, virtual bool) bool {
	if bindToPort && port > 0 && port < 1024 && p.Metadata.Unprivileged {
		return false
	}
	if bind != "" && bind != wildcards(p)[0] || bind == "" && !protocol.IsHTTP() {
		return true
	}
	if virtual && (port == int(b.view.Config.GetProxyListenPort()) || port == int(b.view.Config.GetProxyInboundListenPort())) {
		return false
	}
	return !slices.Contains(ownPorts(p), port)
}

// ownPorts are the ports that the proxy itself listens on: health and metrics.
func ownPorts(p *mesh.Proxy) []int {
	ports := []int{envPort(p, "ENVOY_STATUS_PORT", 15021), envPort(p, "ENVOY_PROMETHEUS_PORT", 15090)}
	for _, name := range []string{"ENVOY_SECURE_METRICS_PORT", "ENVOY_SECURE_MERGED_METRICS_PORT"} {
		if port := envPort(p, name, 0); port != 0 {
			ports = append(ports, port)
		}
	}
	return ports
}

func envPort(p *mesh.Proxy, name string, fallback int) int {
	text := proxyEnv(p, name)
	if text == "" {
		return fallback
	}
	if port, err := strconv.Atoi(text); err == nil {
		return port
	}
	return fallback
}

// proxyEnv is an environment variable of the proxy's container; empty: unset.
func proxyEnv(p *mesh.Proxy, name string) string {
	if p.Pod == nil || p.Pod.Proxy == nil {
		return ""
	}
	value := ""
	for _, e := range p.Pod.Proxy.Env {
		if e.Name == name {
			value = e.Value
		}
	}
	return value
}
