package xds

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

const (
	virtualOutboundName = "virtualOutbound"
	virtualInboundName  = "virtualInbound"
	catchAllTCPChain    = "virtualOutbound-catchall-tcp"
)

// httpProxy is the listener of meshConfig.proxyHttpPort, or the proxy's own
// HTTP_PROXY_PORT; nil: there is none (LDS-1).
func (o *outboundBuilder) httpProxy() *Listener {
	port := int(o.view.Config.GetProxyHttpPort())
	if n, err := strconv.Atoi(o.p.Metadata.HTTPProxyPort); err == nil {
		port = n
	}
	if port == 0 {
		return nil
	}
	entry := &listenerEntry{
		port:    mesh.Port{Number: port},
		bind:    binding{addresses: localhosts(o.p), toPort: true},
		chains:  []*chain{{http: &httpChain{rds: "http_proxy", protocol: mesh.HTTPProxy, proxy: true}}},
		because: []result.ReasonID{o.rec.Included(result.Reason{Rule: "LDS-1", Field: "proxyHttpPort", Text: "the HTTP proxy port is set"})},
	}
	return o.build(entry)
}

// virtualOutbound takes what iptables redirects and no other listener knows;
// nil where nothing is redirected (SIZE-18; Istio
// listener_builder.go buildVirtualOutboundListener).
func (o *outboundBuilder) virtualOutbound() *Listener {
	if o.p.Metadata.Interception == "NONE" {
		return nil
	}
	port := int(o.view.Config.GetProxyListenPort())
	addresses := wildcards(o.p)
	l := &listenerv3.Listener{
		Name:                                 virtualOutboundName,
		Address:                              buildAddress(addresses[0], port),
		UseOriginalDst:                       wrapperspb.Bool(true),
		TrafficDirection:                     corev3.TrafficDirection_OUTBOUND,
		MaxConnectionsToAcceptPerSocketEvent: o.maxConnections(),
		AccessLog:                            o.listenerAccessLog(o.p, outboundClass),
	}
	if o.p.Metadata.Interception == "TPROXY" {
		l.Transparent = wrapperspb.Bool(true)
	}
	if o.view.Flags.DualStack && len(addresses) > 1 {
		l.AdditionalAddresses = additionalAddresses(addresses[1:], port)
	} else if o.view.Flags.IPv4OutboundForIPv6Only && o.p.IPv6 && !o.p.IPv4 {
		l.AdditionalAddresses = additionalAddresses([]string{unspecifiedIPv4}, port)
	}
	l.FilterChains = []*listenerv3.FilterChain{{
		Name:             "virtualOutbound-blackhole",
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(uint32(port))},
		Filters:          blackHoleFilters(o.lookups(o.p, outboundClass).tcpStats),
	}}
	if allowAnyDynamicDNS(o.s) {
		l.FilterChains = append(l.FilterChains, o.dynamicDNSChain())
		l.ListenerFilters = append(l.ListenerFilters, httpInspector)
	}
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Name: catchAllTCPChain, Filters: o.catchAllFilters()})
	built := o.measure(l, nil)
	out := o.listenerOf(built)
	if out == nil {
		return nil
	}
	out.Address = boundTo(addresses, port)
	out.Because = []result.ReasonID{o.rec.Included(result.Reason{Rule: "LDS-1", Text: "traffic is redirected to the proxy"})}
	out.Because = append(out.Because, built.patched...)
	return out
}

// boundTo is the address of a listener whose name does not tell it.
func boundTo(addresses []string, port int) string {
	return strings.Join(addresses, ",") + "_" + strconv.Itoa(port)
}

// dynamicDNSChain looks up unknown hosts of HTTP requests when they are called
// (ALLOW_ANY_DYNAMIC_DNS, 1.31).
func (o *outboundBuilder) dynamicDNSChain() *listenerv3.FilterChain {
	headers := o.proxyHeaders(o.p, outboundClass)
	base := headers.base()
	if o.http10 {
		base.HttpProtocolOptions = acceptHTTP10()
	}
	m := o.httpConnectionManager(o.s, o.p, hcmOptions{
		class: outboundClass, base: base, protocol: mesh.HTTP,
		routes: &routev3.RouteConfiguration{
			Name:                           "allow_any_dynamic_dns",
			VirtualHosts:                   []*routev3.VirtualHost{o.lastResort(o.s, o.p).message},
			ValidateClusters:               wrapperspb.Bool(false),
			MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(1 << 20),
			IgnorePortInHostMatching:       true,
		},
		useRemoteAddress:     o.view.Flags.SidecarUseRemoteAddress,
		suppressDebugHeaders: headers.suppressDebugHeaders,
		skipMXHeaders:        headers.skipMXHeaders,
		statPrefix:           "outbound_" + virtualOutboundName + "_allow_any_dynamic_dns;",
	})
	return &listenerv3.FilterChain{
		Name:             catchAllTCPChain + "-http",
		FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: plainHTTPALPNs(o.view.Flags.HTTP10)},
		Filters:          []*listenerv3.Filter{networkFilter(hcmFilterName, toAny(m))},
	}
}
