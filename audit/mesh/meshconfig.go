package mesh

import (
	"slices"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mesh-audit/mesh-audit/audit/validation"
)

// DefaultProxyConfig is what every proxy starts from (Istio
// pkg/config/mesh/mesh.go).
func DefaultProxyConfig() *meshconfig.ProxyConfig {
	return &meshconfig.ProxyConfig{
		ConfigPath:               "./etc/istio/proxy",
		ClusterName:              &meshconfig.ProxyConfig_ServiceCluster{ServiceCluster: "istio-proxy"},
		DrainDuration:            durationpb.New(45 * time.Second),
		TerminationDrainDuration: durationpb.New(5 * time.Second),
		ProxyAdminPort:           15000,
		ControlPlaneAuthPolicy:   meshconfig.AuthenticationPolicy_MUTUAL_TLS,
		DiscoveryAddress:         "istiod.istio-system.svc:15012",
		BinaryPath:               "/usr/local/bin/envoy",
		StatNameLength:           189,
		StatusPort:               15020,
	}
}

// DefaultMeshConfig is istiod's own default, which the mesh ConfigMap is
// applied over (Istio pkg/config/mesh/mesh.go).
func DefaultMeshConfig() *meshconfig.MeshConfig {
	return &meshconfig.MeshConfig{
		EnableTracing:            true,
		AccessLogEncoding:        meshconfig.MeshConfig_TEXT,
		ProtocolDetectionTimeout: durationpb.New(0),
		IngressService:           "istio-ingressgateway",
		IngressControllerMode:    meshconfig.MeshConfig_STRICT,
		IngressClass:             "istio",
		TrustDomain:              "cluster.local",
		EnableAutoMtls:           wrapperspb.Bool(true),
		OutboundTrafficPolicy: &meshconfig.MeshConfig_OutboundTrafficPolicy{
			Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY,
		},
		InboundTrafficPolicy: &meshconfig.MeshConfig_InboundTrafficPolicy{
			Mode: meshconfig.MeshConfig_InboundTrafficPolicy_PASSTHROUGH,
		},
		LocalityLbSetting:              &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(true)},
		DefaultConfig:                  DefaultProxyConfig(),
		RootNamespace:                  "istio-system",
		ProxyListenPort:                15001,
		ProxyInboundListenPort:         15006,
		ConnectTimeout:                 durationpb.New(10 * time.Second),
		DefaultServiceExportTo:         []string{"*"},
		DefaultVirtualServiceExportTo:  []string{"*"},
		DefaultDestinationRuleExportTo: []string{"*"},
		DnsRefreshRate:                 durationpb.New(60 * time.Second),
		EnablePrometheusMerge:          wrapperspb.Bool(true),
		DefaultProviders:               &meshconfig.MeshConfig_DefaultProviders{},
		ExtensionProviders:             builtinProviders(),
	}
}

func builtinProviders() []*meshconfig.MeshConfig_ExtensionProvider {
	return []*meshconfig.MeshConfig_ExtensionProvider{
		{Name: "prometheus", Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{
			Prometheus: &meshconfig.MeshConfig_ExtensionProvider_PrometheusMetricsProvider{},
		}},
		{Name: "stackdriver", Provider: &meshconfig.MeshConfig_ExtensionProvider_Stackdriver{
			Stackdriver: &meshconfig.MeshConfig_ExtensionProvider_StackdriverProvider{},
		}},
		{Name: "envoy", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
			EnvoyFileAccessLog: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
		}},
	}
}

