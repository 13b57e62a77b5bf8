package xds

import (
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// inboundChains are filter chains in istiod's order.
type inboundChains struct {
	list    []*listenerv3.FilterChain
	origins map[*listenerv3.FilterChain]chainOrigin
}

func (c *inboundChains) add(other *inboundChains) {
	for _, fc := range other.list {
		c.append(fc, other.origins[fc])
	}
}

func (c *inboundChains) append(fc *listenerv3.FilterChain, origin chainOrigin) {
	if c.origins == nil {
		c.origins = map[*listenerv3.FilterChain]chainOrigin{}
	}
	c.list = append(c.list, fc)
	c.origins[fc] = origin
}

// inboundMatch is one way that connections to a port may come.
type inboundMatch struct {
	alpn      []string
	transport string
	http      bool // handled as HTTP
	tls       bool // TLS is terminated
}

var (
	mtlsHTTPALPNs = []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"}
	mtlsTCPALPNs  = []string{"istio-peer-exchange", "istio"}
)

// inboundMatches are the chains of a port by its protocol class and mTLS mode
// (IN-5; Istio filterchain_options.go).
func inboundMatches(protocol mesh.Protocol, mode mesh.MTLSMode, http10 bool) []inboundMatch {
	plain := plainHTTPALPNs(http10)
	switch {
	case protocol.IsHTTP():
		switch mode {
		case mesh.MTLSStrict:
			return []inboundMatch{{transport: "tls", http: true, tls: true}}
		case mesh.MTLSPermissive:
			return []inboundMatch{{alpn: meshALPNs, transport: "tls", http: true, tls: true}, {transport: rawBuffer, http: true}}
		}
		return []inboundMatch{{transport: rawBuffer, http: true}}
	case protocol.IsAuto():
		switch mode {
		case mesh.MTLSStrict:
			return []inboundMatch{{alpn: mtlsHTTPALPNs, transport: "tls", http: true, tls: true}, {transport: "tls", tls: true}}
		case mesh.MTLSPermissive:
			return []inboundMatch{
				{alpn: mtlsHTTPALPNs, transport: "tls", http: true, tls: true},
				{alpn: plain, transport: rawBuffer, http: true},
				{alpn: mtlsTCPALPNs, transport: "tls", tls: true},
				{transport: rawBuffer},
				{transport: "tls"},
			}
		}
		return []inboundMatch{{alpn: plain, transport: rawBuffer, http: true}, {transport: rawBuffer}}
	}
	switch mode {
	case mesh.MTLSStrict:
		return []inboundMatch{{transport: "tls", tls: true}}
	case mesh.MTLSPermissive:
		return []inboundMatch{{alpn: meshALPNs, transport: "tls", tls: true}, {transport: "tls"}, {transport: rawBuffer}}
	}
	return []inboundMatch{{transport: rawBuffer}}
}

// chains are the filter chains of a port.
func (in *inboundBuilder) chains(port *inboundPort) *inboundChains {
	mode := in.mtls.At(port.target)
	matches := inboundMatches(port.port.Protocol, mode, in.view.Flags.HTTP10)
	terminate := func(http bool) *tlsv3.DownstreamTlsContext { return in.meshTLS(http) }
	if port.tls != nil && mode == mesh.MTLSDisable {
		port.port.Protocol = afterTLS(port.port.Protocol)
		matches = []inboundMatch{{transport: "tls", tls: true, http: port.port.Protocol.IsHTTP()}}
		if port.port.Protocol.IsAuto() {
			matches = nil // istiod has no chain for a protocol that it would have to sniff
		}
		terminate = func(bool) *tlsv3.DownstreamTlsContext {
			return serverTLS{settings: port.tls}.context(in.Builder, in.p)
		}
	}
	return in.chainsOf(port, matches, terminate)
}

func (in *inboundBuilder) chainsOf(port *inboundPort, matches []inboundMatch, terminate func(http bool) *tlsv3.DownstreamTlsContext) *inboundChains {
	out := &inboundChains{}
	for _, m := range matches {
		fc := &listenerv3.FilterChain{
			Name: port.chainName(m.http),
			FilterChainMatch: &listenerv3.FilterChainMatch{
				ApplicationProtocols: m.alpn,
				TransportProtocol:    m.transport,
			},
		}
		if port.target > 0 {
			fc.FilterChainMatch.DestinationPort = wrapperspb.UInt32(uint32(port.target))
		}
		if m.tls {
			fc.TransportSocket = tlsSocketOf(terminate(m.http))
		}
		if m.http {
			fc.Filters = in.httpFiltersOf(port)
		} else {
			fc.Filters = in.tcpFiltersOf(port)
		}
		if port.sidecar != nil {
			fc.Metadata = configMetadata(port.sidecar, "sidecar")
		}
		out.append(fc, port.origin)
	}
	return out
}

func tlsSocketOf(context *tlsv3.DownstreamTlsContext) *corev3.TransportSocket {
	if context == nil {
		return nil
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: toAny(context)},
	}
}

