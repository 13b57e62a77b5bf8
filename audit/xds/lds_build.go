package xds

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// passthroughChainName names the default chain that istiod adds (SIZE-14).
const passthroughChainName = "PassthroughFilterChain"

func acceptHTTP10() *corev3.Http1ProtocolOptions {
	return &corev3.Http1ProtocolOptions{AcceptHttp_10: true}
}

// build makes the listener of an entry; nil: an EnvoyFilter removes it (SIZE-13,
// SIZE-14; Istio listener.go buildListenerFromEntry).
func (o *outboundBuilder) build(e *listenerEntry) *Listener {
	key, shared := o.memoKey(e)
	built := o.listeners.built[key]
	if !shared || built == nil {
		built = o.measure(o.message(e, o.catchAllFilters()))
		if shared {
			o.listeners.keep(key, built)
		}
	}
	out := o.listenerOf(built)
	if out == nil {
		return nil
	}
	out.OwnAddress = e.ownAddress
	out.Because = slices.Concat(e.because, built.patched)
	if !e.several {
		out.Service = e.service
	}
	return out
}

// message makes an entry's Envoy message; fallthrough filters are for the
// default chain.
func (o *outboundBuilder) message(e *listenerEntry, fallThrough []*listenerv3.Filter) (*listenerv3.Listener, map[*listenerv3.FilterChain]chainOrigin) {
	port := e.port.Number
	l := &listenerv3.Listener{
		Name:                             listenerName(e.bind.primary(), port),
		Address:                          buildAddress(e.bind.primary(), port),
		TrafficDirection:                 corev3.TrafficDirection_OUTBOUND,
		ContinueOnListenerFiltersTimeout: true,
	}
	if len(e.bind.addresses) > 1 {
		l.AdditionalAddresses = additionalAddresses(e.bind.addresses[1:], port)
	}
	if isTrue(o.p.Metadata.Raw["OUTBOUND_LISTENER_EXACT_BALANCE"]) {
		l.ConnectionBalanceConfig = exactBalance()
	}
	if e.bind.toPort {
		if o.view.Behaviours.BoundListenerAccepts {
			l.MaxConnectionsToAcceptPerSocketEvent = o.maxConnections()
		}
	} else {
		l.BindToPort = wrapperspb.Bool(false)
	}
	o.inspect(l, e.chains)
	origins := map[*listenerv3.FilterChain]chainOrigin{}
	extensions := o.networkExtensions(o.p, outboundClass, port)
	for _, c := range e.chains {
		fc := &listenerv3.FilterChain{TransportSocketConnectTimeout: o.connectTimeout()}
		if c.from != nil {
			fc.Metadata = configMetadata(c.from, "virtual-service")
		}
		if c.http != nil {
			fc.Filters = append(extensions, networkFilter(hcmFilterName, toAny(o.httpConnectionManager(o.s, o.p, o.options(c.http, l.Name, port)))))
			extensions = nil // istiod gives them to the first chain only
		} else {
			fc.Filters = c.filters()
		}
		origins[fc] = c.origin
		if c.matchesAll() {
			l.DefaultFilterChain = fc
		} else {
			fc.FilterChainMatch = c.match()
			l.FilterChains = append(l.FilterChains, fc)
		}
	}
	switch {
	case l.DefaultFilterChain == nil:
		l.DefaultFilterChain = &listenerv3.FilterChain{
			FilterChainMatch: &listenerv3.FilterChainMatch{},
			Name:             passthroughChainName,
			Filters:          fallThrough,
		}
	case len(l.FilterChains) == 0:
		l.FilterChains, l.DefaultFilterChain = []*listenerv3.FilterChain{l.DefaultFilterChain}, nil
	}
	return l, origins
}

// options are those of a service's connection manager.
func (o *outboundBuilder) options(c *httpChain, listener string, port int) hcmOptions {
	headers := o.proxyHeaders(o.p, outboundClass)
	opts := hcmOptions{
		class:                outboundClass,
		base:                 headers.base(),
		rds:                  c.rds,
		statPrefix:           "outbound_" + listener + ";",
		protocol:             c.protocol,
		port:                 port,
		useRemoteAddress:     o.view.Flags.SidecarUseRemoteAddress,
		suppressDebugHeaders: headers.suppressDebugHeaders,
		skipMXHeaders:        headers.skipMXHeaders,
		service:              c.service,
	}
	if o.http10 {
		opts.base.HttpProtocolOptions = acceptHTTP10()
	}
	if c.proxy {
		opts.base.HttpProtocolOptions = &corev3.Http1ProtocolOptions{AllowAbsoluteUrl: wrapperspb.Bool(true), AcceptHttp_10: o.http10}
		opts.useRemoteAddress, opts.skipMXHeaders = false, false
	}
	return opts
}

