package xds

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// clusterMemo keeps what was built for one view, so that each distinct shape
// is built once and scopes share the resources (SIZE-29, SIZE-30).
type clusterMemo struct {
	exchange  *clusterv3.Filter
	accounts  map[mesh.HostNamespace][]string
	clusters  map[clusterKey]*clusterSet
	resources map[resourceKey][]*result.Resource
	fixed     map[proxyShape]fixedClusters
	// edsNames holds the EDS service name of clusters where it is not the
	// cluster's name.
	edsNames    map[*result.Resource]string
	assignments map[assignmentResourceKey]*result.Resource
	metadata    map[endpointMetadataKey]*corev3.Metadata
	gateways    *networkGateways
	local       *clusterLocalHosts
}

func newClusterMemo() *clusterMemo {
	return &clusterMemo{
		accounts:    map[mesh.HostNamespace][]string{},
		clusters:    map[clusterKey]*clusterSet{},
		resources:   map[resourceKey][]*result.Resource{},
		fixed:       map[proxyShape]fixedClusters{},
		edsNames:    map[*result.Resource]string{},
		assignments: map[assignmentResourceKey]*result.Resource{},
		metadata:    map[endpointMetadataKey]*corev3.Metadata{},
	}
}

// proxyShape is all of a proxy that any cluster of it depends on, whatever the
// service (SIZE-32).
type proxyShape struct {
	kind         mesh.ProxyKind
	patches      *envoyPatches
	preserveCase bool
	certificates clientCertificates
	credential   bool
	files        bool
	families     clusterv3.Cluster_DnsLookupFamily
	v4, v6       bool
	// dynamicDNS is set on proxies in ALLOW_ANY_DYNAMIC_DNS mode, whose fixed
	// clusters depend on DNS capture.
	dynamicDNS      bool
	dnsCapture      bool
	dnsProxyAddress string
}

// place is where a proxy is, as far as endpoints depend on it.
type place struct {
	network, cluster, locality, node, view string
	kind                                   mesh.ProxyKind
	v4, v6                                 bool
	labels                                 string // values of the failover labels
}

// clusterKey is what decides the clusters of one service port.
type clusterKey struct {
	proxyShape
	service *mesh.Service
	port    mesh.Port
	rule    *networking.DestinationRule
	from    string // the DestinationRule that the metadata names
	sniDNAT bool
	at      place // zero unless the clusters carry endpoints
}

// clusterSet is the clusters of one service port: the default one first.
type clusterSet struct {
	resources []result.Resource // without reasons
	edsNames  []string          // per resource; "": its name, or no EDS cluster
	// patched are, per resource, the reasons for what EnvoyFilters change.
	patched [][]result.ReasonID
}

// resourceKey tells the resources of a set with their reasons.
type resourceKey struct {
	set           *clusterSet
	service, rule result.ReasonID
	hasRule       bool
}

// assignmentResourceKey tells the resources of load assignments with their reasons.
type assignmentResourceKey struct {
	assignmentKey
	host    string // empty: the scope has no such service
	because result.ReasonID
}

// withReasons gives the set's resources with the reasons of a scope.
func (m *clusterMemo) withReasons(set *clusterSet, key resourceKey) []*result.Resource {
	key.set = set
	if known, ok := m.resources[key]; ok {
		return known
	}
	out := make([]*result.Resource, len(set.resources))
	for i := range set.resources {
		r := set.resources[i]
		r.Because = []result.ReasonID{key.service}
		if key.hasRule {
			r.Because = append(r.Because, key.rule)
		}
		r.Because = append(r.Because, set.patched[i]...)
		out[i] = &r
		if name := set.edsNames[i]; name != "" {
			m.edsNames[&r] = name
		}
	}
	m.resources[key] = out
	return out
}

func (b *Builder) shapeOf(p *mesh.Proxy, patches *envoyPatches) proxyShape {
	cb := &clusterBuilder{Builder: b, proxy: p}
	return proxyShape{
		kind: p.Kind, patches: patches, preserveCase: cb.preservesCase(), certificates: cb.certificates(),
		credential: p.Metadata.Raw[metadataCredentialSocket] == "true",
		files:      p.Metadata.Raw[metadataFileSocket] == "true",
		families:   lookupFamily(p.IPs, b.view.Flags.DualStack),
		v4:         p.IPv4, v6: p.IPv6,
	}
}
