package mesh

import (
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Flags are istiod's environment variables that change what it sends (digest
// section 11), resolved: as set on the istiod, else the default of its version.
type Flags struct {
	FilterGatewayClusterConfig   bool   // PILOT_FILTER_GATEWAY_CLUSTER_CONFIG
	ScopeGatewayToNamespace      bool   // PILOT_SCOPE_GATEWAY_TO_NAMESPACE
	UnifiedSidecarScope          bool   // PILOT_UNIFIED_SIDECAR_SCOPE
	EnhancedDestinationRuleMerge bool   // ENABLE_ENHANCED_DESTINATIONRULE_MERGE
	PickBestServiceNamespace     bool   // PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE
	IPAutoallocate               bool   // PILOT_ENABLE_IP_AUTOALLOCATE
	EDSForHeadless               bool   // PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES
	HeadlessFilterChainListener  bool   // PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER
	MulticlusterHeadless         bool   // ENABLE_MULTICLUSTER_HEADLESS
	DualStack                    bool   // ISTIO_DUAL_STACK
	SidecarInboundMerge          bool   // PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE
	ServiceEntrySelectPods       bool   // PILOT_ENABLE_SERVICEENTRY_SELECT_PODS
	K8sSelectWorkloadEntries     bool   // PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES
	QUICListeners                bool   // PILOT_ENABLE_QUIC_LISTENERS
	StrictGatewayMerging         bool   // PILOT_ENABLE_STRICT_GATEWAY_MERGING
	RemoteJWKS                   string // PILOT_JWT_ENABLE_REMOTE_JWKS
	Ambient                      bool   // PILOT_ENABLE_AMBIENT
	SendUnhealthyEndpoints       bool   // PILOT_SEND_UNHEALTHY_ENDPOINTS
	AutoSendUnhealthyEndpoints   bool   // PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS
	TLSOnSidecarIngress          bool   // ENABLE_TLS_ON_SIDECAR_INGRESS
	WatchNamespace               string // ISTIO_WATCH_NAMESPACE
	AbsoluteFQDNDomain           bool   // PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN
	RouteCollapse                bool   // PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION

	TelemetryLabel                        bool    // PILOT_ENABLE_TELEMETRY_LABEL
	EndpointTelemetryLabel                bool    // PILOT_ENDPOINT_TELEMETRY_LABEL
	MetadataExchange                      bool    // PILOT_ENABLE_METADATA_EXCHANGE
	MXAdditionalLabels                    string  // PILOT_MX_ADDITIONAL_LABELS
	ALPNFilter                            bool    // PILOT_ENABLE_ALPN_FILTER
	DisableMXALPN                         bool    // PILOT_DISABLE_MX_ALPN
	DisableTrackRemaining                 bool    // DISABLE_TRACK_REMAINING_CB_METRICS
	DisableShadowHostSuffix               bool    // DISABLE_SHADOW_HOST_SUFFIX
	SpawnUpstreamSpanForGateway           bool    // PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY
	InboundRetryPolicy                    bool    // ENABLE_INBOUND_RETRY_POLICY
	ExcludeUnsafe503                      bool    // EXCLUDE_UNSAFE_503_FROM_DEFAULT_RETRY
	PreferDestinationRuleTLS              bool    // PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES
	MaxConnectionsPerSocketEvent          uint32  // MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP
	CaresUDPMaxQueries                    uint32  // PILOT_DNS_CARES_UDP_MAX_QUERIES
	DNSJitterMillis                       int     // PILOT_DNS_JITTER_DURATION
	HTTP10                                bool    // PILOT_HTTP10
	SidecarUseRemoteAddress               bool    // PILOT_SIDECAR_USE_REMOTE_ADDRESS
	Continue100                           bool    // ENABLE_100_CONTINUE_HEADERS
	MongoFilter, MySQLFilter, RedisFilter bool    // PILOT_ENABLE_{MONGO,MYSQL,REDIS}_FILTER
	PersistentSession                     bool    // PILOT_ENABLE_PERSISTENT_SESSION_FILTER
	LocalityWeightedLB                    bool    // ENABLE_LOCALITY_WEIGHTED_LB_CONFIG
	TraceSampling                         float64 // PILOT_TRACE_SAMPLING
	GatewayTransportConnectTimeoutSeconds int     // PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT
	CanonicalForExternalSE                bool    // LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES
	AllowAnyDynamicDNSMaxHosts            uint32  // PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS
	WorkloadEntryHealthChecks             bool    // PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS
	PersistentSessionLabel                string  // PILOT_PERSISTENT_SESSION_LABEL
	PersistentSessionHeaderLabel          string  // PILOT_PERSISTENT_SESSION_HEADER_LABEL
	HCMInternalNetworks                   bool    // ENABLE_HCM_INTERNAL_NETWORKS
	SkipValidateTrustDomain               bool    // PILOT_SKIP_VALIDATE_TRUST_DOMAIN
	MultipleCustomAuthzProviders          bool    // PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS
	IPv4OutboundForIPv6Only               bool    // ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS

	// Set holds the variables found on the istiod that differ from the
	// version's default and that the model knows.
	Set map[string]string
	// Unknown are PILOT_* and ENABLE_* variables that are set and that the
	// model does not read; each becomes a gap.
	Unknown []string
}

// FlagsOf resolves an istiod's environment: what is set, else the default of
// its version. A value that does not parse counts as unset, as in istiod (Istio
// pkg/env), and is named in Unknown as "NAME=value".
func FlagsOf(v Version, env map[string]string) Flags {
	f := Flags{Set: map[string]string{}}
	known := map[string]bool{}
	for _, row := range flags {
		known[row.name] = true
		def := row.defaultAt(v)
		_ = row.set(&f, def)
		value, found := env[row.name]
		if !found || !row.readBy(v) {
			continue
		}
		if err := row.set(&f, value); err != nil {
			f.Unknown = append(f.Unknown, row.name+"="+value)
			continue
		}
		if !sameValue(value, def) {
			f.Set[row.name] = value
		}
	}
	for name := range env {
		if known[name] || !strings.HasPrefix(name, "PILOT_") && !strings.HasPrefix(name, "ENABLE_") {
			continue
		}
		if !slices.Contains(noEffect, name) {
			f.Unknown = append(f.Unknown, name)
		}
	}
	sort.Strings(f.Unknown)
	return f
}

// readBy reports that an istiod of version v looks at the variable.
func (f flag) readBy(v Version) bool {
	return (f.first == 0 || v.AtLeast(1, f.first, 0)) && (f.until == 0 || !v.AtLeast(1, f.until, 0))
}

// defaultAt is the default of the latest row that v reaches.
func (f flag) defaultAt(v Version) string {
	value := ""
	for _, d := range f.defaults {
		if d.minor == 0 || v.AtLeast(1, d.minor, 0) {
			value = d.value
		}
	}
	return value
}

// sameValue compares spellings of a value: "1" and "true" are one boolean.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := strconv.ParseBool(a)
	y, errY := strconv.ParseBool(b)
	return errX == nil && errY == nil && x == y
}
