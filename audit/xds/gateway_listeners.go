package xds

import (
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// routerListener is one listener of a router in the making.
type routerListener struct {
	bind    string
	extra   []string // further addresses
	port    int
	udp     bool // QUIC
	chains  []*routerChain
	servers []*scope.Server // those with a chain
}

// routerChain is one filter chain of it.
type routerChain struct {
	sni, alpn []string
	tls       *tlsv3.DownstreamTlsContext // nil: TLS is not terminated
	filters   []*listenerv3.Filter
	origin    chainOrigin
}

// GatewayListeners builds a router's listeners and names the route
// configurations that they refer to, sorted (GW-6 … GW-11; Istio
// networking/core/gateway.go). A router that binds no Gateway has only what
// EnvoyFilters add (GW-16).
func (b *Builder) GatewayListeners(s *scope.Scope, p *mesh.Proxy) ([]*result.Resource, []string) {
	r := &routerListeners{Builder: b, s: s, p: p, sniHosts: map[int]map[string]string{}, byName: map[string]*routerListener{}}
	if merged := b.scoper.MergedGateway(p); merged != nil {
		for _, port := range merged.Ports {
			r.port(port)
		}
	}
	patches := b.patchesFor(p)
	policies := b.policyReasons(p, gatewayClass)
	for _, name := range r.order {
		l := r.byName[name]
		if len(l.chains) == 0 {
			r.noChains(name, l)
			continue
		}
		built, origins := r.build(name, l)
		because := slices.Concat(b.serverReasons("GW-5", l.servers), policies, b.listenerPatches(built, patches, networking.EnvoyFilter_GATEWAY))
		if built, origins = b.patchListener(built, origins, patches, networking.EnvoyFilter_GATEWAY); built != nil {
			r.send(built, origins, because)
		}
	}
	for _, added := range b.addedListeners(patches, networking.EnvoyFilter_GATEWAY) {
		r.send(added.listener, added.origins(), []result.ReasonID{b.rec.Included(added.reason())})
	}
	slices.Sort(r.routes)
	return r.sent, slices.Compact(r.routes)
}

// routerListeners collects the listeners of a router by name.
type routerListeners struct {
	*Builder
	s *scope.Scope
	p *mesh.Proxy

	// sniHosts are the server names of passthrough chains, by port, with the
	// bind of the last server that has them.
	sniHosts map[int]map[string]string
	byName   map[string]*routerListener
	order    []string

	sent   []*result.Resource
	routes []string // route configurations that they refer to
}

// send takes a listener apart.
func (r *routerListeners) send(l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin, because []result.ReasonID) {
	resource := &result.Resource{
		Name: l.GetName(), Bytes: int64(proto.Size(l)), Parts: r.digests.listenerPartsOf(l, origins), Because: because, Digest: r.digests.listener(l),
	}
	r.noteExtensions(resource, l)
	r.sent = append(r.sent, resource)
	r.routes = append(r.routes, rdsNames(resource.Parts)...)
}

// port adds the chains of one merged port.
func (r *routerListeners) port(port *scope.MergedPort) {
	bind, extra := port.Bind, []string(nil)
	if bind == "" {
		binds := wildcardAddresses(r.p)
		bind = binds[0]
		if r.view.Flags.DualStack {
			extra = binds[1:]
		}
	}
	tcp := r.listener(&routerListener{bind: bind, extra: extra, port: port.Port})
	tcp.servers = append(tcp.servers, port.Servers...)
	tcp.chains = append(tcp.chains, r.chains(port, bind+"_"+strconv.Itoa(port.Port))...)
	if len(port.QUIC) == 0 {
		return
	}
	udp := r.listener(&routerListener{bind: bind, extra: extra, port: port.Port, udp: true})
	udp.servers = append(udp.servers, port.QUIC...)
	for _, server := range port.QUIC {
		udp.chains = append(udp.chains, r.httpsChain(server, udp.name(), true))
	}
}

// listener finds or enters the listener of l's name.
func (r *routerListeners) listener(l *routerListener) *routerListener {
	name := l.name()
	if known := r.byName[name]; known != nil {
		return known
	}
	r.byName[name] = l
	r.order = append(r.order, name)
	return l
}

// name is GW-6.
func (l *routerListener) name() string {
	name := l.bind + "_" + strconv.Itoa(l.port)
	if l.udp {
		return "udp_" + name
	}
	return name
}

// wildcardAddresses are what a proxy binds to for all its addresses.
func wildcardAddresses(p *mesh.Proxy) []string {
	switch {
	case p.IPv4 && p.IPv6:
		return []string{"0.0.0.0", "::"}
	case p.IPv6:
		return []string{"::"}
	}
	return []string{"0.0.0.0"}
}

// noChains tells of a listener that istiod omits (GW-8).
func (r *routerListeners) noChains(name string, l *routerListener) {
	if !scope.Explains(r.rec) {
		return
	}
	for _, server := range l.servers {
		r.rec.Excluded(name, result.Reason{Rule: "GW-8", Object: server.Gateway.Ref(),
			Field: "spec.servers[" + strconv.Itoa(server.Index) + "]",
			Text:  "no VirtualService gives the server a tcp or tls route, so the listener has no filter chain"})
	}
}

// build makes the Envoy message (Istio networking/core buildGatewayListener) and
// tells where each of its chains comes from.
func (r *routerListeners) build(name string, l *routerListener) (*listenerv3.Listener, map[*listenerv3.FilterChain]chainOrigin) {
	origins := map[*listenerv3.FilterChain]chainOrigin{}
	flags := &r.view.Flags
	out := &listenerv3.Listener{
		Name:             name,
		Address:          buildAddress(l.bind, l.port),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		AccessLog:        r.listenerAccessLog(r.p, gatewayClass),
	}
	if flags.MaxConnectionsPerSocketEvent > 0 {
		out.MaxConnectionsToAcceptPerSocketEvent = wrapperspb.UInt32(flags.MaxConnectionsPerSocketEvent)
	}
	for _, address := range l.extra {
		out.AdditionalAddresses = append(out.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: buildAddress(address, l.port)})
	}
	if l.udp {
		l.setUDP(out)
	} else {
		out.ListenerFilters = r.listenerFilters(l)
		if exact, _ := strconv.ParseBool(r.p.Metadata.Raw["OUTBOUND_LISTENER_EXACT_BALANCE"]); exact {
			out.ConnectionBalanceConfig = &listenerv3.Listener_ConnectionBalanceConfig{
				BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
					ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{},
				},
			}
		}
	}
	out.PerConnectionBufferLimitBytes = unsigned(r.connectionSettings(r.p).GetListenerPerConnectionBufferLimitBytes())
	for _, c := range l.chains {
		chain := &listenerv3.FilterChain{FilterChainMatch: c.match(), Filters: c.filters, TransportSocket: c.socket(l.udp)}
		if seconds := flags.GatewayTransportConnectTimeoutSeconds; seconds > 0 {
			chain.TransportSocketConnectTimeout = &durationpb.Duration{Seconds: int64(seconds)}
		}
		origins[chain] = c.origin
		out.FilterChains = append(out.FilterChains, chain)
	}
	return out, origins
}

