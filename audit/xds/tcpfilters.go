package xds

import (
	"net"
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	mongov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/mongo_proxy/v3"
	redisv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/redis_proxy/v3"
	tcpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// tcpTarget is a TCP chain that leads to one cluster.
type tcpTarget struct {
	class      listenerClass
	cluster    string
	statPrefix string                      // empty: the cluster's name
	subset     string                      // of rule, for its hash policy and tunnel
	rule       *networking.DestinationRule // of the destination; nil: none
	port       mesh.Port                   // the listener's
	exchange   bool                        // TCP metadata exchange
	noTunnel   bool                        // AUTO_PASSTHROUGH: the rule's tunnel is not applied
	// authorized adds this workload's RBAC and ext_authz filters: inbound and
	// gateway servers; not AUTO_PASSTHROUGH.
	authorized bool
	// service is a DYNAMIC_DNS wildcard whose names the SNI tells; nil: none.
	service *mesh.Service
}

// tcpRoutes is a TCP chain that leads where a VirtualService's route says.
type tcpRoutes struct {
	class      listenerClass
	routes     []*networking.RouteDestination // at least one
	from       *snapshot.Meta                 // the VirtualService
	port       mesh.Port
	exchange   bool
	authorized bool
}

// tcpFiltersTo builds the network filters of a chain with one destination
// (SIZE-16; Istio pilot/pkg/networking/core/networkfilter.go).
func (b *Builder) tcpFiltersTo(p *mesh.Proxy, t tcpTarget) []*listenerv3.Filter {
	if t.statPrefix == "" {
		t.statPrefix = t.cluster
	}
	m := b.tcpProxy(p, t.statPrefix, t.rule)
	m.ClusterSpecifier = &tcpproxyv3.TcpProxy_Cluster{Cluster: t.cluster}
	hashBySource(m, t.rule, t.subset)
	if !t.noTunnel {
		tunnel(m, t.rule, t.subset)
	}
	stack := b.protocolFilters(p, t.class, t.port.Protocol, m, t.cluster)
	return b.networkFilters(p, t.class, t.port.Number, stack, t.exchange, t.authorized, t.service)
}

// tcpFiltersForRoutes builds the network filters of a VirtualService's tcp or
// tls route.
func (b *Builder) tcpFiltersForRoutes(s *scope.Scope, p *mesh.Proxy, t tcpRoutes) []*listenerv3.Filter {
	first := t.routes[0].GetDestination()
	service := s.Service(first.GetHost())
	var rule *networking.DestinationRule
	if service != nil {
		rule = outboundRule(s, service.Service, p)
	}
	if len(t.routes) == 1 {
		target := tcpTarget{
			class:      t.class,
			cluster:    destinationCluster(first, service, t.port.Number, false),
			subset:     first.GetSubset(),
			rule:       rule,
			port:       t.port,
			exchange:   t.exchange,
			authorized: t.authorized,
		}
		if pattern := b.view.Config.GetOutboundClusterStatName(); pattern != "" && service != nil {
			target.statPrefix = clusterStatName(pattern, service.Service, first.GetHost(), first.GetSubset(), t.port, 0)
		}
		return b.tcpFiltersTo(p, target)
	}
	prefix := t.from.Name + "." + t.from.Namespace
	m := b.tcpProxy(p, prefix, rule)
	weighted := &tcpproxyv3.TcpProxy_WeightedCluster{}
	for _, r := range t.routes {
		if r.GetWeight() <= 0 {
			continue
		}
		weighted.Clusters = append(weighted.Clusters, &tcpproxyv3.TcpProxy_WeightedCluster_ClusterWeight{
			Name:   destinationCluster(r.GetDestination(), s.Service(r.GetDestination().GetHost()), t.port.Number, false),
			Weight: uint32(r.GetWeight()),
		})
	}
	m.ClusterSpecifier = &tcpproxyv3.TcpProxy_WeightedClusters{WeightedClusters: weighted}
	hashBySource(m, rule, "")
	tunnel(m, rule, "")
	cluster := ""
	if len(weighted.Clusters) > 0 {
		cluster = weighted.Clusters[0].Name
	}
	stack := b.protocolFilters(p, t.class, t.port.Protocol, m, cluster)
	return b.networkFilters(p, t.class, t.port.Number, stack, t.exchange, t.authorized, nil)
}

// outboundRule is the DestinationRule that applies to a service; nil if none.
func outboundRule(s *scope.Scope, svc *mesh.Service, p *mesh.Proxy) *networking.DestinationRule {
	if rule := s.DestinationRule(svc, p); rule != nil {
		return rule.Spec
	}
	return nil
}

// tcpProxy is a TCP proxy without a destination.
func (b *Builder) tcpProxy(p *mesh.Proxy, statPrefix string, rule *networking.DestinationRule) *tcpproxyv3.TcpProxy {
	tcp := rule.GetTrafficPolicy().GetConnectionPool().GetTcp()
	m := &tcpproxyv3.TcpProxy{
		StatPrefix:                      statPrefix,
		IdleTimeout:                     tcp.GetIdleTimeout(),
		MaxDownstreamConnectionDuration: tcp.GetMaxConnectionDuration(),
	}
	if m.IdleTimeout == nil {
		m.IdleTimeout = parseDuration(p.Metadata.IdleTimeout)
	}
	return m
}

// hashBySource sets the hash policy of a DestinationRule's useSourceIp.
func hashBySource(m *tcpproxyv3.TcpProxy, rule *networking.DestinationRule, subset string) {
	use := rule.GetTrafficPolicy().GetLoadBalancer().GetConsistentHash().GetUseSourceIp()
	for _, s := range rule.GetSubsets() {
		if s.GetName() != subset {
			continue
		}
		if lb := s.GetTrafficPolicy().GetLoadBalancer(); lb != nil {
			use = lb.GetConsistentHash().GetUseSourceIp()
		}
		break
	}
	if use {
		m.HashPolicy = []*typev3.HashPolicy{{PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}}}}
	}
}