// chainName names a chain: after its address, or by the fixed names of
// passthrough chains.
func (port *inboundPort) chainName(http bool) string {
	switch {
	case port.passthrough && http:
		return "virtualInbound-catchall-http"
	case port.passthrough:
		return virtualInboundName
	}
	return listenerName(port.bind[0], port.target)
}

// passthroughChains are the black hole of the listener's own port and what
// takes ports that no service or ingress listener has (IN-4, IN-5).
func (in *inboundBuilder) passthroughChains() *inboundChains {
	number := uint32(in.view.Config.GetProxyInboundListenPort())
	look := in.lookups(in.p, inboundClass)
	var filters []*listenerv3.Filter
	if in.view.Flags.MetadataExchange {
		filters = append(filters, look.exchange.tcp)
	}
	out := &inboundChains{}
	out.append(&listenerv3.FilterChain{
		Name:             "virtualInbound-blackhole",
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(number)},
		Filters:          append(filters, blackHoleFilters(look.tcpStats)...),
	}, chainOrigin{})
	targets := []int{0}
	for _, set := range in.mtls.Ports {
		if !in.handlesPort(set.Port) && set.Port != 0 {
			targets = append(targets, set.Port)
		}
	}
	for _, target := range targets {
		port := &inboundPort{
			cluster:     inboundPassthroughCluster,
			port:        mesh.Port{Name: virtualInboundName, Protocol: mesh.Unsupported},
			target:      target,
			passthrough: true,
		}
		matches := inboundMatches(mesh.Unsupported, in.mtls.At(target), in.view.Flags.HTTP10)
		out.add(in.chainsOf(port, matches, in.meshTLS))
	}
	return out
}

