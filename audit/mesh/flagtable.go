package mesh

import (
	"strconv"
	"time"
)

// since is a flag's default from a version on; the first row of a flag holds
// for all earlier versions.
type since struct {
	minor int // of Istio 1.x
	value string
}

// flag is one environment variable of istiod that the model reads.
type flag struct {
	name     string
	defaults []since
	// first is the first minor of Istio 1.x that reads the variable; 0: 1.24 does.
	first int
	// until is the first minor of Istio 1.x that no longer reads the variable
	// and keeps the last default; 0: still read.
	until int
	set   func(f *Flags, value string) error
}

// always makes a default that never changed.
func always(value string) []since { return []since{{0, value}} }

// from makes a default that changed with 1.minor.
func from(before string, minor int, value string) []since {
	return []since{{0, before}, {minor, value}}
}

func boolFlag(name string, defaults []since, field func(*Flags) *bool) flag {
	return flag{name: name, defaults: defaults, set: func(f *Flags, value string) error {
		b, err := strconv.ParseBool(value)
		if err == nil {
			*field(f) = b
		}
		return err
	}}
}

func textFlag(name, value string, field func(*Flags) *string) flag {
	return flag{name: name, defaults: always(value), set: func(f *Flags, value string) error {
		*field(f) = value
		return nil
	}}
}

func uintFlag(name string, defaults []since, field func(*Flags) *uint32) flag {
	return flag{name: name, defaults: defaults, set: func(f *Flags, value string) error {
		n, err := strconv.ParseUint(value, 10, 32)
		if err == nil {
			*field(f) = uint32(n)
		}
		return err
	}}
}

// durationFlag reads a Go duration into an int field counted in units.
func durationFlag(name string, defaults []since, unit time.Duration, field func(*Flags) *int) flag {
	return flag{name: name, defaults: defaults, set: func(f *Flags, value string) error {
		d, err := time.ParseDuration(value)
		if err == nil {
			*field(f) = int(d / unit)
		}
		return err
	}}
}

func floatFlag(name, value string, field func(*Flags) *float64) flag {
	return flag{name: name, defaults: always(value), set: func(f *Flags, value string) error {
		x, err := strconv.ParseFloat(value, 64)
		if err == nil {
			*field(f) = x
		}
		return err
	}}
}

// born is a flag that istiod reads from 1.first on.
func born(first int, f flag) flag {
	f.first = first
	return f
}

// gone ends a flag with the first minor that ignores it.
func gone(until int, f flag) flag {
	f.until = until
	return f
}

