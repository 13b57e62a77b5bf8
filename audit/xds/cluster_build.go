package xds

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

const httpProtocolOptionsType = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// cleanupForever is the longest duration that istiod writes, about 292 years.
func cleanupForever() *durationpb.Duration {
	return &durationpb.Duration{Seconds: (math.MaxInt64 - 999999999) / int64(time.Second)}
}

// clusterBuilder makes the clusters of one proxy (or of all that look like it).
type clusterBuilder struct {
	*Builder
	proxy   *mesh.Proxy
	patches *envoyPatches
	context networking.EnvoyFilter_PatchContext
}

// cluster is a cluster being built.
type cluster struct {
	*clusterv3.Cluster
	http *httpv3.HttpProtocolOptions
	dfp  bool // dynamic forward proxy
	// dnsRows are all endpoints of the service port, for failover priorities;
	// set on the default cluster of a service that resolves by DNS only.
	dnsRows []*mesh.Endpoint
}

// direction of a cluster.
type direction uint8

const (
	outbound direction = iota
	inbound
)

// discoveryType is how the proxy finds a service's endpoints (CDS-3, REG-18;
// Istio pilot/pkg/networking/core/cluster.go convertResolution).
func (cb *clusterBuilder) discoveryType(svc *mesh.Service) clusterv3.Cluster_DiscoveryType {
	switch svc.Resolution {
	case mesh.DNSLB:
		if cb.racesFirstConnect(svc) {
			return clusterv3.Cluster_LOGICAL_DNS
		}
		return clusterv3.Cluster_STRICT_DNS
	case mesh.DNSRoundRobinLB:
		return clusterv3.Cluster_LOGICAL_DNS
	case mesh.Passthrough:
		if cb.proxy.Kind == mesh.RouterProxy || svc.Kubernetes && cb.view.Flags.EDSForHeadless {
			return clusterv3.Cluster_EDS
		}
		return clusterv3.Cluster_ORIGINAL_DST
	}
	return clusterv3.Cluster_EDS
}

func (cb *clusterBuilder) racesFirstConnect(svc *mesh.Service) bool {
	return cb.view.Behaviours.DNSConnectStrategy && svc != nil && svc.RaceFirstConnect
}

// base makes the cluster with what does not come from traffic policies; nil
// when a type that carries its endpoints has none (CDS-5; Istio
// cluster_builder.go buildCluster). targets are the services of an inbound
// cluster.
func (cb *clusterBuilder) base(name string, kind clusterv3.Cluster_DiscoveryType, endpoints []*endpointv3.LocalityLbEndpoints,
	dir direction, port mesh.Port, svc *mesh.Service, targets []mesh.ServiceTarget, subset string,
) *cluster {
	c := &cluster{Cluster: &clusterv3.Cluster{
		Name:                 name,
		AltStatName:          name + ";",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind},
		CommonLbConfig:       &clusterv3.Cluster_CommonLbConfig{},
	}}
	switch kind {
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		cb.setResolver(c, svc)
	case clusterv3.Cluster_ORIGINAL_DST:
		if override := passthroughPort(svc, port); override != 0 {
			c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
				UpstreamPortOverride: wrapperspb.UInt32(override),
			}}
		}
	}
	switch kind {
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS, clusterv3.Cluster_STATIC:
		if len(endpoints) == 0 {
			return nil
		}
		c.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: endpoints}
	}
	cb.setProtocol(c, port)
	cb.addServices(c, dir, port, svc, targets)
	if pattern := cb.view.Config.GetOutboundClusterStatName(); dir == outbound && pattern != "" {
		c.AltStatName = clusterStatName(pattern, svc, svc.Host, subset, port, 0) + ";"
	}
	return c
}

// setResolver sets what a cluster needs to look names up (SIZE-8).
func (cb *clusterBuilder) setResolver(c *cluster, svc *mesh.Service) {
	c.DnsLookupFamily = lookupFamily(cb.proxy.IPs, cb.view.Flags.DualStack)
	if cb.view.Behaviours.DNSResolverConfig {
		c.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{
			Name:        "envoy.network.dns_resolver.cares",
			TypedConfig: toAny(&caresv3.CaresDnsResolverConfig{UdpMaxQueries: wrapperspb.UInt32(cb.view.Flags.CaresUDPMaxQueries)}),
		}
	}
	if cb.view.Behaviours.DNSJitter {
		c.DnsJitter = durationpb.New(time.Duration(cb.view.Flags.DNSJitterMillis) * time.Millisecond)
	}
	c.DnsRefreshRate = cb.view.Config.GetDnsRefreshRate()
	c.RespectDnsTtl = true
	if cb.racesFirstConnect(svc) {
		c.DnsLookupFamily = clusterv3.Cluster_ALL
	}
}

