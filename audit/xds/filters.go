package xds

import (
	"slices"
	"strings"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcstatsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	statefulsessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	alpn "istio.io/api/envoy/config/filter/http/alpn/v2alpha1"
)

// Names of filters (Istio pkg/wellknown, pilot/pkg/xds/filters).
const (
	hcmFilterName      = "envoy.filters.network.http_connection_manager"
	tcpProxyFilterName = "envoy.filters.network.tcp_proxy"
	httpRBACName       = "envoy.filters.http.rbac"
	tcpRBACName        = "envoy.filters.network.rbac"
	httpExtAuthzName   = "envoy.filters.http.ext_authz"
	tcpExtAuthzName    = "envoy.filters.network.ext_authz"
	jwtFilterName      = "envoy.filters.http.jwt_authn"
	metadataExchange   = "istio.metadata_exchange"
	statsFilterName    = "istio.stats"

	peerMetadataType     = "type.googleapis.com/io.istio.http.peer_metadata.Config"
	metadataExchangeType = "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange"
)

// toAny packs a message as istiod does: by the deterministic encoding.
func toAny(m proto.Message) *anypb.Any {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		value = nil // strings that are not UTF-8: istiod sends an empty config too
	}
	return &anypb.Any{
		TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()),
		Value:   value,
	}
}

// typedStruct packs fields for a message that only Istio's Envoy knows.
func typedStruct(typeURL string, fields map[string]any) *anypb.Any {
	value, err := structpb.NewStruct(fields)
	if err != nil {
		value = &structpb.Struct{}
	}
	return toAny(&udpav1.TypedStruct{TypeUrl: typeURL, Value: value})
}

func httpFilter(name string, config *anypb.Any) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: config}}
}

func networkFilter(name string, config *anypb.Any) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config}}
}

func listenerFilter(name string, config *anypb.Any) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: config}}
}

// Filters that are the same everywhere. They are shared and never changed.
var (
	corsFilter    = httpFilter("envoy.filters.http.cors", toAny(&corsv3.Cors{}))
	faultFilter   = httpFilter("envoy.filters.http.fault", toAny(&faultv3.HTTPFault{}))
	grpcWebFilter = httpFilter("envoy.filters.http.grpc_web", toAny(&grpcwebv3.GrpcWeb{}))

	grpcStatsFilter = httpFilter("envoy.filters.http.grpc_stats", toAny(&grpcstatsv3.FilterConfig{
		EmitFilterState: true,
		PerMethodStatSpecifier: &grpcstatsv3.FilterConfig_StatsForAllMethods{
			StatsForAllMethods: wrapperspb.Bool(false),
		},
	}))

	alpnFilter = httpFilter("istio.alpn", toAny(&alpn.FilterConfig{AlpnOverride: []*alpn.FilterConfig_AlpnOverride{
		{UpstreamProtocol: alpn.FilterConfig_HTTP10, AlpnOverride: []string{"istio-http/1.0", "istio", "http/1.0"}},
		{UpstreamProtocol: alpn.FilterConfig_HTTP11, AlpnOverride: []string{"istio-http/1.1", "istio", "http/1.1"}},
		{UpstreamProtocol: alpn.FilterConfig_HTTP2, AlpnOverride: []string{"istio-h2", "istio", "h2"}},
	}}))

	statefulSessionFilter = httpFilter("envoy.filters.http.stateful_session", toAny(&statefulsessionv3.StatefulSession{}))

	routerFilters = map[bool]*hcmv3.HttpFilter{
		false: httpFilter("envoy.filters.http.router", toAny(&routerv3.Router{})),
		true:  httpFilter("envoy.filters.http.router", toAny(&routerv3.Router{SuppressEnvoyHeaders: true})),
	}

	tlsInspector = listenerFilter("envoy.filters.listener.tls_inspector", toAny(&tlsinspectorv3.TlsInspector{
		InitialReadBufferSize: wrapperspb.UInt32(512),
	}))
	httpInspector = listenerFilter("envoy.filters.listener.http_inspector", toAny(&httpinspectorv3.HttpInspector{}))
	originalDst   = listenerFilter("envoy.filters.listener.original_dst", toAny(&originaldstv3.OriginalDst{}))
	originalSrc   = listenerFilter("envoy.filters.listener.original_src", toAny(&originalsrcv3.OriginalSrc{Mark: 1337}))
	proxyProtocol = listenerFilter("envoy.filters.listener.proxy_protocol", toAny(&proxyprotocolv3.ProxyProtocol{}))
)

// exchangeFilters are the metadata exchange filters of one istiod (SIZE-15,
// FLAG-51, FLAG-52; Istio pilot/pkg/xds/filters/filters.go).
type exchangeFilters struct {
	inbound, outbound, outboundSkipHeaders *hcmv3.HttpFilter
	tcp                                    *listenerv3.Filter
}

// newExchangeFilters makes the filters; additional is
// PILOT_MX_ADDITIONAL_LABELS, comma separated.
func newExchangeFilters(additional string) *exchangeFilters {
	discovery := []any{
		map[string]any{"istio_headers": map[string]any{}},
		map[string]any{"workload_discovery": map[string]any{}},
	}
	propagation := func(headers map[string]any) []any {
		return []any{map[string]any{"istio_headers": headers}}
	}
	with := func(fields map[string]any) map[string]any {
		if additional == "" {
			return fields
		}
		labels := strings.Split(additional, ",")
		slices.Sort(labels)
		var list []any
		for _, l := range slices.Compact(labels) {
			list = append(list, l)
		}
		fields["additional_labels"] = list
		return fields
	}
	peer := func(fields map[string]any) *hcmv3.HttpFilter {
		return httpFilter(metadataExchange, typedStruct(peerMetadataType, with(fields)))
	}
	return &exchangeFilters{
		inbound: peer(map[string]any{
			"downstream_discovery":   discovery,
			"downstream_propagation": propagation(map[string]any{}),
		}),
		outbound: peer(map[string]any{
			"upstream_discovery":   discovery,
			"upstream_propagation": propagation(map[string]any{}),
		}),
		outboundSkipHeaders: peer(map[string]any{
			"upstream_discovery":   discovery,
			"upstream_propagation": propagation(map[string]any{"skip_external_clusters": true}),
		}),
		tcp: networkFilter(metadataExchange, typedStruct(metadataExchangeType, with(map[string]any{
			"protocol":         "istio-peer-exchange",
			"enable_discovery": true,
		}))),
	}
}
