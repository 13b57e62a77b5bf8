package xds

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// proxyHeaders is ProxyConfig.proxyHeaders resolved for a class of listeners
// (Istio pilot/pkg/networking/util/proxy_headers.go).
type proxyHeaders struct {
	serverName           string // "": Envoy's own default
	transformation       hcmv3.HttpConnectionManager_ServerHeaderTransformation
	forwardedClientCert  hcmv3.HttpConnectionManager_ForwardClientCertDetails
	certDetails          *meshconfig.ProxyConfig_ProxyHeaders_SetCurrentClientCertDetails // nil: unset
	requestID            *wrapperspb.BoolValue                                            // nil: Envoy's default, on
	attemptCount         bool                                                             // include_request_attempt_count of virtual hosts
	suppressDebugHeaders bool
	skipMXHeaders        bool
	xForwardedHost       bool
}

func (b *Builder) proxyHeaders(p *mesh.Proxy, class listenerClass) proxyHeaders {
	h := proxyHeaders{
		serverName:          "istio-envoy",
		forwardedClientCert: hcmv3.HttpConnectionManager_APPEND_FORWARD,
		attemptCount:        true,
	}
	if class == outboundClass {
		h.serverName = ""
	}
	set := p.Config.GetProxyHeaders()
	if set == nil {
		return h
	}
	h.attemptCount = !set.GetAttemptCount().GetDisabled().GetValue()
	if c := set.GetForwardedClientCert(); c != meshconfig.ForwardClientCertDetails_UNDEFINED {
		h.forwardedClientCert = hcmv3.HttpConnectionManager_ForwardClientCertDetails(c - 1)
	}
	if server := set.GetServer(); server.GetDisabled().GetValue() {
		h.serverName, h.transformation = "", hcmv3.HttpConnectionManager_PASS_THROUGH
	} else if server.GetValue() != "" {
		h.serverName = server.GetValue()
	}
	if set.GetRequestId().GetDisabled().GetValue() {
		h.requestID = wrapperspb.Bool(false)
	}
	h.suppressDebugHeaders = set.GetEnvoyDebugHeaders().GetDisabled().GetValue()
	h.skipMXHeaders = set.GetMetadataExchangeHeaders().GetMode() == meshconfig.ProxyConfig_ProxyHeaders_IN_MESH
	h.xForwardedHost = set.GetXForwardedHost().GetEnabled().GetValue()
	h.certDetails = set.GetSetCurrentClientCertDetails()
	return h
}

// base is a connection manager with what proxyHeaders sets of it.
func (h proxyHeaders) base() *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		ServerName:                 h.serverName,
		ServerHeaderTransformation: h.transformation,
		GenerateRequestId:          h.requestID,
	}
}

// connectionSettings are ProxyConfig.connectionSettings; a router with the EDGE
// profile gets its defaults (1.31; Istio
// pilot/pkg/networking/core/connection_settings.go). Nil if none.
func (b *Builder) connectionSettings(p *mesh.Proxy) *meshconfig.ProxyConfig_ConnectionSettings {
	if !b.view.Behaviours.ConnectionSettings {
		return nil
	}
	set := p.Config.GetConnectionSettings()
	if set == nil {
		set = b.view.Config.GetDefaultConfig().GetConnectionSettings()
	}
	if set.GetProfile() != meshconfig.ProxyConfig_ConnectionSettings_EDGE || p.Kind != mesh.RouterProxy {
		return set
	}
	set = proto.CloneOf(set)
	number := func(field **wrapperspb.Int32Value, value int32) {
		if *field == nil {
			*field = wrapperspb.Int32(value)
		}
	}
	duration := func(field **durationpb.Duration, value time.Duration) {
		if *field == nil {
			*field = durationpb.New(value)
		}
	}
	number(&set.ListenerPerConnectionBufferLimitBytes, 32<<10)
	duration(&set.HttpIdleTimeout, time.Hour)
	duration(&set.HttpStreamIdleTimeout, 5*time.Minute)
	duration(&set.HttpRequestTimeout, 5*time.Minute)
	duration(&set.HttpRequestHeadersTimeout, time.Minute)
	number(&set.HttpMaxConcurrentStreams, 100)
	number(&set.Http2InitialStreamWindowSize, 64<<10)
	number(&set.Http2InitialConnectionWindowSize, 1<<20)
	if set.HttpHeadersWithUnderscoresAction == meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_UNSPECIFIED {
		set.HttpHeadersWithUnderscoresAction = meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST
	}
	if set.HttpMergeSlashes == nil {
		set.HttpMergeSlashes = wrapperspb.Bool(true)
	}
	if set.HttpPathWithEscapedSlashesAction == meshconfig.ProxyConfig_ConnectionSettings_PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED {
		set.HttpPathWithEscapedSlashesAction = meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT
	}
	return set
}

// unsigned is nil for nil and for negative values.
func unsigned(v *wrapperspb.Int32Value) *wrapperspb.UInt32Value {
	if v == nil || v.GetValue() < 0 {
		return nil
	}
	return wrapperspb.UInt32(uint32(v.GetValue()))
}

