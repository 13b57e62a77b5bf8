package xds

import (
	"net"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	dfpcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

const dynamicForwardProxyType = "envoy.clusters.dynamic_forward_proxy"

// otherClusters are the clusters of a scope that belong to no service: the
// fixed ones (CDS-8, CDS-10), a router's SNI-DNAT ones and those that
// EnvoyFilters add. Of several with one name istiod keeps the first.
func (cb *clusterBuilder) otherClusters(s *scope.Scope, shape proxyShape) []*result.Resource {
	shape.dynamicDNS = cb.proxy.Kind == mesh.SidecarProxy &&
		int32(s.OutboundPolicy.GetMode()) == int32(meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS)
	if shape.dynamicDNS && cb.proxy.Metadata.DNSCapture {
		shape.dnsCapture, shape.dnsProxyAddress = true, cb.proxy.Metadata.Raw["DNS_PROXY_ADDR"]
	}
	fixed, ok := cb.memo.fixed[shape]
	if !ok {
		fixed = cb.buildFixed(shape)
		cb.memo.fixed[shape] = fixed
	}
	out := fixed.first
	if cb.proxy.Kind == mesh.RouterProxy {
		if merged := cb.scoper.MergedGateway(cb.proxy); merged != nil && merged.AutoPassthrough {
			for _, svc := range s.Visible {
				out = append(out, cb.serviceClusters(s, svc, shape, true)...)
			}
		}
	}
	return uniqueNames(append(out[:len(out):len(out)], fixed.last...))
}

// uniqueNames keeps the first resource of each name.
func uniqueNames(in []*result.Resource) []*result.Resource {
	seen := make(map[string]bool, len(in))
	var out []*result.Resource
	for _, r := range in {
		if !seen[r.Name] {
			seen[r.Name] = true
			out = append(out, r)
		}
	}
	return out
}

// fixedClusters are those before and after a router's SNI-DNAT clusters.
type fixedClusters struct{ first, last []*result.Resource }

func (cb *clusterBuilder) buildFixed(shape proxyShape) fixedClusters {
	var out fixedClusters
	add := func(to *[]*result.Resource, context networking.EnvoyFilter_PatchContext, reason result.Reason, c *clusterv3.Cluster) {
		patcher := *cb
		patcher.context = context
		patched := patcher.clusterPatches(c, nil)
		if c = patcher.patch(c, nil); c != nil {
			r := cb.ownResource(c, reason)
			r.Because = append(r.Because, patched...)
			*to = append(*to, r)
		}
	}
	always := result.Reason{Rule: "CDS-8", Text: "every sidecar has it"}
	if cb.proxy.Kind == mesh.RouterProxy {
		always = result.Reason{Rule: "CDS-10", Text: "every gateway has it"}
	}
	add(&out.first, cb.context, always, cb.blackHole())
	if cb.proxy.Kind == mesh.SidecarProxy {
		add(&out.first, cb.context, always, cb.passthrough())
		if shape.dynamicDNS {
			add(&out.first, cb.context, result.Reason{Rule: "CDS-8", Field: "outboundTrafficPolicy.mode",
				Text: "outbound traffic policy ALLOW_ANY_DYNAMIC_DNS"}, cb.allowAnyDynamicDNS())
		}
	}
	out.last = append(out.last, cb.inserted(cb.context)...)
	if cb.proxy.Kind == mesh.SidecarProxy {
		add(&out.last, networking.EnvoyFilter_SIDECAR_INBOUND, always, cb.inboundPassthrough())
	}
	if shape.credential {
		out.last = append(out.last, cb.ownResource(cb.externalSDS(), result.Reason{Rule: "CDS-9",
			Text: "the proxy's agent serves a credential socket"}))
	}
	return out
}

// ownResource is the resource of a cluster that belongs to no service.
func (cb *clusterBuilder) ownResource(c *clusterv3.Cluster, reason result.Reason) *result.Resource {
	r, eds := clusterResource(c, "", nil)
	r.Digest, r.Parts[0].TLS = cb.digests.of(c), cb.digests.clusterTLS(c)
	r.Because = []result.ReasonID{cb.rec.Included(reason)}
	if eds != "" {
		cb.memo.edsNames[&r] = eds
	}
	return &r
}

func (cb *clusterBuilder) connectTimeout() *durationpb.Duration {
	return cb.view.Config.GetConnectTimeout()
}

// blackHole takes traffic that no route is for.
func (cb *clusterBuilder) blackHole() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: blackHoleCluster, AltStatName: blackHoleCluster + ";",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       cb.connectTimeout(),
		LbPolicy:             clusterv3.Cluster_ROUND_ROBIN,
	}
}

