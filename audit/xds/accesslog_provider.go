package xds

import (
	"maps"
	"slices"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	otellogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/open_telemetry/v3"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Filter state that log services get.
var (
	peerState       = []string{"upstream_peer", "downstream_peer"}
	legacyPeerState = []string{
		"upstream_peer", "downstream_peer",
		"wasm.upstream_peer", "wasm.upstream_peer_id", "wasm.downstream_peer", "wasm.downstream_peer_id",
	}
)

const (
	httpLogName = "envoy.access_loggers.http_grpc"
	tcpLogName  = "envoy.tcp_grpc_access_log"
)

func accessLog(name string, config proto.Message) *accesslogv3.AccessLog {
	return &accesslogv3.AccessLog{Name: name, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: toAny(config)}}
}

// providerLog is the access log of an extension provider; nil: it has none, or
// its service is not found (Istio pilot/pkg/model/telemetry_logging.go).
func (b *Builder) providerLog(provider *meshconfig.MeshConfig_ExtensionProvider) *accesslogv3.AccessLog {
	switch set := provider.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog:
		file := set.EnvoyFileAccessLog
		if provider.GetName() == "envoy" && file.GetLogFormat() == nil && !file.GetOmitEmptyValues() {
			return b.meshFileLog(file.GetPath())
		}
		return providerFileLog(file)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		als := set.EnvoyHttpAls
		host, cluster, ok := b.providerCluster(als.GetService(), als.GetPort())
		if !ok {
			return nil
		}
		return accessLog(httpLogName, &grpclogv3.HttpGrpcAccessLogConfig{
			CommonConfig:                    commonLog(orDefault(als.GetLogName(), "http_envoy_accesslog"), grpcService(cluster, host), logState(als.GetFilterStateObjectsToLog())),
			AdditionalRequestHeadersToLog:   als.GetAdditionalRequestHeadersToLog(),
			AdditionalResponseHeadersToLog:  als.GetAdditionalResponseHeadersToLog(),
			AdditionalResponseTrailersToLog: als.GetAdditionalResponseTrailersToLog(),
		})
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		als := set.EnvoyTcpAls
		host, cluster, ok := b.providerCluster(als.GetService(), als.GetPort())
		if !ok {
			return nil
		}
		return accessLog(tcpLogName, &grpclogv3.TcpGrpcAccessLogConfig{
			CommonConfig: commonLog(orDefault(als.GetLogName(), "tcp_envoy_accesslog"), grpcService(cluster, host), logState(als.GetFilterStateObjectsToLog())),
		})
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		return b.openTelemetryLog(set.EnvoyOtelAls)
	}
	return nil
}

func orDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func logState(objects []string) []string {
	if len(objects) > 0 {
		return objects
	}
	return peerState
}

func commonLog(name string, service *corev3.GrpcService, state []string) *grpclogv3.CommonGrpcAccessLogConfig {
	return &grpclogv3.CommonGrpcAccessLogConfig{
		LogName:                 name,
		GrpcService:             service,
		TransportApiVersion:     corev3.ApiVersion_V3,
		FilterStateObjectsToLog: state,
	}
}

// legacyServiceLog is the log of meshConfig.enableEnvoyAccessLogService.
func legacyServiceLog(name string, http bool) *accesslogv3.AccessLog {
	common := commonLog(name, grpcService("envoy_accesslog_service", ""), legacyPeerState)
	if http {
		return accessLog(httpLogName, &grpclogv3.HttpGrpcAccessLogConfig{CommonConfig: common})
	}
	return accessLog(tcpLogName, &grpclogv3.TcpGrpcAccessLogConfig{CommonConfig: common})
}

func providerFileLog(set *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider) *accesslogv3.AccessLog {
	format := textFormat("")
	switch f := set.GetLogFormat().GetLogFormat().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Text:
		format = textFormat(f.Text)
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Labels:
		fields := f.Labels
		if len(fields.GetFields()) == 0 {
			fields = jsonLogFormat
		}
		format = jsonFormat(fields)
	default:
		if set.GetLogFormat() != nil {
			format = nil
		}
	}
	if format != nil {
		format.OmitEmptyValues = set.GetOmitEmptyValues()
	}
	return fileLog(orDefault(set.GetPath(), "/dev/stdout"), format)
}

func (b *Builder) openTelemetryLog(set *meshconfig.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider) *accesslogv3.AccessLog {
	host, cluster, ok := b.providerCluster(set.GetService(), set.GetPort())
	if !ok {
		return nil
	}
	format := orDefault(set.GetLogFormat().GetText(), textLogFormat)
	config := &otellogv3.OpenTelemetryAccessLogConfig{
		CommonConfig:         commonLog(orDefault(set.GetLogName(), "otel_envoy_accesslog"), grpcService(cluster, host), legacyPeerState),
		DisableBuiltinLabels: true,
		Body:                 &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: format}},
	}
	labels := set.GetLogFormat().GetLabels()
	if fields := labels.GetFields(); len(fields) > 0 {
		config.Attributes = &commonv1.KeyValueList{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			config.Attributes.Values = append(config.Attributes.Values, &commonv1.KeyValue{
				Key:   name,
				Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: fields[name].GetStringValue()}},
			})
		}
	}
	if strings.Contains(format, "%REQ_WITHOUT_QUERY") || usesWithoutQuery(labels) {
		config.Formatters = []*corev3.TypedExtensionConfig{withoutQuery}
	}
	return accessLog("envoy.access_loggers.open_telemetry", config)
}