// handlesPort reports that the Sidecar's ingress, or else a service, has a port.
func (in *inboundBuilder) handlesPort(port int) bool {
	if in.s.Sidecar != nil && len(in.s.Sidecar.Spec.GetIngress()) > 0 {
		for _, l := range in.s.Sidecar.Spec.GetIngress() {
			if int(l.GetPort().GetNumber()) == port {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(in.p.Targets, func(t mesh.ServiceTarget) bool { return t.TargetPort == port })
}

// httpFiltersOf are the network filters of an HTTP chain.
func (in *inboundBuilder) httpFiltersOf(port *inboundPort) []*listenerv3.Filter {
	var out []*listenerv3.Filter
	if in.view.Flags.MetadataExchange {
		out = append(out, in.lookups(in.p, inboundClass).exchange.tcp)
	}
	out = append(out, in.networkExtensions(in.p, inboundClass, port.target)...)
	headers := in.proxyHeaders(in.p, inboundClass)
	base := headers.base()
	base.ForwardClientCertDetails = headers.forwardedClientCert
	details := headers.certDetails
	onUnlessOff := func(set *wrapperspb.BoolValue) bool { return set == nil || set.GetValue() }
	base.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
		Subject: wrapperspb.Bool(onUnlessOff(details.GetSubject())),
		Uri:     onUnlessOff(details.GetUri()),
		Dns:     onUnlessOff(details.GetDns()),
		Cert:    details.GetCert().GetValue(),
		Chain:   details.GetChain().GetValue(),
	}
	if port.port.Protocol.IsHTTP2() {
		base.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	}
	if in.view.Flags.HTTP10 || in.p.Metadata.HTTP10 {
		base.HttpProtocolOptions = acceptHTTP10()
	}
	prefix := port.cluster
	if !port.passthrough {
		prefix = "inbound_" + port.chainName(true)
	}
	m := in.httpConnectionManager(in.s, in.p, hcmOptions{
		class: inboundClass, base: base, routes: in.inlineRoutes(port), protocol: port.port.Protocol, port: port.target,
		statPrefix: prefix + ";", suppressDebugHeaders: headers.suppressDebugHeaders,
	})
	return append(out, networkFilter(hcmFilterName, toAny(m)))
}

// inlineRoutes is the route configuration of an inbound chain: everything to
// the workload (SIZE-18; Istio httproute.go buildSidecarInboundHTTPRouteConfig).
func (in *inboundBuilder) inlineRoutes(port *inboundPort) *routev3.RouteConfiguration {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: port.cluster},
		Timeout:          durationpb.New(0),
		MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: durationpb.New(0), GrpcTimeoutHeaderMax: durationpb.New(0),
		},
	}
	if proto := port.port.Protocol; proto != mesh.GRPC && proto != mesh.GRPCWeb && in.view.Flags.InboundRetryPolicy {
		action.RetryPolicy = &routev3.RetryPolicy{RetryOn: "reset-before-request", NumRetries: wrapperspb.UInt32(2)}
	}
	routes := &routev3.RouteConfiguration{
		Name: port.cluster,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "inbound|http|" + strconv.Itoa(port.port.Number),
			Domains: []string{"*"},
			Routes: []*routev3.Route{{
				Name:      "default",
				Match:     &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
				Decorator: &routev3.Decorator{Operation: port.operation()},
				Action:    &routev3.Route_Route{Route: action},
			}},
		}},
		ValidateClusters: wrapperspb.Bool(false),
	}
	if patchesRoutes(in.patches, networking.EnvoyFilter_SIDECAR_INBOUND) {
		in.patchRoutes(routes, in.patches, networking.EnvoyFilter_SIDECAR_INBOUND, nil)
	}
	return routes
}

// operation names the port's routes in traces.
func (port *inboundPort) operation() string { return hostPort(port.host, port.port.Number) + "/*" }

// tcpFiltersOf are the network filters of a chain that is not HTTP.
func (in *inboundBuilder) tcpFiltersOf(port *inboundPort) []*listenerv3.Filter {
	prefix := port.cluster
	if pattern := in.view.Config.GetInboundClusterStatName(); pattern != "" {
		prefix = inboundStatName(pattern, port)
	}
	m := &tcpproxyv3.TcpProxy{
		StatPrefix:       prefix,
		ClusterSpecifier: &tcpproxyv3.TcpProxy_Cluster{Cluster: port.cluster},
		IdleTimeout:      parseDuration(in.p.Metadata.IdleTimeout),
	}
	stack := in.protocolFilters(in.p, inboundClass, port.port.Protocol, m, port.cluster)
	return in.networkFilters(in.p, inboundClass, port.port.Number, stack, true, true, nil)
}

// inboundStatName is the pattern filled in for a port. %TARGET_PORT% stays: it
// is for clusters only (BuildInboundStatPrefix, Istio 1.31).
func inboundStatName(pattern string, port *inboundPort) string {
	service := port.service
	if service == nil {
		service = &mesh.Service{Host: port.host}
	}
	return statName(pattern, service, port.host, "", port.port)
}