// flags is the table of digest section 11 (Istio pilot/pkg/features).
var flags = []flag{
	boolFlag("PILOT_FILTER_GATEWAY_CLUSTER_CONFIG", always("false"), func(f *Flags) *bool { return &f.FilterGatewayClusterConfig }),
	boolFlag("PILOT_SCOPE_GATEWAY_TO_NAMESPACE", always("false"), func(f *Flags) *bool { return &f.ScopeGatewayToNamespace }),
	boolFlag("PILOT_UNIFIED_SIDECAR_SCOPE", always("true"), func(f *Flags) *bool { return &f.UnifiedSidecarScope }),
	boolFlag("ENABLE_ENHANCED_DESTINATIONRULE_MERGE", always("true"), func(f *Flags) *bool { return &f.EnhancedDestinationRuleMerge }),
	born(30, boolFlag("PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE", from("false", 30, "true"), func(f *Flags) *bool { return &f.PickBestServiceNamespace })),
	boolFlag("PILOT_ENABLE_IP_AUTOALLOCATE", from("false", 25, "true"), func(f *Flags) *bool { return &f.IPAutoallocate }),
	boolFlag("PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES", always("false"), func(f *Flags) *bool { return &f.EDSForHeadless }),
	born(31, boolFlag("PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER", always("false"), func(f *Flags) *bool { return &f.HeadlessFilterChainListener })),
	boolFlag("ENABLE_MULTICLUSTER_HEADLESS", always("true"), func(f *Flags) *bool { return &f.MulticlusterHeadless }),
	boolFlag("ISTIO_DUAL_STACK", always("false"), func(f *Flags) *bool { return &f.DualStack }),
	boolFlag("PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE", always("false"), func(f *Flags) *bool { return &f.SidecarInboundMerge }),
	boolFlag("PILOT_ENABLE_SERVICEENTRY_SELECT_PODS", always("true"), func(f *Flags) *bool { return &f.ServiceEntrySelectPods }),
	boolFlag("PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES", always("true"), func(f *Flags) *bool { return &f.K8sSelectWorkloadEntries }),
	boolFlag("PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS", always("true"), func(f *Flags) *bool { return &f.WorkloadEntryHealthChecks }),
	boolFlag("PILOT_ENABLE_QUIC_LISTENERS", always("false"), func(f *Flags) *bool { return &f.QUICListeners }),
	born(31, boolFlag("PILOT_ENABLE_STRICT_GATEWAY_MERGING", from("false", 31, "true"), func(f *Flags) *bool { return &f.StrictGatewayMerging })),
	textFlag("PILOT_JWT_ENABLE_REMOTE_JWKS", "false", func(f *Flags) *string { return &f.RemoteJWKS }),
	boolFlag("PILOT_ENABLE_AMBIENT", always("false"), func(f *Flags) *bool { return &f.Ambient }),
	boolFlag("PILOT_SEND_UNHEALTHY_ENDPOINTS", always("false"), func(f *Flags) *bool { return &f.SendUnhealthyEndpoints }),
	born(31, boolFlag("PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS", from("false", 31, "true"), func(f *Flags) *bool { return &f.AutoSendUnhealthyEndpoints })),
	boolFlag("ENABLE_TLS_ON_SIDECAR_INGRESS", always("false"), func(f *Flags) *bool { return &f.TLSOnSidecarIngress }),
	textFlag("ISTIO_WATCH_NAMESPACE", "", func(f *Flags) *string { return &f.WatchNamespace }),
	born(27, boolFlag("PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", from("false", 27, "true"), func(f *Flags) *bool { return &f.AbsoluteFQDNDomain })),
	boolFlag("PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION", always("true"), func(f *Flags) *bool { return &f.RouteCollapse }),
	boolFlag("PILOT_ENABLE_TELEMETRY_LABEL", always("true"), func(f *Flags) *bool { return &f.TelemetryLabel }),
	boolFlag("PILOT_ENDPOINT_TELEMETRY_LABEL", always("true"), func(f *Flags) *bool { return &f.EndpointTelemetryLabel }),
	boolFlag("PILOT_ENABLE_METADATA_EXCHANGE", always("true"), func(f *Flags) *bool { return &f.MetadataExchange }),
	born(25, textFlag("PILOT_MX_ADDITIONAL_LABELS", "", func(f *Flags) *string { return &f.MXAdditionalLabels })),
	boolFlag("PILOT_ENABLE_ALPN_FILTER", always("true"), func(f *Flags) *bool { return &f.ALPNFilter }),
	boolFlag("PILOT_DISABLE_MX_ALPN", always("false"), func(f *Flags) *bool { return &f.DisableMXALPN }),
	born(29, boolFlag("DISABLE_TRACK_REMAINING_CB_METRICS", from("false", 29, "true"), func(f *Flags) *bool { return &f.DisableTrackRemaining })),
	born(28, boolFlag("DISABLE_SHADOW_HOST_SUFFIX", from("false", 28, "true"), func(f *Flags) *bool { return &f.DisableShadowHostSuffix })),
	born(26, gone(31, boolFlag("PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY", from("false", 28, "true"), func(f *Flags) *bool { return &f.SpawnUpstreamSpanForGateway }))),
	gone(27, boolFlag("ENABLE_INBOUND_RETRY_POLICY", always("true"), func(f *Flags) *bool { return &f.InboundRetryPolicy })),
	gone(27, boolFlag("EXCLUDE_UNSAFE_503_FROM_DEFAULT_RETRY", always("true"), func(f *Flags) *bool { return &f.ExcludeUnsafe503 })),
	boolFlag("PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES", always("true"), func(f *Flags) *bool { return &f.PreferDestinationRuleTLS }),
	born(26, uintFlag("MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP", from("0", 26, "1"), func(f *Flags) *uint32 { return &f.MaxConnectionsPerSocketEvent })),
	born(25, uintFlag("PILOT_DNS_CARES_UDP_MAX_QUERIES", from("0", 25, "100"), func(f *Flags) *uint32 { return &f.CaresUDPMaxQueries })),
	born(25, durationFlag("PILOT_DNS_JITTER_DURATION", from("0s", 25, "100ms"), time.Millisecond, func(f *Flags) *int { return &f.DNSJitterMillis })),
	boolFlag("PILOT_HTTP10", always("false"), func(f *Flags) *bool { return &f.HTTP10 }),
	boolFlag("PILOT_SIDECAR_USE_REMOTE_ADDRESS", always("false"), func(f *Flags) *bool { return &f.SidecarUseRemoteAddress }),
	boolFlag("ENABLE_100_CONTINUE_HEADERS", always("true"), func(f *Flags) *bool { return &f.Continue100 }),
	boolFlag("PILOT_ENABLE_MONGO_FILTER", always("true"), func(f *Flags) *bool { return &f.MongoFilter }),
	boolFlag("PILOT_ENABLE_MYSQL_FILTER", always("false"), func(f *Flags) *bool { return &f.MySQLFilter }),
	boolFlag("PILOT_ENABLE_REDIS_FILTER", always("false"), func(f *Flags) *bool { return &f.RedisFilter }),
	boolFlag("PILOT_ENABLE_PERSISTENT_SESSION_FILTER", always("false"), func(f *Flags) *bool { return &f.PersistentSession }),
	boolFlag("ENABLE_LOCALITY_WEIGHTED_LB_CONFIG", always("false"), func(f *Flags) *bool { return &f.LocalityWeightedLB }),
	floatFlag("PILOT_TRACE_SAMPLING", "1.0", func(f *Flags) *float64 { return &f.TraceSampling }),
	born(30, durationFlag("PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT", always("15s"), time.Second, func(f *Flags) *int { return &f.GatewayTransportConnectTimeoutSeconds })),
	boolFlag("LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES", always("false"), func(f *Flags) *bool { return &f.CanonicalForExternalSE }),
	born(31, uintFlag("PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS", always("1024"), func(f *Flags) *uint32 { return &f.AllowAnyDynamicDNSMaxHosts })),
	boolFlag("ENABLE_HCM_INTERNAL_NETWORKS", always("false"), func(f *Flags) *bool { return &f.HCMInternalNetworks }),
	boolFlag("PILOT_SKIP_VALIDATE_TRUST_DOMAIN", always("false"), func(f *Flags) *bool { return &f.SkipValidateTrustDomain }),
	born(30, boolFlag("PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS", always("false"), func(f *Flags) *bool { return &f.MultipleCustomAuthzProviders })),
	boolFlag("ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS", always("false"), func(f *Flags) *bool { return &f.IPv4OutboundForIPv6Only }),
	textFlag("PILOT_PERSISTENT_SESSION_LABEL", "istio.io/persistent-session", func(f *Flags) *string { return &f.PersistentSessionLabel }),
	textFlag("PILOT_PERSISTENT_SESSION_HEADER_LABEL", "istio.io/persistent-session-header", func(f *Flags) *string { return &f.PersistentSessionHeaderLabel }),
}