// applyConnectionSettings sets what connectionSettings says of a connection manager.
func applyConnectionSettings(m *hcmv3.HttpConnectionManager, set *meshconfig.ProxyConfig_ConnectionSettings) {
	if set == nil {
		return
	}
	common := func() *corev3.HttpProtocolOptions {
		if m.CommonHttpProtocolOptions == nil {
			m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{}
		}
		return m.CommonHttpProtocolOptions
	}
	duration := func(value *durationpb.Duration, assign func(*durationpb.Duration)) {
		if value != nil {
			assign(value)
		}
	}
	duration(set.GetHttpIdleTimeout(), func(d *durationpb.Duration) { common().IdleTimeout = d })
	duration(set.GetHttpMaxConnectionDuration(), func(d *durationpb.Duration) { common().MaxConnectionDuration = d })
	duration(set.GetHttpMaxStreamDuration(), func(d *durationpb.Duration) { common().MaxStreamDuration = d })
	duration(set.GetHttpStreamIdleTimeout(), func(d *durationpb.Duration) { m.StreamIdleTimeout = d })
	duration(set.GetHttpRequestTimeout(), func(d *durationpb.Duration) { m.RequestTimeout = d })
	duration(set.GetHttpRequestHeadersTimeout(), func(d *durationpb.Duration) { m.RequestHeadersTimeout = d })
	duration(set.GetHttpDrainTimeout(), func(d *durationpb.Duration) { m.DrainTimeout = d })
	applyHTTP2Settings(m, set)
	switch set.GetHttpHeadersWithUnderscoresAction() {
	case meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_UNSPECIFIED:
	case meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_REJECT_REQUEST:
		common().HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_REJECT_REQUEST
	case meshconfig.ProxyConfig_ConnectionSettings_HEADERS_WITH_UNDERSCORES_DROP_HEADER:
		common().HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_DROP_HEADER
	default:
		common().HeadersWithUnderscoresAction = corev3.HttpProtocolOptions_ALLOW
	}
	if set.GetHttpMergeSlashes() != nil {
		m.MergeSlashes = set.GetHttpMergeSlashes().GetValue()
	}
	switch set.GetHttpPathWithEscapedSlashesAction() {
	case meshconfig.ProxyConfig_ConnectionSettings_PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED:
	case meshconfig.ProxyConfig_ConnectionSettings_REJECT_REQUEST:
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_REJECT_REQUEST
	case meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_REDIRECT:
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT
	case meshconfig.ProxyConfig_ConnectionSettings_UNESCAPE_AND_FORWARD:
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	default:
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_KEEP_UNCHANGED
	}
}

func applyHTTP2Settings(m *hcmv3.HttpConnectionManager, set *meshconfig.ProxyConfig_ConnectionSettings) {
	if set.GetHttpMaxConcurrentStreams() == nil && set.GetHttp2InitialStreamWindowSize() == nil && set.GetHttp2InitialConnectionWindowSize() == nil {
		return
	}
	if m.Http2ProtocolOptions == nil {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	}
	if v := unsigned(set.GetHttpMaxConcurrentStreams()); v != nil {
		m.Http2ProtocolOptions.MaxConcurrentStreams = v
	}
	if v := unsigned(set.GetHttp2InitialStreamWindowSize()); v != nil {
		m.Http2ProtocolOptions.InitialStreamWindowSize = v
	}
	if v := unsigned(set.GetHttp2InitialConnectionWindowSize()); v != nil {
		m.Http2ProtocolOptions.InitialConnectionWindowSize = v
	}
}

// internalAddresses are the CIDRs of meshNetworks, sorted; nil if there are none.
func internalAddresses(networks *meshconfig.MeshNetworks) *hcmv3.HttpConnectionManager_InternalAddressConfig {
	var prefixes []netip.Prefix
	for _, n := range networks.GetNetworks() {
		for _, e := range n.GetEndpoints() {
			if prefix, ok := parsePrefix(e.GetFromCidr()); ok {
				prefixes = append(prefixes, prefix)
			}
		}
	}
	if len(prefixes) == 0 {
		return nil
	}
	slices.SortFunc(prefixes, func(x, y netip.Prefix) int {
		if c := x.Addr().Compare(y.Addr()); c != 0 {
			return c
		}
		return x.Bits() - y.Bits()
	})
	config := &hcmv3.HttpConnectionManager_InternalAddressConfig{}
	for _, prefix := range prefixes {
		config.CidrRanges = append(config.CidrRanges, cidrRange(prefix))
	}
	return config
}

// parsePrefix reads a CIDR, or an address as the CIDR of itself.
func parsePrefix(s string) (netip.Prefix, bool) {
	if strings.Contains(s, "/") {
		prefix, err := netip.ParsePrefix(s)
		return prefix, err == nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr, addr.BitLen()), true
}

func cidrRange(prefix netip.Prefix) *corev3.CidrRange {
	return &corev3.CidrRange{
		AddressPrefix: prefix.Addr().String(),
		PrefixLen:     wrapperspb.UInt32(uint32(prefix.Bits())),
	}
}