// passthroughPort is the targetPort of a NONE ServiceEntry's port; 0: none.
func passthroughPort(svc *mesh.Service, port mesh.Port) uint32 {
	if svc == nil || svc.Entry == nil || svc.Resolution != mesh.Passthrough || port.TargetPort <= 0 {
		return 0
	}
	return uint32(port.TargetPort)
}

// forwardProxyFamily is the address family that a DYNAMIC_DNS cache asks for.
func (b *Builder) forwardProxyFamily(p *mesh.Proxy) clusterv3.Cluster_DnsLookupFamily {
	if !b.view.Behaviours.DynamicDNSFamily {
		return clusterv3.Cluster_V4_ONLY
	}
	return lookupFamily(p.IPs, b.view.Flags.DualStack)
}

// lookupFamily is the address family asked of DNS (Istio
// pilot/pkg/networking/util SelectDNSLookupFamily).
func lookupFamily(ips []string, dualStack bool) clusterv3.Cluster_DnsLookupFamily {
	v4, v6 := 0, 0
	for _, s := range ips {
		if ip, err := netip.ParseAddr(s); err == nil {
			if ip.Unmap().Is4() {
				v4++
			} else {
				v6++
			}
		}
	}
	switch {
	case len(ips) == 0 || v4 == len(ips):
		return clusterv3.Cluster_V4_ONLY
	case v6 == len(ips):
		return clusterv3.Cluster_V6_ONLY
	case dualStack:
		return clusterv3.Cluster_ALL
	}
	return clusterv3.Cluster_V4_ONLY
}

// finish packs the HTTP options into the message.
func (c *cluster) finish() *clusterv3.Cluster {
	if c == nil {
		return nil
	}
	if c.http != nil {
		if c.http.UpstreamProtocolOptions == nil {
			c.http.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
				ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
					ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{},
				},
			}
		}
		c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpProtocolOptionsType: toAny(c.http)}
	}
	return c.Cluster
}

// setEDS points an EDS cluster at istiod.
func (c *cluster) setEDS() {
	if c.GetClusterType() != nil || c.GetType() != clusterv3.Cluster_EDS {
		return
	}
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{
		ServiceName: c.Name,
		EdsConfig: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(0),
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
	}
}

// addExchange adds the TCP metadata exchange filter (SIZE-4).
func (cb *clusterBuilder) addExchange(c *cluster) {
	if !cb.view.Flags.MetadataExchange {
		return
	}
	if cb.memo.exchange == nil {
		cb.memo.exchange = clusterExchangeFilter(cb.view.Flags.MXAdditionalLabels)
	}
	c.Filters = append(c.Filters, cb.memo.exchange)
}

func clusterExchangeFilter(additional string) *clusterv3.Filter {
	fields := map[string]any{"protocol": "istio-peer-exchange", "enable_discovery": true}
	if additional != "" {
		labels := strings.Split(additional, ",")
		slices.Sort(labels)
		var list []any
		for _, l := range slices.Compact(labels) {
			list = append(list, l)
		}
		fields["additional_labels"] = list
	}
	return &clusterv3.Filter{Name: metadataExchange, TypedConfig: typedStruct(metadataExchangeType, fields)}
}

// istioMetadata returns the fields of the metadata "istio", made if need be.
func (c *cluster) istioMetadata() map[string]*structpb.Value {
	if c.Metadata == nil {
		c.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
	}
	m := c.Metadata.FilterMetadata["istio"]
	if m == nil {
		m = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		c.Metadata.FilterMetadata["istio"] = m
	}
	return m.Fields
}

// addServices writes the services that the cluster is for (SIZE-3; Istio
// cluster_builder.go addTelemetryMetadata).
func (cb *clusterBuilder) addServices(c *cluster, dir direction, port mesh.Port, svc *mesh.Service, targets []mesh.ServiceTarget) {
	if !cb.view.Flags.TelemetryLabel || dir == outbound && svc == nil {
		return
	}
	list := &structpb.ListValue{}
	if dir == outbound {
		list.Values = append(list.Values, serviceMetadata(svc))
	} else {
		if len(targets) == 0 || targets[0].Service.External {
			return
		}
		seen := map[string]bool{}
		for _, t := range targets {
			if t.Port.Number == port.Number && !seen[t.Service.Host] {
				seen[t.Service.Host] = true
				list.Values = append(list.Values, serviceMetadata(t.Service))
			}
		}
	}
	c.istioMetadata()["services"] = structpb.NewListValue(list)
}

func serviceMetadata(svc *mesh.Service) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"host":      structpb.NewStringValue(svc.Host),
		"name":      structpb.NewStringValue(svc.Name),
		"namespace": structpb.NewStringValue(svc.Namespace),
	}})
}