// noEffect are variables that istiod reads and that change nothing of what a
// sidecar or gateway gets: caches, timing, status, certificates, injection,
// what only ambient or other clusters use.
var noEffect = []string{
	"ENABLE_CA_SERVER", "ENABLE_CLUSTER_TRUST_BUNDLE_API", "ENABLE_DEBUG_ENDPOINT_AUTH", "ENABLE_DEBUG_ON_HTTP",
	"ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT", "ENABLE_LAYERED_WAYPOINT_AUTHORIZATION_POLICIES", "ENABLE_LAZY_SIDECAR_EVALUATION",
	"ENABLE_LEADER_ELECTION", "ENABLE_NATIVE_SIDECARS", "ENABLE_PROXY_FIND_POD_BY_IP", "ENABLE_VTPROTOBUF",
	"ENABLE_WILDCARD_HOST_SERVICE_ENTRIES_FOR_TLS", "ENABLE_XDS_API_GENERATOR_AUTH",
	"PILOT_ANALYSIS_INTERVAL", "PILOT_CA_CERT_CONFIGMAP", "PILOT_CERT_PROVIDER", "PILOT_CONVERT_SIDECAR_SCOPE_CONCURRENCY",
	"PILOT_CRL_CONFIGMAP", "PILOT_DEBOUNCE_AFTER", "PILOT_DEBOUNCE_MAX", "PILOT_DISTRIBUTION_HISTORY_RETENTION",
	"PILOT_ENABLE_AGENTGATEWAY", "PILOT_ENABLE_ALPHA_GATEWAY_API", "PILOT_ENABLE_ANALYSIS", "PILOT_ENABLE_CA_CRL",
	"PILOT_ENABLE_CDS_CACHE", "PILOT_ENABLE_CONFIG_DISTRIBUTION_TRACKING", "PILOT_ENABLE_CROSS_CLUSTER_WORKLOAD_ENTRY",
	"PILOT_ENABLE_EDS_DEBOUNCE", "PILOT_ENABLE_GATEWAY_API", "PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS",
	"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", "PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER",
	"PILOT_ENABLE_GATEWAY_API_STATUS", "PILOT_ENABLE_NODE_UNTAINT_CONTROLLERS", "PILOT_ENABLE_RDS_CACHE",
	"PILOT_ENABLE_REMOTE_CREDENTIALS_CONTROLLER", "PILOT_ENABLE_STATUS", "PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION",
	"PILOT_ENABLE_XDS_CACHE", "PILOT_ENABLE_XDS_IDENTITY_CHECK", "PILOT_ENVOY_FILTER_STATS",
	"PILOT_GATEWAY_API_CONTROLLER_NAME", "PILOT_GATEWAY_API_DEFAULT_GATEWAYCLASS_NAME",
	"PILOT_INSECURE_MULTICLUSTER_KUBECONFIG_OPTIONS", "PILOT_IP_AUTOALLOCATE_IPV4_PREFIX", "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX",
	"PILOT_JWT_PUB_KEY_REFRESH_INTERVAL", "PILOT_MAX_REQUESTS_PER_SECOND", "PILOT_MULTICLUSTER_KUBECONFIG_PATH",
	"PILOT_NODE_UNTAINT_CONTROLLERS_TAINT_NAME", "PILOT_PUSH_THROTTLE", "PILOT_REMOTE_CLUSTER_TIMEOUT", "PILOT_STATUS_BURST",
	"PILOT_STATUS_MAX_WORKERS", "PILOT_STATUS_QPS", "PILOT_STATUS_UPDATE_INTERVAL", "PILOT_WORKLOAD_ENTRY_GRACE_PERIOD",
	"PILOT_XDS_CACHE_INDEX_CLEAR_INTERVAL", "PILOT_XDS_CACHE_SIZE", "PILOT_XDS_CACHE_STATS",
}