// ApplyMeshConfig returns base with the fields of a mesh config's YAML. Fields
// override, but defaultConfig and defaultProviders merge, extensionProviders
// merge by name and trustDomainAliases are joined (Istio
// pkg/config/mesh/mesh.go ApplyMeshConfig). unknown are the paths of fields
// that this build's API does not have; refused is what is of the wrong type, or
// not in its enumeration, and cfg is then nil.
func ApplyMeshConfig(text string, base *meshconfig.MeshConfig) (cfg *meshconfig.MeshConfig, unknown []string, refused []validation.Problem) {
	raw, refused := yamlObject(text)
	if len(refused) > 0 {
		return nil, nil, refused
	}
	proxyConfig, noConfig := takeObject(raw, "defaultConfig")
	providers, noProviders := takeObject(raw, "defaultProviders")

	cfg = proto.CloneOf(base)
	cfg.ExtensionProviders = nil
	cfg.TrustDomainAliases = nil
	unknown, refused = applyObject(raw, cfg, "")
	cfg.ExtensionProviders = mergeProviders(base.GetExtensionProviders(), cfg.GetExtensionProviders())
	cfg.TrustDomainAliases = append(cfg.TrustDomainAliases, base.GetTrustDomainAliases()...)
	slices.Sort(cfg.TrustDomainAliases)
	cfg.TrustDomainAliases = slices.Compact(cfg.TrustDomainAliases)

	if cfg.DefaultConfig == nil {
		cfg.DefaultConfig = DefaultProxyConfig()
	}
	more, bad := mergeProxyConfig(proxyConfig, cfg.DefaultConfig, "defaultConfig.")
	unknown, refused = append(unknown, more...), append(refused, bad...)
	if cfg.DefaultProviders == nil {
		cfg.DefaultProviders = &meshconfig.MeshConfig_DefaultProviders{}
	}
	more, bad = applyObject(providers, cfg.DefaultProviders, "defaultProviders.")
	unknown, refused = append(unknown, more...), append(refused, bad...)
	slices.Sort(unknown)
	if refused = slices.Concat(refused, noConfig, noProviders); len(refused) > 0 {
		return nil, unknown, refused
	}
	return cfg, unknown, nil
}

// takeObject takes a field that holds an object, or nothing, out of raw.
func takeObject(raw map[string]any, name string) (object map[string]any, refused []validation.Problem) {
	value := raw[name]
	delete(raw, name)
	object, isObject := value.(map[string]any)
	if value != nil && !isObject {
		refused = []validation.Problem{{Field: name, Text: jsonText(value) + " is not of its type"}}
	}
	return object, refused
}

func mergeProviders(base, added []*meshconfig.MeshConfig_ExtensionProvider) []*meshconfig.MeshConfig_ExtensionProvider {
	out := make([]*meshconfig.MeshConfig_ExtensionProvider, 0, len(base)+len(added))
	for _, p := range base {
		out = append(out, proto.CloneOf(p))
	}
	for _, p := range added {
		i := slices.IndexFunc(out, func(q *meshconfig.MeshConfig_ExtensionProvider) bool { return q.GetName() == p.GetName() })
		if i < 0 {
			out = append(out, p)
			continue
		}
		out[i].Provider = p.GetProvider()
	}
	return out
}

// mergeProxyConfig applies a ProxyConfig's fields over cfg: proxyMetadata
// merges by key, proxyHeaders by field (Istio MergeProxyConfig). The paths that
// it returns come after at.
func mergeProxyConfig(raw map[string]any, cfg *meshconfig.ProxyConfig, at string) (unknown []string, refused []validation.Problem) {
	metadata, headers := cfg.GetProxyMetadata(), cfg.GetProxyHeaders()
	if unknown, refused = applyObject(raw, cfg, at); len(refused) > 0 {
		return unknown, refused
	}
	if added := cfg.GetProxyMetadata(); metadata != nil || added != nil {
		cfg.ProxyMetadata = make(map[string]string, len(metadata)+len(added))
		for key, value := range metadata {
			cfg.ProxyMetadata[key] = value
		}
		for key, value := range added {
			cfg.ProxyMetadata[key] = value
		}
	}
	inheritHeaders(cfg.GetProxyHeaders(), headers)
	return unknown, nil
}

// inheritHeaders fills the fields of headers that are unset from base.
func inheritHeaders(headers, base *meshconfig.ProxyConfig_ProxyHeaders) {
	if headers == nil || base == nil {
		return
	}
	if headers.ForwardedClientCert == 0 {
		headers.ForwardedClientCert = base.ForwardedClientCert
	}
	if headers.RequestId == nil {
		headers.RequestId = base.RequestId
	}
	if headers.AttemptCount == nil {
		headers.AttemptCount = base.AttemptCount
	}
	if headers.Server == nil {
		headers.Server = base.Server
	}
	if headers.EnvoyDebugHeaders == nil {
		headers.EnvoyDebugHeaders = base.EnvoyDebugHeaders
	}
}

// ParseMeshNetworks reads meshNetworks; an empty text has no networks.
func ParseMeshNetworks(text string) (networks *meshconfig.MeshNetworks, unknown []string, refused []validation.Problem) {
	raw, refused := yamlObject(text)
	networks = &meshconfig.MeshNetworks{}
	if len(refused) == 0 {
		unknown, refused = applyObject(raw, networks, "")
	}
	return networks, unknown, refused
}
