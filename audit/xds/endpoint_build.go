package xds

import (
	"math"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// onlyMTLS keeps the endpoints that take Istio mTLS: an SNI-DNAT cluster
// passes TLS through (EDS-10). Groups stay, even empty.
func onlyMTLS(groups []localityGroup) []localityGroup {
	out := make([]localityGroup, 0, len(groups))
	for _, g := range groups {
		kept := localityGroup{LocalityLbEndpoints: &endpointv3.LocalityLbEndpoints{Locality: g.Locality, Priority: g.Priority}}
		for i, ep := range g.LbEndpoints {
			if hasMTLS(ep) {
				kept.add(g.rows[i], ep)
			}
		}
		kept.setWeight()
		out = append(out, kept)
	}
	return out
}

func (g *localityGroup) add(row *mesh.Endpoint, ep *endpointv3.LbEndpoint) {
	g.rows = append(g.rows, row)
	g.LbEndpoints = append(g.LbEndpoints, ep)
}

// gateways are the network gateways that the cluster's endpoints may go through.
func (e *endpointSource) gateways() gatewaySet { return e.gatewaysOf(e.service) }

func (b *Builder) gatewaysOf(svc *mesh.Service) gatewaySet {
	if resolvesByDNS(svc) {
		return b.networkGateways().unresolved
	}
	return b.networkGateways().resolved
}

// throughGateways puts the gateways of other networks in the place of their
// endpoints (EDS-9; Istio pilot/pkg/xds/endpoints/ep_filters.go).
func (e *endpointSource) throughGateways(groups []localityGroup) []localityGroup {
	all := e.gateways()
	if !all.enabled() {
		return groups
	}
	out := make([]localityGroup, 0, len(groups))
	for _, g := range groups {
		kept := localityGroup{LocalityLbEndpoints: &endpointv3.LocalityLbEndpoints{Locality: g.Locality, Priority: g.Priority}}
		remote := map[networkGateway]uint32{}
		for i, ep := range g.LbEndpoints {
			row := g.rows[i]
			weight := scaled(ep.GetLoadBalancingWeight().GetValue(), all.scale)
			ep.LoadBalancingWeight = wrapperspb.UInt32(weight)
			gateways := all.into(row.Network, row.Cluster)
			if e.proxy.Kind == mesh.SidecarProxy && e.view.Behaviours.NetworkGatewayPorts {
				gateways = slices.DeleteFunc(slices.Clone(gateways), func(g networkGateway) bool { return g.port == 0 })
			}
			forced := e.view.Behaviours.NetworkGatewayReach && e.proxy.Network == "" && row.Network != "" && len(gateways) > 0
			if !forced && (sameOrEmpty(e.proxy.Network, row.Network) || len(gateways) == 0) {
				if row.Address != "" && row.Port != 0 {
					kept.add(row, ep)
				}
				continue
			}
			reachable := e.reachable(gateways)
			if len(reachable) == 0 || !hasMTLS(ep) {
				continue
			}
			for _, gw := range reachable {
				remote[gw] += weight / uint32(len(reachable))
			}
		}
		e.addGateways(&kept, remote)
		kept.setWeight()
		out = append(out, kept)
	}
	return out
}

func (e *endpointSource) addGateways(to *localityGroup, weights map[networkGateway]uint32) {
	var gateways []networkGateway
	for gw := range weights {
		gateways = append(gateways, gw)
	}
	slices.SortFunc(gateways, compareGateways)
	for _, gw := range gateways {
		meta := &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			"envoy.transport_socket_match": {Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue("istio")}},
		}}
		if e.view.Flags.TelemetryLabel && e.view.Flags.EndpointTelemetryLabel {
			meta.FilterMetadata["istio"] = workloadMetadata(";;;;" + gw.cluster)
		}
		row := &mesh.Endpoint{Backend: &mesh.Backend{Network: gw.network, Cluster: gw.cluster, Labels: mesh.LabelsOf(map[string]string{
			networkLabel: gw.network, "topology.istio.io/cluster": gw.cluster,
		})}}
		to.add(row, &endpointv3.LbEndpoint{
			HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: socketAddress(gw.address, int(gw.port))}},
			LoadBalancingWeight: wrapperspb.UInt32(max(weights[gw], 1)),
			Metadata:            meta,
		})
	}
}

// reachable are the gateways of the proxy's address families.
func (e *endpointSource) reachable(gateways []networkGateway) []networkGateway {
	if e.proxy.IPv4 == e.proxy.IPv6 || !e.view.Behaviours.NetworkGatewayReach {
		return gateways
	}
	var out []networkGateway
	for _, gw := range gateways {
		if ip, err := netip.ParseAddr(gw.address); err == nil && ip.Unmap().Is4() == e.proxy.IPv4 {
			out = append(out, gw)
		}
	}
	return out
}

func scaled(weight, factor uint32) uint32 {
	if weight == 0 {
		return factor
	}
	return uint32(min(uint64(weight)*uint64(factor), math.MaxUint32))
}

// placeFor is what of the proxy's place matters to the endpoints of a service
// under a rule, whatever the port and subset.
func (cb *clusterBuilder) placeFor(svc *mesh.Service, rule *networking.DestinationRule) place {
	p := cb.proxy
	var at place
	if cb.gatewaysOf(svc).enabled() {
		at.network, at.v4, at.v6, at.kind = p.Network, p.IPv4, p.IPv6, p.Kind
	}
	at.view = strings.Join(p.Metadata.NetworkView, ",")
	if svc.NodeLocal {
		at.node = p.Node
	}
	if svc.NodeLocal || cb.clusterLocal(svc) {
		at.cluster = p.Cluster
	}
	for _, s := range cb.localitySettings(svc, rule) {
		at.locality = p.Locality
		for _, name := range s.priorityLabels() {
			at.labels += name + ":" + p.Labels.Get(name) + " "
		}
	}
	return at
}

// localitySettings are the settings of a service's clusters that look at the
// proxy, over all policies of the rule.
func (cb *clusterBuilder) localitySettings(svc *mesh.Service, rule *networking.DestinationRule) []localitySetting {
	policies := []*networking.TrafficPolicy{rule.GetTrafficPolicy()}
	for _, s := range rule.GetSubsets() {
		policies = append(policies, s.GetTrafficPolicy())
	}
	meshOutlier := cb.meshPolicy().GetOutlierDetection() != nil && resolvesByDNS(svc)
	lbs := []*networking.LoadBalancerSettings{nil}
	outlier := meshOutlier
	for _, p := range policies {
		lbs = append(lbs, p.GetLoadBalancer())
		outlier = outlier || p.GetOutlierDetection() != nil
		for _, s := range p.GetPortLevelSettings() {
			lbs = append(lbs, s.GetLoadBalancer())
			outlier = outlier || s.GetOutlierDetection() != nil
		}
	}
	var out []localitySetting
	for _, lb := range lbs {
		if s := cb.localitySetting(lb, svc); s.dependsOnProxy(outlier) {
			out = append(out, s)
		}
	}
	return out
}