// passthrough sends traffic to where the client sent it (SIZE-9).
func (cb *clusterBuilder) passthrough() *clusterv3.Cluster {
	c := &cluster{Cluster: &clusterv3.Cluster{
		Name: passthroughCluster, AltStatName: passthroughCluster + ";",
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:                      clusterv3.Cluster_CLUSTER_PROVIDED,
		TypedExtensionProtocolOptions: cb.passthroughOptions(),
	}}
	pool := cb.meshPolicy().GetConnectionPool()
	if pool == nil {
		pool = &networking.ConnectionPoolSettings{}
	}
	cb.applyPool(c, pool, nil)
	cb.addExchange(c)
	return c.Cluster // HTTP options of the pool are not packed: istiod leaves them out too
}

func (cb *clusterBuilder) passthroughOptions() map[string]*anypb.Any {
	http1 := &corev3.Http1ProtocolOptions{}
	if cb.preservesCase() {
		http1 = preserveCase()
	}
	return map[string]*anypb.Any{httpProtocolOptionsType: toAny(&httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(5 * time.Minute)},
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions:  http1,
				Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
			},
		},
	})}
}

func (cb *clusterBuilder) inboundPassthrough() *clusterv3.Cluster {
	c := cb.passthrough()
	c.Name = inboundPassthroughCluster
	c.Filters = nil
	source := passthroughSource4
	if !cb.proxy.IPv4 {
		source = passthroughSource6
	}
	c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: anyPort(source)}
	if cb.proxy.IPv4 && cb.proxy.IPv6 {
		c.UpstreamBindConfig.ExtraSourceAddresses = []*corev3.ExtraSourceAddress{{Address: anyPort(passthroughSource6)}}
	}
	return c
}

// Source addresses that keep a proxy's own traffic from coming back to it.
const (
	passthroughSource4 = "127.0.0.6"
	passthroughSource6 = "::6"
)

func anyPort(address string) *corev3.SocketAddress {
	return &corev3.SocketAddress{Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{}}
}

// allowAnyDynamicDNS resolves the names of unknown destinations.
func (cb *clusterBuilder) allowAnyDynamicDNS() *clusterv3.Cluster {
	tls := cb.view.Config.GetOutboundTrafficPolicy().GetTls()
	plain := tls == nil || tls.GetMode() == networking.ClientTLSSettings_DISABLE
	c := &cluster{dfp: true, Cluster: &clusterv3.Cluster{
		Name: allowAnyDynamicDNSCluster, AltStatName: allowAnyDynamicDNSCluster + ";",
		LbPolicy: clusterv3.Cluster_CLUSTER_PROVIDED,
		ClusterDiscoveryType: dynamicForwardProxy(&dfpclusterv3.ClusterConfig{
			ClusterImplementationSpecifier: &dfpclusterv3.ClusterConfig_DnsCacheConfig{
				DnsCacheConfig: cb.allowAnyDNSCache(cb.proxy),
			},
			AllowInsecureClusterOptions: plain,
		}),
		TypedExtensionProtocolOptions: cb.passthroughOptions(),
	}}
	cb.applyPool(c, &networking.ConnectionPoolSettings{}, nil)
	if !plain {
		if context, ok := cb.tlsContext(c, &policyOptions{direction: outbound}, tls); ok && context != nil {
			c.TransportSocket = tlsSocket(context)
		}
	}
	cb.addExchange(c)
	return c.finish()
}