// tunnel sets a DestinationRule's tunnel.
func tunnel(m *tcpproxyv3.TcpProxy, rule *networking.DestinationRule, subset string) {
	set := rule.GetTrafficPolicy().GetTunnel()
	if subset != "" {
		set = nil
		for _, s := range rule.GetSubsets() {
			if s.GetName() == subset {
				set = s.GetTrafficPolicy().GetTunnel()
				break
			}
		}
	}
	if set != nil {
		m.TunnelingConfig = &tcpproxyv3.TcpProxy_TunnelingConfig{
			Hostname: net.JoinHostPort(set.GetTargetHost(), strconv.FormatUint(uint64(set.GetTargetPort()), 10)),
			UsePost:  set.GetProtocol() == "POST",
		}
	}
}

// protocolFilters are the terminal filters of a chain by its port's protocol
// (FLAG-63).
func (b *Builder) protocolFilters(p *mesh.Proxy, class listenerClass, protocol mesh.Protocol, m *tcpproxyv3.TcpProxy, cluster string) []*listenerv3.Filter {
	m.AccessLog = append(m.AccessLog, b.lookups(p, class).tcpLog...)
	tcp := networkFilter(tcpProxyFilterName, toAny(m))
	switch flags := &b.view.Flags; {
	case protocol == mesh.Mongo && flags.MongoFilter:
		return []*listenerv3.Filter{
			networkFilter("envoy.filters.network.mongo_proxy", toAny(&mongov3.MongoProxy{StatPrefix: m.StatPrefix})), tcp,
		}
	case protocol == mesh.Redis && flags.RedisFilter:
		return []*listenerv3.Filter{networkFilter("envoy.filters.network.redis_proxy", toAny(&redisv3.RedisProxy{
			LatencyInMicros: true,
			StatPrefix:      m.StatPrefix,
			Settings:        &redisv3.RedisProxy_ConnPoolSettings{OpTimeout: &durationpb.Duration{Seconds: 5}},
			PrefixRoutes: &redisv3.RedisProxy_PrefixRoutes{
				CatchAllRoute: &redisv3.RedisProxy_PrefixRoutes_Route{Cluster: cluster},
			},
		}))}
	case protocol == mesh.MySQL && flags.MySQLFilter:
		return []*listenerv3.Filter{networkFilter("envoy.filters.network.mysql_proxy", mysqlProxy(m.StatPrefix)), tcp}
	}
	return []*listenerv3.Filter{tcp}
}

// mysqlProxy is an envoy.extensions.filters.network.mysql_proxy.v3.MySQLProxy:
// its field 1 is the stat prefix. The type is in Envoy's contrib API only.
func mysqlProxy(statPrefix string) *anypb.Any {
	value := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), statPrefix)
	return &anypb.Any{TypeUrl: "type.googleapis.com/envoy.extensions.filters.network.mysql_proxy.v3.MySQLProxy", Value: value}
}

// networkFilters puts what comes before a chain's terminal filters (Istio
// networkfilter.go buildCompleteNetworkFilters).
func (b *Builder) networkFilters(p *mesh.Proxy, class listenerClass, port int, stack []*listenerv3.Filter,
	exchange, authorized bool, service *mesh.Service,
) []*listenerv3.Filter {
	look := b.lookups(p, class)
	policies, also := look.policyFilters, ""
	if service != nil {
		// istiod makes policy filters for a chain with a service of its own, even outbound.
		authorized, also = true, service.Namespace
		policies = b.policyFilters(p, also)
	}
	var out []*listenerv3.Filter
	if exchange && b.view.Flags.MetadataExchange {
		out = append(out, look.exchange.tcp)
	}
	if authorized {
		out = append(out, policies.customTCP...)
	}
	wasm := b.extensionsFor(p, class, port, true, also)
	out = append(out, wasm.network(phaseAuthn)...)
	out = append(out, wasm.network(phaseAuthz)...)
	if authorized {
		out = append(out, policies.rbacTCP...)
	}
	out = append(out, wasm.network(phaseStats)...)
	out = append(out, wasm.network(phaseUnspecified)...)
	out = append(out, look.tcpStats...)
	if class == outboundClass && b.dynamicWildcard(service) {
		out = append(out, sniForwardProxy(dnsCache(service.Host, b.forwardProxyFamily(p)), port))
	}
	return append(out, stack...)
}

// networkExtensions are the WasmPlugins of type NETWORK of a listener, in
// phase order: what stands before a connection manager.
func (b *Builder) networkExtensions(p *mesh.Proxy, class listenerClass, port int) []*listenerv3.Filter {
	wasm := b.extensionsFor(p, class, port, true, "")
	var out []*listenerv3.Filter
	for _, phase := range []extensionPhase{phaseAuthn, phaseAuthz, phaseStats, phaseUnspecified} {
		out = append(out, wasm.network(phase)...)
	}
	return out
}
