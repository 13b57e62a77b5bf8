package mesh

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// fieldsSince are the fields that Istio's API gained after 1.24, by the minor of
// the first 1.x that has them. An older istiod, and the CRDs installed with it,
// drop them. Read from the proto files at istio/api's release tags; no patch
// release added one.
var fieldsSince = byField(map[int][]protoreflect.FullName{
	25: {
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.EnvoyExternalAuthorizationGrpcProvider.clear_route_cache",
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.EnvoyExternalAuthorizationHttpProvider.clear_route_cache",
		"istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders.preserve_http1_header_case",
		"istio.mesh.v1alpha1.Tracing.enable_istio_tags",
		"istio.networking.v1alpha3.EnvoyFilter.RouteConfigurationMatch.VirtualHostMatch.domain_name",
		"istio.networking.v1alpha3.ReadinessProbe.grpc",
		"istio.security.v1beta1.Source.not_service_accounts",
		"istio.security.v1beta1.Source.service_accounts",
		"istio.telemetry.v1alpha1.Tracing.enable_istio_tags",
	},
	26: {
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.EnvoyFileAccessLogProvider.omit_empty_values",
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.HttpHeader.env_name",
		"istio.networking.v1alpha3.HTTPRetry.backoff",
		"istio.networking.v1alpha3.HTTPRetry.retry_ignore_previous_hosts",
		"istio.networking.v1alpha3.ServerTLSSettings.credential_names",
		"istio.networking.v1alpha3.ServerTLSSettings.tls_certificates",
	},
	27: {
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.sds",
		"istio.mesh.v1alpha1.MeshConfig.service_scope_configs",
		"istio.networking.v1alpha3.TrafficPolicy.retry_budget",
	},
	28: {
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.ZipkinTracingProvider.trace_context_option",
		"istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders.x_forwarded_host",
		"istio.mesh.v1alpha1.ProxyConfig.ProxyHeaders.x_forwarded_port",
		"istio.networking.v1alpha3.LoadBalancerSettings.ConsistentHashLB.HTTPCookie.attributes",
		"istio.networking.v1alpha3.ServerTLSSettings.ca_cert_credential_name",
		"istio.security.v1beta1.JWTRule.space_delimited_claims",
	},
	29: {
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.ZipkinTracingProvider.headers",
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.ZipkinTracingProvider.timeout",
		"istio.mesh.v1alpha1.MeshConfig.hbone_idle_timeout",
		"istio.mesh.v1alpha1.ProxyConfig.file_flush_interval",
		"istio.mesh.v1alpha1.ProxyConfig.file_flush_min_size_kb",
		"istio.mesh.v1alpha1.ProxyConfig.stats_compression",
		"istio.networking.v1alpha3.EnvoyFilter.EnvoyConfigObjectMatch.waypoint",
		"istio.telemetry.v1alpha1.Tracing.CustomTag.formatter",
	},
	30: {
		"istio.mesh.v1alpha1.MeshConfig.ExtensionProvider.OpenTelemetryTracingProvider.service_attribute_enrichment",
		"istio.mesh.v1alpha1.MeshConfig.OutboundTrafficPolicy.tls",
		"istio.security.v1beta1.Source.not_trust_domains",
		"istio.security.v1beta1.Source.trust_domains",
		"istio.telemetry.v1alpha1.Tracing.disable_context_propagation",
	},
	31: {
		"istio.mesh.v1alpha1.MeshConfig.default_traffic_policy",
		"istio.mesh.v1alpha1.MeshConfig.service_entry_visibility",
		"istio.mesh.v1alpha1.MeshConfig.zone_aware_lb_setting",
		"istio.mesh.v1alpha1.ProxyConfig.connection_settings",
		"istio.networking.v1alpha3.ConnectionPoolSettings.HTTPSettings.http2_keep_alive",
		"istio.networking.v1alpha3.HTTPRedirect.prefix_rewrite",
		"istio.networking.v1alpha3.LoadBalancerSettings.zone_aware_lb_setting",
		"istio.networking.v1alpha3.OutlierDetection.outlier_detection_http_error_codes",
		"istio.networking.v1alpha3.ServerTLSSettings.insecure_skip_verify",
		"istio.networking.v1alpha3.TrafficPolicy.RetryBudget.budget_interval",
	},
	32: {
		"istio.mesh.v1alpha1.MeshConfig.default_inbound_http_retry_policy",
		"istio.networking.v1alpha3.ClientTLSSettings.ca_cert_credential_name",
		"istio.networking.v1alpha3.EnvoyFilter.ListenerMatch.FilterChainMatch.transport_socket",
		"istio.networking.v1alpha3.LoadBalancerSettings.backend_utilization",
		"istio.networking.v1alpha3.OutlierDetection.failure_percentage_threshold",
		"istio.networking.v1alpha3.ServerTLSSettings.alpn_protocols",
		"istio.networking.v1alpha3.ServerTLSSettings.ecdh_curves",
		"istio.security.v1beta1.JWTRule.presence",
	},
})

func byField(minors map[int][]protoreflect.FullName) map[protoreflect.FullName]int {
	out := map[protoreflect.FullName]int{}
	for minor, fields := range minors {
		for _, field := range fields {
			out[field] = minor
		}
	}
	return out
}

// known is m as an istiod of version v reads it: m itself, or a copy without the
// fields that are newer than v.
func known[M proto.Message](v Version, m M) M {
	if !walkNewer(v, m.ProtoReflect(), nil) {
		return m
	}
	out := proto.CloneOf(m)
	walkNewer(v, out.ProtoReflect(), protoreflect.Message.Clear)
	return out
}

// walkNewer reports whether any field of m is newer than v, and calls act, if
// there is one, for each.
func walkNewer(v Version, m protoreflect.Message, act func(protoreflect.Message, protoreflect.FieldDescriptor)) bool {
	found := false
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if minor := fieldsSince[field.FullName()]; minor != 0 && !v.AtLeast(1, minor, 0) {
			found = true
			if act != nil {
				act(m, field)
			}
			return act != nil
		}
		eachMessage(field, value, func(inner protoreflect.Message) {
			found = walkNewer(v, inner, act) || found
		})
		return act != nil || !found
	})
	return found
}

// eachMessage calls visit with the messages that a field holds.
func eachMessage(field protoreflect.FieldDescriptor, value protoreflect.Value, visit func(protoreflect.Message)) {
	switch {
	case field.IsMap():
		if field.MapValue().Message() != nil {
			value.Map().Range(func(_ protoreflect.MapKey, entry protoreflect.Value) bool {
				visit(entry.Message())
				return true
			})
		}
	case field.Message() == nil:
	case field.IsList():
		for i := range value.List().Len() {
			visit(value.List().Get(i).Message())
		}
	default:
		visit(value.Message())
	}
}