func dynamicForwardProxy(config proto.Message) *clusterv3.Cluster_ClusterType {
	return &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: dynamicForwardProxyType, TypedConfig: toAny(config),
	}}
}

// allowAnyDNSCache is the DNS cache of ALLOW_ANY_DYNAMIC_DNS, which the
// cluster and its HTTP filter share (Istio networkfilter.go).
func (b *Builder) allowAnyDNSCache(p *mesh.Proxy) *dfpcommonv3.DnsCacheConfig {
	config := &dfpcommonv3.DnsCacheConfig{
		Name:            "allow_any_dfp_dns_cache",
		MaxHosts:        wrapperspb.UInt32(b.view.Flags.AllowAnyDynamicDNSMaxHosts),
		DnsLookupFamily: lookupFamily(p.IPs, b.view.Flags.DualStack),
	}
	if !p.Metadata.DNSCapture {
		return config
	}
	host, port, err := net.SplitHostPort(p.Metadata.Raw["DNS_PROXY_ADDR"])
	if err != nil {
		host, port = "127.0.0.1", "15053"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	number, err := strconv.ParseUint(port, 10, 32)
	if err != nil {
		number = 15053
	}
	config.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{
		Name: "envoy.network.dns_resolver.cares",
		TypedConfig: toAny(&caresv3.CaresDnsResolverConfig{Resolvers: []*corev3.Address{{
			Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(number)},
			}},
		}}}),
	}
	return config
}

// dynamicForwardClusters is the one cluster of a port of a wildcard
// DYNAMIC_DNS host; none for protocols that cannot carry a name (CDS-4).
func (cb *clusterBuilder) dynamicForwardClusters(svc *mesh.Service, port mesh.Port, rule *scope.DestinationRule) []*clusterv3.Cluster {
	name := outboundName(port.Number, "", svc.Host)
	if !cb.view.Behaviours.DynamicDNSClusters {
		cb.rec.Excluded(name, result.Reason{Rule: "CDS-4", Object: svc.Ref, Field: "spec.resolution",
			Text: "this version makes no cluster for DYNAMIC_DNS"})
		return nil
	}
	switch port.Protocol {
	case mesh.HTTP, mesh.TLS, mesh.GRPC, mesh.HTTP2:
	default:
		cb.rec.Excluded(name, result.Reason{Rule: "CDS-4", Object: svc.Ref, Field: "spec.ports",
			Text: "DYNAMIC_DNS has clusters for protocols HTTP, HTTP2, GRPC and TLS only"})
		return nil
	}
	c := &cluster{dfp: true, Cluster: &clusterv3.Cluster{
		Name: name, AltStatName: name + ";",
		LbPolicy: clusterv3.Cluster_CLUSTER_PROVIDED,
		ClusterDiscoveryType: dynamicForwardProxy(&dfpclusterv3.ClusterConfig{
			ClusterImplementationSpecifier: &dfpclusterv3.ClusterConfig_DnsCacheConfig{
				DnsCacheConfig: &dfpcommonv3.DnsCacheConfig{
					Name:            svc.Host + "_dfp_dns_cache",
					DnsLookupFamily: cb.forwardProxyFamily(cb.proxy),
				},
			},
		}),
	}}
	cb.setProtocol(c, port)
	return cb.applyRule(c, svc, port, rule, nil, false)
}

// externalSDS is the SDS server behind the credential socket.
func (cb *clusterBuilder) externalSDS() *clusterv3.Cluster {
	options := &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
		},
	}}
	return &clusterv3.Cluster{
		Name: externalSDSCluster, AltStatName: externalSDSCluster + ";",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:       cb.connectTimeout(),
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: externalSDSCluster,
			Endpoints:   inlineEndpoint(pipeAddress("./var/run/secrets/credential-uds/socket")),
		},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{httpProtocolOptionsType: toAny(options)},
	}
}

func pipeAddress(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// inlineEndpoint is one endpoint without locality.
func inlineEndpoint(address *corev3.Address) []*endpointv3.LocalityLbEndpoints {
	return []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
		HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address}},
	}}}}
}
