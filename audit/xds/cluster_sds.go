package xds

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
)

func commonTLS() *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{TlsParams: &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}}
}

func validation(sans []string, root *tlsv3.SdsSecretConfig, crl string) *tlsv3.CommonTlsContext_CombinedValidationContext {
	own := &tlsv3.CertificateValidationContext{MatchSubjectAltNames: exactMatches(sans)}
	if crl != "" {
		own.Crl = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: crl}}
	}
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: own, ValidationContextSdsSecretConfig: root,
		},
	}
}

func exactMatches(in []string) []*matcherv3.StringMatcher {
	var out []*matcherv3.StringMatcher
	for _, s := range in {
		out = append(out, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}})
	}
	return out
}

const (
	sdsCluster      = "sds-grpc"
	sdsFilesCluster = "sds-files-grpc"
)

// sdsSecret refers to a secret that a cluster's SDS server holds (Istio
// pkg/model/authentication.go).
func sdsSecret(name, cluster string) *tlsv3.SdsSecretConfig {
	config := sdsOver(cluster)
	if name == "default" || name == "ROOTCA" {
		config.InitialFetchTimeout = durationpb.New(0)
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: config}
}

func sdsOver(cluster string) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			SetNodeOnFirstMessageOnly: true,
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster},
			}}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}
}

// credentialSecret refers to a credentialName's secret (SIZE-25; Istio
// pilot/pkg/security/model/authentication.go, credentials/resource.go).
func credentialSecret(name string, socket bool) *tlsv3.SdsSecretConfig {
	switch {
	case name == builtinURI:
		return sdsSecret("default", sdsCluster)
	case name == builtinURI+"-cacert":
		return sdsSecret("ROOTCA", sdsCluster)
	case strings.HasPrefix(name, externalSDSURI) && socket:
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: sdsOver(externalSDSCluster)}
	}
	name = strings.TrimPrefix(name, externalSDSURI)
	switch {
	case strings.HasPrefix(name, builtinURI):
		name = "default"
	case strings.HasPrefix(name, invalidURI):
		name = invalidURI
	case !slices.ContainsFunc([]string{configMapURI, secretURI, gatewaySecretURI}, func(p string) bool { return strings.HasPrefix(name, p) }):
		name = secretURI + name
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}

func tlsSocket(context *tlsv3.UpstreamTlsContext) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: tlsSocketName, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: toAny(context)}}
}

func rawBufferSocket(name string) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: toAny(&rawbufferv3.RawBuffer{})}}
}

// applyProxyProtocol wraps the sockets where a DestinationRule asks for the
// PROXY protocol.
func applyProxyProtocol(c *clusterv3.Cluster, settings *networking.TrafficPolicy_ProxyProtocol) {
	if settings == nil {
		return
	}
	wrap := func(inner *corev3.TransportSocket) *corev3.TransportSocket {
		return &corev3.TransportSocket{
			Name: proxyProtocolSocketName,
			ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: toAny(&proxyprotocolv3.ProxyProtocolUpstreamTransport{
				Config:          &corev3.ProxyProtocolConfig{Version: corev3.ProxyProtocolConfig_Version(settings.GetVersion())},
				TransportSocket: inner,
			})},
		}
	}
	if c.TransportSocket == nil && len(c.TransportSocketMatches) == 0 {
		c.TransportSocket = wrap(rawBufferSocket("raw_buffer"))
		return
	}
	if c.TransportSocket != nil {
		c.TransportSocket = wrap(c.TransportSocket)
	}
	for _, m := range c.TransportSocketMatches {
		m.TransportSocket = wrap(m.TransportSocket)
	}
}