// inspect adds the inspectors that the chains' matches need.
func (o *outboundBuilder) inspect(l *listenerv3.Listener, chains []*chain) {
	sniffs := slices.ContainsFunc(chains, func(c *chain) bool { return len(c.alpn) > 0 })
	if slices.ContainsFunc(chains, func(c *chain) bool { return len(c.sni) > 0 || c.dynamicSNI }) ||
		sniffs && !o.view.Behaviours.HTTPInspectorAlone {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector)
	}
	l.ListenerFiltersTimeout = durationpb.New(0)
	if sniffs {
		l.ListenerFilters = append(l.ListenerFilters, httpInspector)
		l.ListenerFiltersTimeout = o.view.Config.GetProtocolDetectionTimeout()
	}
}

func exactBalance() *listenerv3.Listener_ConnectionBalanceConfig {
	return &listenerv3.Listener_ConnectionBalanceConfig{
		BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
			ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{},
		},
	}
}

// maxConnections is MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP; nil: 0 or not known
// to the version (FLAG-60).
func (b *Builder) maxConnections() *wrapperspb.UInt32Value {
	if n := b.view.Flags.MaxConnectionsPerSocketEvent; n > 0 {
		return wrapperspb.UInt32(n)
	}
	return nil
}

// connectTimeout is how long a transport socket may take; nil: no limit (FLAG-69).
func (b *Builder) connectTimeout() *durationpb.Duration {
	if n := b.view.Flags.GatewayTransportConnectTimeoutSeconds; n > 0 {
		return &durationpb.Duration{Seconds: int64(n)}
	}
	return nil
}

// catchAllCluster is where what no chain takes goes (SC-23).
func (o *outboundBuilder) catchAllCluster() string {
	policy := o.s.OutboundPolicy
	switch {
	case policy == nil || policy.GetMode() != networking.OutboundTrafficPolicy_ALLOW_ANY && !allowAnyDynamicDNS(o.s):
		return blackHoleCluster
	case policy.GetEgressProxy() != nil:
		return destinationCluster(policy.GetEgressProxy(), nil, 0, false)
	}
	return passthroughCluster
}

// catchAllFilters are the filters of the chain for what no other takes.
func (o *outboundBuilder) catchAllFilters() []*listenerv3.Filter {
	look := o.lookups(o.p, outboundClass)
	cluster := o.catchAllCluster()
	m := &tcpproxyv3.TcpProxy{
		StatPrefix:       cluster,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: cluster},
		IdleTimeout:      parseDuration(o.p.Metadata.IdleTimeout),
		AccessLog:        look.tcpLog,
	}
	return append(slices.Clone(look.tcpStats), networkFilter(tcpProxyFilterName, toAny(m)))
}

// blackHoleFilters end connections to a port that the proxy itself listens on.
func blackHoleFilters(stats []*listenerv3.Filter) []*listenerv3.Filter {
	return append(slices.Clone(stats), networkFilter(tcpProxyFilterName, toAny(&tcpproxyv3.TcpProxy{
		StatPrefix:       blackHoleCluster,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: blackHoleCluster},
	})))
}

// measure patches a listener and takes what its message tells.
func (o *outboundBuilder) measure(l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin) *builtListener {
	patched := o.listenerPatches(l, o.patches, networking.EnvoyFilter_SIDECAR_OUTBOUND)
	l, origins = o.patchListener(l, origins, o.patches, networking.EnvoyFilter_SIDECAR_OUTBOUND)
	if l == nil {
		return &builtListener{}
	}
	built := &builtListener{patched: patched, name: l.Name, parts: o.digests.listenerPartsOf(l, origins), digest: o.digests.listener(l)}
	built.routes = rdsNames(built.parts)
	if o.mayDiscover() {
		built.extensions = discoveredConfigs(l)
	}
	built.tags = &tagged{bytes: int64(proto.Size(l)), own: o.own, sites: tagSites(l), conventional: o.conventional}
	return built
}

// added are the listeners that EnvoyFilters add.
func (o *outboundBuilder) added() []*Listener {
	var out []*Listener
	for _, a := range o.addedListeners(o.patches, networking.EnvoyFilter_SIDECAR_OUTBOUND) {
		l := &Listener{}
		l.Name = a.listener.Name
		l.Digest = o.digests.listener(a.listener)
		l.Parts = o.digests.listenerPartsOf(a.listener, a.origins())
		l.Routes = rdsNames(l.Parts)
		l.Bytes = int64(proto.Size(a.listener))
		o.noteExtensions(&l.Resource, a.listener)
		l.Because = []result.ReasonID{o.rec.Included(a.reason())}
		out = append(out, l)
	}
	return out
}

// isTrue is how istiod reads a flag of a proxy's metadata.
func isTrue(text string) bool { return text == "true" || text == "1" }
