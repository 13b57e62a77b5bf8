package xds

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	dfpcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// classLookups are what istiod finds for all listeners of a proxy and class:
// computed once, then shared by its chains. Nothing in it is changed.
type classLookups struct {
	exchange *exchangeFilters
	// logs of connection managers, TCP proxies and the listener itself
	httpLog, tcpLog, listenerLog []*accesslogv3.AccessLog
	tracing                      *hcmv3.HttpConnectionManager_Tracing // nil: off
	requestID                    *hcmv3.RequestIDExtension
	httpStats                    []*hcmv3.HttpFilter
	tcpStats                     []*listenerv3.Filter
	policyFilters
	jwt []*hcmv3.HttpFilter
}

// lookupMemo keeps the lookups of the proxy that was asked for last.
type lookupMemo struct {
	proxy    *mesh.Proxy
	classes  [gatewayClass + 1]*classLookups
	exchange *exchangeFilters
}

func (b *Builder) lookups(p *mesh.Proxy, class listenerClass) *classLookups {
	memo := &b.looked
	if memo.exchange == nil {
		memo.exchange = newExchangeFilters(b.view.Flags.MXAdditionalLabels)
	}
	if memo.proxy != p {
		memo.proxy, memo.classes = p, [gatewayClass + 1]*classLookups{}
	}
	if memo.classes[class] == nil {
		look := &classLookups{exchange: memo.exchange}
		b.lookUpTelemetry(p, class, look)
		look.policyFilters = b.policyFilters(p, "")
		if jwt := b.jwtFilter(p); jwt != nil {
			look.jwt = []*hcmv3.HttpFilter{jwt}
		}
		memo.classes[class] = look
	}
	return memo.classes[class]
}

// listenerAccessLog are the logs of a listener itself: what no chain took.
func (b *Builder) listenerAccessLog(p *mesh.Proxy, class listenerClass) []*accesslogv3.AccessLog {
	return b.lookups(p, class).listenerLog
}

// dynamicWildcard reports a wildcard host that is resolved when it is called
// (CDS-4).
func (b *Builder) dynamicWildcard(svc *mesh.Service) bool {
	return b.view.Behaviours.DynamicDNSClusters && svc != nil && svc.Resolution == mesh.DynamicDNS && mesh.IsWildcard(svc.Host)
}

// allowAnyDynamicDNS reports the outbound policy of that name (1.31, SC-23).
func allowAnyDynamicDNS(s *scope.Scope) bool {
	return s.Kind == mesh.SidecarProxy && s.OutboundPolicy != nil &&
		meshconfig.MeshConfig_OutboundTrafficPolicy_Mode(s.OutboundPolicy.GetMode()) == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS
}

// dnsCache is the DNS cache that a dynamic forward proxy filter shares with its cluster.
func dnsCache(host string, family clusterv3.Cluster_DnsLookupFamily) *dfpcommonv3.DnsCacheConfig {
	return &dfpcommonv3.DnsCacheConfig{Name: host + "_dfp_dns_cache", DnsLookupFamily: family}
}

func forwardProxyFilter(cache *dfpcommonv3.DnsCacheConfig) *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.dynamic_forward_proxy", toAny(&dfpv3.FilterConfig{
		ImplementationSpecifier: &dfpv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: cache},
	}))
}

func sniForwardProxy(cache *dfpcommonv3.DnsCacheConfig, port int) *listenerv3.Filter {
	return networkFilter(sniForwardProxyName, toAny(&snidfpv3.FilterConfig{
		DnsCacheConfig: cache,
		PortSpecifier:  &snidfpv3.FilterConfig_PortValue{PortValue: uint32(port)},
	}))
}

const sniForwardProxyName = "envoy.extensions.filters.network.sni_dynamic_forward_proxy"
