package xds

import (
	"net/url"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	resourcedetectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// providerTracing is the tracing of an extension provider, and whether a
// sampler of its own decides; false: istiod cannot configure it (Istio
// tracing.go configureFromProviderConfig).
func (b *Builder) providerTracing(p *mesh.Proxy, provider *meshconfig.MeshConfig_ExtensionProvider) (t *hcmv3.HttpConnectionManager_Tracing, sampler, ok bool) {
	var name string
	var config proto.Message
	var maxTag uint32
	spawn := p.Kind == mesh.RouterProxy && b.view.Flags.SpawnUpstreamSpanForGateway
	switch set := provider.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		name, maxTag = "envoy.tracers.zipkin", set.Zipkin.GetMaxTagLength()
		if host, cluster, found := b.providerCluster(set.Zipkin.GetService(), set.Zipkin.GetPort()); found {
			config = b.zipkinConfig(p, set.Zipkin, host, cluster)
		}
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		name, maxTag = "envoy.tracers.datadog", set.Datadog.GetMaxTagLength()
		if host, cluster, found := b.providerCluster(set.Datadog.GetService(), set.Datadog.GetPort()); found {
			config = &tracev3.DatadogConfig{CollectorCluster: cluster, ServiceName: p.ServiceCluster(), CollectorHostname: host}
		}
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		name, spawn = "envoy.tracers.skywalking", true
		if host, cluster, found := b.providerCluster(set.Skywalking.GetService(), set.Skywalking.GetPort()); found {
			config = &tracev3.SkyWalkingConfig{GrpcService: grpcService(cluster, host)}
		}
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		name, maxTag = "envoy.tracers.opentelemetry", set.Opentelemetry.GetMaxTagLength()
		if otel, own := b.openTelemetryConfig(p, set.Opentelemetry); otel != nil {
			config, sampler = otel, own
		}
	}
	if config == nil {
		return nil, false, false
	}
	t = &hcmv3.HttpConnectionManager_Tracing{Provider: &tracev3.Tracing_Http{
		Name:       name,
		ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: toAny(config)},
	}}
	if spawn {
		t.SpawnUpstreamSpan = wrapperspb.Bool(true)
	}
	if maxTag != 0 {
		t.MaxPathTagLength = wrapperspb.UInt32(maxTag)
	}
	return t, sampler, true
}

func grpcService(cluster, authority string) *corev3.GrpcService {
	return &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: authority},
	}}
}

func httpService(uri, cluster string, timeout *durationpb.Duration, headers []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader) *corev3.HttpService {
	service := &corev3.HttpService{HttpUri: &corev3.HttpUri{
		Uri:              uri,
		HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
		Timeout:          timeout,
	}}
	for _, h := range headers {
		service.RequestHeadersToAdd = append(service.RequestHeadersToAdd, &corev3.HeaderValueOption{
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			Header:       &corev3.HeaderValue{Key: h.GetName(), Value: h.GetValue()},
		})
	}
	return service
}

func (b *Builder) zipkinConfig(p *mesh.Proxy, set *meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider, host, cluster string) *tracev3.ZipkinConfig {
	path := set.GetPath()
	if path == "" {
		path = "/api/v2/spans"
	}
	config := &tracev3.ZipkinConfig{
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		TraceId_128Bit:           !set.GetEnable_64BitTraceId(),
		SharedSpanContext:        wrapperspb.Bool(false),
	}
	if b.view.Behaviours.ZipkinCollectorService && p.Version.AtLeast(1, 29, 0) {
		timeout := set.GetTimeout()
		if timeout == nil {
			timeout = &durationpb.Duration{Seconds: 5}
		}
		config.CollectorService = httpService("http://"+host+path, cluster, timeout, set.GetHeaders())
	} else {
		config.CollectorCluster, config.CollectorEndpoint, config.CollectorHostname = cluster, path, host
	}
	if p.Version.AtLeast(1, 28, 0) &&
		set.GetTraceContextOption() == meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider_USE_B3_WITH_W3C_PROPAGATION {
		config.TraceContextOption = tracev3.ZipkinConfig_USE_B3_WITH_W3C_PROPAGATION
	}
	return config
}