// listenerFilters are what looks at a TCP connection first.
func (r *routerListeners) listenerFilters(l *routerListener) []*listenerv3.ListenerFilter {
	var out []*listenerv3.ListenerFilter
	if r.p.Config.GetGatewayTopology().GetProxyProtocol() != nil {
		out = append(out, proxyProtocol)
	}
	if slices.ContainsFunc(l.chains, func(c *routerChain) bool {
		return len(c.sni) > 0 || len(c.tls.GetCommonTlsContext().GetAlpnProtocols()) > 0
	}) {
		out = append(out, tlsInspector)
	}
	return out
}

func (l *routerListener) setUDP(out *listenerv3.Listener) {
	addresses := []*corev3.Address{out.Address}
	for _, a := range out.AdditionalAddresses {
		addresses = append(addresses, a.Address)
	}
	for _, a := range addresses {
		if socket := a.GetSocketAddress(); socket != nil {
			socket.Protocol = corev3.SocketAddress_UDP
		}
	}
	out.UdpListenerConfig = &listenerv3.UdpListenerConfig{
		QuicOptions:            &listenerv3.QuicProtocolOptions{},
		DownstreamSocketConfig: &corev3.UdpSocketConfig{},
	}
}

// match is nil for a chain that takes everything; a "*" among its server names
// takes every name.
func (c *routerChain) match() *listenerv3.FilterChainMatch {
	anyName := len(c.sni) == 0 || slices.Contains(c.sni, "*")
	if anyName && len(c.alpn) == 0 {
		return nil
	}
	m := &listenerv3.FilterChainMatch{ApplicationProtocols: c.alpn}
	if !anyName {
		m.ServerNames = slices.Sorted(slices.Values(c.sni))
	}
	return m
}

// socket terminates TLS; nil: the chain does not.
func (c *routerChain) socket(udp bool) *corev3.TransportSocket {
	if c.tls == nil {
		return nil
	}
	name, config := "envoy.transport_sockets.tls", toAny(c.tls)
	if udp {
		name, config = "envoy.transport_sockets.quic", toAny(&quicv3.QuicDownstreamTransport{DownstreamTlsContext: c.tls})
	}
	return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: config}}
}
