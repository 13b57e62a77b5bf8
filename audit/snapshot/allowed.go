package snapshot

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What a snapshot may leave the machine with (a file in a repository, a build's
// artefact) is decided here, by lists of what is allowed: nobody knows the list
// of what is secret.

// keepAnnotation keeps what Istio and the model read of an object's annotations.
func keepAnnotation(key string) bool {
	switch key {
	case ingressClassKey, AssumedAnnotation, "resource.opentelemetry.io/service.name":
		return true
	}
	domain, _, found := strings.Cut(key, "/")
	return found && (domain == "istio.io" || strings.HasSuffix(domain, ".istio.io"))
}

// IstiodVariables are istiod's environment variables whose values are kept.
var IstiodVariables = map[string]bool{
	"REVISION": true, "CLUSTER_ID": true, "SHARED_MESH_CONFIG": true,
	"ISTIO_DUAL_STACK": true, "ISTIO_WATCH_NAMESPACE": true, "ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS": true,
	"DISABLE_SHADOW_HOST_SUFFIX": true, "DISABLE_TRACK_REMAINING_CB_METRICS": true,
	"ENABLE_100_CONTINUE_HEADERS": true, "ENABLE_ENHANCED_DESTINATIONRULE_MERGE": true, "ENABLE_HCM_INTERNAL_NETWORKS": true,
	"ENABLE_INBOUND_RETRY_POLICY": true, "ENABLE_LOCALITY_WEIGHTED_LB_CONFIG": true, "ENABLE_MULTICLUSTER_HEADLESS": true,
	"ENABLE_TLS_ON_SIDECAR_INGRESS": true, "ENABLE_NATIVE_SIDECARS": true, "EXCLUDE_UNSAFE_503_FROM_DEFAULT_RETRY": true,
	"LABEL_CANONICAL_SERVICES_FOR_MESH_EXTERNAL_SERVICE_ENTRIES": true, "MAX_CONNECTIONS_PER_SOCKET_EVENT_LOOP": true,
	"PREFER_DESTINATIONRULE_TLS_FOR_EXTERNAL_SERVICES": true,
	"PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS":            true, "PILOT_ALLOW_SIDECAR_SERVICE_INBOUND_LISTENER_MERGE": true,
	"PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS": true, "PILOT_DISABLE_MX_ALPN": true, "PILOT_DNS_CARES_UDP_MAX_QUERIES": true,
	"PILOT_DNS_JITTER_DURATION": true, "PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN": true, "PILOT_ENABLE_ALPN_FILTER": true,
	"PILOT_ENABLE_AMBIENT": true, "PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES": true, "PILOT_ENABLE_HEADLESS_FILTER_CHAIN_LISTENER": true,
	"PILOT_ENABLE_IP_AUTOALLOCATE": true, "PILOT_ENABLE_K8S_SELECT_WORKLOAD_ENTRIES": true, "PILOT_ENABLE_METADATA_EXCHANGE": true,
	"PILOT_ENABLE_MONGO_FILTER": true, "PILOT_ENABLE_MULTIPLE_CUSTOM_AUTHZ_PROVIDERS": true, "PILOT_ENABLE_MYSQL_FILTER": true,
	"PILOT_ENABLE_PERSISTENT_SESSION_FILTER": true, "PILOT_ENABLE_QUIC_LISTENERS": true, "PILOT_ENABLE_REDIS_FILTER": true,
	"PILOT_ENABLE_ROUTE_COLLAPSE_OPTIMIZATION": true, "PILOT_ENABLE_SERVICEENTRY_SELECT_PODS": true,
	"PILOT_ENABLE_STRICT_GATEWAY_MERGING": true, "PILOT_ENABLE_TELEMETRY_LABEL": true,
	"PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS": true, "PILOT_ENDPOINT_TELEMETRY_LABEL": true,
	"PILOT_FILTER_GATEWAY_CLUSTER_CONFIG": true, "PILOT_GATEWAY_TRANSPORT_SOCKET_CONNECT_TIMEOUT": true, "PILOT_HTTP10": true,
	"PILOT_IP_AUTOALLOCATE_IPV4_PREFIX": true, "PILOT_IP_AUTOALLOCATE_IPV6_PREFIX": true,
	"PILOT_JWT_ENABLE_REMOTE_JWKS": true, "PILOT_MX_ADDITIONAL_LABELS": true, "PILOT_PERSISTENT_SESSION_HEADER_LABEL": true,
	"PILOT_PERSISTENT_SESSION_LABEL": true, "PILOT_SCOPE_GATEWAY_TO_NAMESPACE": true, "PILOT_SEND_UNHEALTHY_ENDPOINTS": true,
	"PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE": true, "PILOT_SIDECAR_USE_REMOTE_ADDRESS": true,
	"PILOT_SKIP_VALIDATE_TRUST_DOMAIN": true, "PILOT_SPAWN_UPSTREAM_SPAN_FOR_GATEWAY": true, "PILOT_TRACE_SAMPLING": true,
	"PILOT_UNIFIED_SIDECAR_SCOPE": true,
	// What decides how often istiod pushes.
	"PILOT_DEBOUNCE_AFTER": true, "PILOT_DEBOUNCE_MAX": true, "PILOT_ENABLE_EDS_DEBOUNCE": true, "PILOT_PUSH_THROTTLE": true,
}

// istiodEnvironment keeps the variables above with their values, and of flags
// that the model does not know the names, which are told as gaps.
func istiodEnvironment(env []EnvVar) []EnvVar {
	var out []EnvVar
	for _, e := range env {
		switch {
		case IstiodVariables[e.Name]:
			out = append(out, e)
		case strings.HasPrefix(e.Name, "PILOT_"), strings.HasPrefix(e.Name, "ENABLE_"):
			out = append(out, EnvVar{Name: e.Name, From: e.From})
		}
	}
	return out
}

// agentVariables are those of a proxy's container that istiod learns from or
// that decide its revision, beside ISTIO_META_ and ISTIO_METAJSON_.
var agentVariables = map[string]bool{
	"PROXY_CONFIG": true, "TRUST_DOMAIN": true, "POD_NAME": true, "POD_NAMESPACE": true,
	"INSTANCE_IP": true, "HOST_IP": true, "SERVICE_ACCOUNT": true, "ISTIO_DUAL_STACK": true,
}

var variableReference = regexp.MustCompile(`\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)`)

// agentEnvironment keeps a proxy's variables that the model reads, and those
// that their values refer to.
func agentEnvironment(env []corev1.EnvVar) []corev1.EnvVar {
	wanted := map[string]bool{}
	keep := func(name string) bool {
		return agentVariables[name] || wanted[name] || strings.HasPrefix(name, "ISTIO_META_") || strings.HasPrefix(name, "ISTIO_METAJSON_")
	}
	n := 0
	for i := len(env) - 1; i >= 0; i-- { // a reference is to a variable before it
		if !keep(env[i].Name) {
			continue
		}
		n++
		if strings.Contains(env[i].Value, "$(") {
			for _, ref := range variableReference.FindAllStringSubmatch(env[i].Value, -1) {
				wanted[ref[1]] = true
			}
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]corev1.EnvVar, 0, n)
	for i := range env {
		if keep(env[i].Name) {
			out = append(out, env[i])
		}
	}
	return out
}