// openTelemetryConfig also reports that the provider has a sampler; nil: the
// service or an address is not found.
func (b *Builder) openTelemetryConfig(p *mesh.Proxy, set *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider) (*tracev3.OpenTelemetryConfig, bool) {
	host, cluster, found := b.providerCluster(set.GetService(), set.GetPort())
	if !found {
		return nil, false
	}
	config := &tracev3.OpenTelemetryConfig{ServiceName: p.ServiceCluster()}
	conventions := set.GetServiceAttributeEnrichment() == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS
	if conventions {
		config.ServiceName = p.OpenTelemetryName()
	}
	if http := set.GetHttp(); http != nil {
		uri, err := url.JoinPath(host, http.GetPath())
		if err != nil {
			return nil, false
		}
		config.HttpService = httpService(uri, cluster, http.GetTimeout(), http.GetHeaders())
	} else {
		config.GrpcService = grpcService(cluster, host)
		config.GrpcService.Timeout = set.GetGrpc().GetTimeout()
		for _, h := range set.GetGrpc().GetInitialMetadata() {
			config.GrpcService.InitialMetadata = append(config.GrpcService.InitialMetadata, &corev3.HeaderValue{Key: h.GetName(), Value: h.GetValue()})
		}
	}
	if set.GetResourceDetectors().GetEnvironment() != nil || conventions && set.GetResourceDetectors().GetDynatrace() == nil {
		config.ResourceDetectors = append(config.ResourceDetectors, environmentDetector)
	}
	if set.GetResourceDetectors().GetDynatrace() != nil {
		config.ResourceDetectors = append(config.ResourceDetectors, dynatraceDetector)
		if conventions && set.GetResourceDetectors().GetEnvironment() == nil {
			config.ResourceDetectors = append(config.ResourceDetectors, environmentDetector)
		}
	}
	if set.GetSampling() == nil {
		return config, false
	}
	if dynatrace := set.GetDynatraceSampler(); dynatrace != nil {
		if config.Sampler = b.dynatraceSampler(set, dynatrace, host, cluster); config.Sampler == nil {
			return nil, false
		}
	}
	return config, true
}

var (
	environmentDetector = &corev3.TypedExtensionConfig{
		Name:        "envoy.tracers.opentelemetry.resource_detectors.environment",
		TypedConfig: toAny(&resourcedetectorsv3.EnvironmentResourceDetectorConfig{}),
	}
	dynatraceDetector = &corev3.TypedExtensionConfig{
		Name:        "envoy.tracers.opentelemetry.resource_detectors.dynatrace",
		TypedConfig: toAny(&resourcedetectorsv3.DynatraceResourceDetectorConfig{}),
	}
)

func (b *Builder) dynatraceSampler(provider *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider,
	set *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider_DynatraceSampler, host, cluster string,
) *corev3.TypedExtensionConfig {
	config := &samplersv3.DynatraceSamplerConfig{
		Tenant:             set.GetTenant(),
		ClusterId:          set.GetClusterId(),
		RootSpansPerMinute: set.GetRootSpansPerMinute(),
	}
	var uri string
	var err error
	if own := set.GetHttpService(); own != nil {
		var found bool
		if host, cluster, found = b.providerCluster(own.GetService(), own.GetPort()); !found {
			return nil
		}
		uri, err = url.JoinPath(host, own.GetHttp().GetPath())
		config.HttpService = httpService(uri, cluster, own.GetHttp().GetTimeout(), own.GetHttp().GetHeaders())
	} else {
		if provider.GetHttp() == nil {
			return nil
		}
		uri, err = url.JoinPath(host, "api/v2/samplingConfiguration")
		config.HttpService = httpService(uri, cluster, provider.GetHttp().GetTimeout(), provider.GetHttp().GetHeaders())
	}
	if err != nil {
		return nil
	}
	return &corev3.TypedExtensionConfig{Name: "envoy.tracers.opentelemetry.samplers.dynatrace", TypedConfig: toAny(config)}
}
