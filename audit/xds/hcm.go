package xds

// What sidecar and gateway listeners share:
//
//	(b) httpConnectionManager(s, p, hcmOptions) *hcmv3.HttpConnectionManager
//	(b) tcpFiltersTo(s, p, tcpTarget) []*listenerv3.Filter         one cluster
//	(b) tcpFiltersForRoutes(s, p, tcpRoutes) []*listenerv3.Filter  a VirtualService's tcp or tls route
//	(b) proxyHeaders(p, class) proxyHeaders
//	(b) listenerAccessLog(p, class) []*accesslogv3.AccessLog       logs of the listener itself
//	(b) networkExtensions(p, class, port) []*listenerv3.Filter     WasmPlugins of type NETWORK, in phase order
//	chain, (c *chain) match(), packHCM, downstreamTLS, buildAddress, listenerName
//	digests.listenerPartsOf(l, origins), rdsNames(parts)

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// listenerClass is where a listener stands (Istio pilot/pkg/networking/networking.go).
type listenerClass uint8

// The classes.
const (
	outboundClass listenerClass = iota
	inboundClass
	gatewayClass
)

// hcmOptions are what differs between the connection managers of a proxy.
type hcmOptions struct {
	class listenerClass
	// base holds fields that the caller sets beforehand; nil: none. It is changed.
	base *hcmv3.HttpConnectionManager
	// rds names the route configuration; empty: routes is inline.
	rds    string
	routes *routev3.RouteConfiguration
	// statPrefix as istiod writes it, with its trailing ";" where it has one.
	statPrefix       string
	protocol         mesh.Protocol
	port             int // what WasmPlugins' match.ports are taken against
	useRemoteAddress bool
	http3            bool
	// suppressDebugHeaders and skipMXHeaders come from ProxyConfig.proxyHeaders.
	suppressDebugHeaders, skipMXHeaders bool
	// service is the one that an outbound chain was first made for; it counts
	// only if it is a DYNAMIC_DNS wildcard.
	service *mesh.Service
}

// httpConnectionManager builds one connection manager (SIZE-15; Istio
// pilot/pkg/networking/core/listener_builder.go). The message is the caller's;
// its filters are shared.
func (b *Builder) httpConnectionManager(s *scope.Scope, p *mesh.Proxy, o hcmOptions) *hcmv3.HttpConnectionManager {
	m := o.base
	if m == nil {
		m = &hcmv3.HttpConnectionManager{}
	}
	look := b.lookups(p, o.class)
	if o.http3 {
		m.CodecType = hcmv3.HttpConnectionManager_HTTP3
		m.Http3ProtocolOptions = &corev3.Http3ProtocolOptions{}
	}
	headers := p.Config.GetProxyHeaders()
	if headers.GetPreserveHttp1HeaderCase().GetValue() {
		if m.HttpProtocolOptions == nil {
			m.HttpProtocolOptions = &corev3.Http1ProtocolOptions{}
		}
		m.HttpProtocolOptions.HeaderKeyFormat = preserveCase().HeaderKeyFormat
	}
	m.StatPrefix = o.statPrefix
	m.AppendXForwardedPort = headers.GetXForwardedPort().GetEnabled().GetValue()
	normalizePaths(m, b.view.Config.GetPathNormalization().GetNormalization())
	m.UseRemoteAddress = wrapperspb.Bool(o.useRemoteAddress)
	m.UpgradeConfigs = []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}}
	if idle := parseDuration(p.Metadata.IdleTimeout); idle != nil {
		m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: idle}
	}
	m.StreamIdleTimeout = durationpb.New(0)
	applyConnectionSettings(m, b.connectionSettings(p))
	if o.rds != "" {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource:    adsSource(true),
			RouteConfigName: o.rds,
		}}
	} else {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: o.routes}
	}
	m.AccessLog = look.httpLog
	m.Tracing = look.tracing
	m.HttpFilters = b.httpFilters(s, p, look, o)
	m.RequestIdExtension = look.requestID
	if (b.view.Flags.HCMInternalNetworks || o.useRemoteAddress) && b.view.Networks != nil {
		m.InternalAddressConfig = internalAddresses(b.view.Networks)
	}
	m.Proxy_100Continue = b.view.Flags.Continue100
	return m
}

// httpFilters are a connection manager's filters in istiod's order.
func (b *Builder) httpFilters(s *scope.Scope, p *mesh.Proxy, look *classLookups, o hcmOptions) []*hcmv3.HttpFilter {
	flags := &b.view.Flags
	var out []*hcmv3.HttpFilter
	if flags.MetadataExchange {
		switch {
		case o.class == inboundClass:
			out = append(out, look.exchange.inbound)
		case o.skipMXHeaders:
			out = append(out, look.exchange.outboundSkipHeaders)
		default:
			out = append(out, look.exchange.outbound)
		}
	}
	wasm := b.extensionsFor(p, o.class, o.port, false, "")
	if o.class != outboundClass {
		out = append(out, look.customHTTP...)
	}
	out = append(out, wasm.http(phaseAuthn)...)
	if o.class != outboundClass {
		out = append(out, look.jwt...)
	}
	out = append(out, wasm.http(phaseAuthz)...)
	if o.class != outboundClass {
		out = append(out, look.rbacHTTP...)
	}
	out = append(out, wasm.http(phaseStats)...)
	out = append(out, wasm.http(phaseUnspecified)...)
	if o.protocol == mesh.GRPCWeb {
		out = append(out, grpcWebFilter)
	}
	out = append(out, grpcStatsFilter)
	if flags.ALPNFilter && o.class != inboundClass {
		out = append(out, alpnFilter)
	}
	out = append(out, faultFilter, corsFilter)
	out = append(out, look.httpStats...)
	if flags.PersistentSession && o.class != inboundClass {
		out = append(out, statefulSessionFilter)
	}
	if o.class == outboundClass {
		if b.dynamicWildcard(o.service) {
			out = append(out, forwardProxyFilter(dnsCache(o.service.Host, b.forwardProxyFamily(p))))
		}
		if allowAnyDynamicDNS(s) {
			out = append(out, forwardProxyFilter(b.allowAnyDNSCache(p)))
		}
	}
	return append(out, routerFilters[o.suppressDebugHeaders])
}

// adsSource is a config source over ADS; unbounded: the proxy waits for it.
func adsSource(unbounded bool) *corev3.ConfigSource {
	source := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
	if unbounded {
		source.InitialFetchTimeout = durationpb.New(0)
	}
	return source
}

func normalizePaths(m *hcmv3.HttpConnectionManager, mode meshconfig.MeshConfig_ProxyPathNormalization_NormalizationType) {
	switch mode {
	case meshconfig.MeshConfig_ProxyPathNormalization_NONE:
		m.NormalizePath = wrapperspb.Bool(false)
	case meshconfig.MeshConfig_ProxyPathNormalization_BASE, meshconfig.MeshConfig_ProxyPathNormalization_DEFAULT:
		m.NormalizePath = wrapperspb.Bool(true)
	case meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		m.NormalizePath, m.MergeSlashes = wrapperspb.Bool(true), true
	case meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES:
		m.NormalizePath, m.MergeSlashes = wrapperspb.Bool(true), true
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	}
	if m.PathWithEscapedSlashesAction == hcmv3.HttpConnectionManager_IMPLEMENTATION_SPECIFIC_DEFAULT {
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_KEEP_UNCHANGED
	}
}

// parseDuration reads a Go duration; nil: empty or not a duration.
func parseDuration(s string) *durationpb.Duration {
	if s == "" {
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil
	}
	return durationpb.New(d)
}
