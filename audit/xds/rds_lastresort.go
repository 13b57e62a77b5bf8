package xds

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// lastResort is the virtual host for every other domain (RDS-8).
func (b *Builder) lastResort(s *scope.Scope, p *mesh.Proxy) virtualHost {
	headers := b.proxyHeaders(p, outboundClass)
	route := &routev3.Route{Match: routeMatch(nil, "")}
	mode := s.OutboundPolicy.GetMode()
	action := &routev3.RouteAction{AppendXForwardedHost: headers.xForwardedHost}
	setTimeout(action, nil)
	switch {
	case s.OutboundPolicy == nil || mode == networking.OutboundTrafficPolicy_REGISTRY_ONLY:
		route.Name = "block_all"
		route.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}}
	case meshconfig.MeshConfig_OutboundTrafficPolicy_Mode(mode) == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		route.Name = "allow_any_dynamic_dns"
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: "AllowAnyDynamicDNSCluster"}
		route.Action = &routev3.Route_Route{Route: action}
	default:
		route.Name = "allow_any"
		cluster := "PassthroughCluster"
		if proxy := s.OutboundPolicy.GetEgressProxy(); proxy != nil {
			cluster = destinationCluster(proxy, nil, 0, false)
		}
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: cluster}
		route.Action = &routev3.Route_Route{Route: action}
	}
	message := &routev3.VirtualHost{
		Name: route.Name, Domains: []string{"*"}, Routes: []*routev3.Route{route},
		IncludeRequestAttemptCount: headers.attemptCount,
	}
	vh := virtualHost{name: route.Name, domains: message.Domains, sorted: message.Domains, message: message}
	if s.Sidecar != nil && s.Sidecar.Spec.GetOutboundTrafficPolicy() != nil {
		vh.by = s.Sidecar.Ref()
	}
	return vh
}
