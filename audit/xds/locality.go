package xds

import (
	"math"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

const (
	networkLabel = "topology.istio.io/network"
	regionLabel  = "topology.kubernetes.io/region"
	zoneLabel    = "topology.kubernetes.io/zone"
	subzoneLabel = "topology.istio.io/subzone"
	nodeLabel    = "kubernetes.io/hostname"
)

// localitySetting is the effective locality setting of a cluster: at most one
// of locality and zone is set (EDS-8; Istio
// pilot/pkg/networking/core/loadbalancer GetEffectiveLbSetting). The zero
// setting: none.
type localitySetting struct {
	locality *networking.LocalityLoadBalancerSetting
	zone     *networking.ZoneAwareLoadBalancerSetting
	forced   bool // failover without outlier detection: traffic distribution
	// networkFirst: a leading network label puts other networks behind the proxy's own.
	networkFirst bool
}

func (b *Builder) localitySetting(lb *networking.LoadBalancerSettings, svc *mesh.Service) localitySetting {
	s := b.writtenLocality(lb, svc)
	s.networkFirst = b.view.Behaviours.NetworkFailover
	return s
}

// writtenLocality resolves DestinationRule, then traffic distribution, then mesh config.
func (b *Builder) writtenLocality(lb *networking.LoadBalancerSettings, svc *mesh.Service) localitySetting {
	if z := lb.GetZoneAwareLbSetting(); z != nil && b.view.Behaviours.ZoneAwareLB {
		return localitySetting{zone: z}
	}
	if l := lb.GetLocalityLbSetting(); l != nil {
		return enabledLocality(l)
	}
	if svc != nil && svc.TrafficDistribution != "" {
		priority := []string{networkLabel, regionLabel, zoneLabel}
		if svc.TrafficDistribution == "PreferSameNode" {
			priority = append(priority, subzoneLabel, nodeLabel)
		}
		return localitySetting{forced: true, locality: &networking.LocalityLoadBalancerSetting{FailoverPriority: priority}}
	}
	if z := b.view.Config.GetZoneAwareLbSetting(); z != nil && b.view.Behaviours.ZoneAwareLB {
		return localitySetting{zone: z}
	}
	return enabledLocality(b.view.Config.GetLocalityLbSetting())
}

func enabledLocality(l *networking.LocalityLoadBalancerSetting) localitySetting {
	if l.GetEnabled() != nil && !l.GetEnabled().GetValue() {
		return localitySetting{}
	}
	return localitySetting{locality: l}
}

func zoneRouting(z *networking.ZoneAwareLoadBalancerSetting) bool {
	return z.GetEnabled() == nil || z.GetEnabled().GetValue()
}

// dependsOnProxy reports that load assignments under the setting differ with
// the proxy's locality or labels; outlier says whether outlier detection is on.
func (s localitySetting) dependsOnProxy(outlier bool) bool {
	switch {
	case s.zone != nil:
		return zoneRouting(s.zone)
	case s.locality.GetDistribute() != nil:
		return true
	}
	return s.locality != nil && (outlier || s.forced)
}

// priorityLabels are the labels that failover compares; nil if none.
func (s localitySetting) priorityLabels() []string {
	if s.zone != nil {
		if !zoneRouting(s.zone) {
			return nil
		}
		return s.zone.GetFailoverPriority()
	}
	if s.locality.GetDistribute() != nil {
		return nil
	}
	return s.locality.GetFailoverPriority()
}

// applyLocality sets the cluster's locality config, and the priorities of the
// endpoints that it carries.
func (cb *clusterBuilder) applyLocality(c *cluster, svc *mesh.Service, s localitySetting) {
	if s.zone != nil {
		zone := &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{}
		if n := s.zone.GetMinClusterSize(); n != nil {
			zone.MinClusterSize = wrapperspb.UInt64(uint64(n.GetValue()))
		}
		if !zoneRouting(s.zone) {
			zone.RoutingEnabled = &typev3.Percent{}
		}
		c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{ZoneAwareLbConfig: zone}
	} else {
		failover := s.forced || c.OutlierDetection != nil
		if cb.view.Flags.LocalityWeightedLB || s.locality.GetDistribute() != nil ||
			failover && (s.locality.GetFailover() != nil || s.locality.GetFailoverPriority() != nil) {
			c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
				LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
			}
		}
	}
	if c.LoadAssignment == nil {
		return
	}
	var groups []localityGroup
	if cb.view.Behaviours.DNSFailoverPriority && len(c.dnsRows) > 0 && len(c.LoadAssignment.Endpoints) > 0 {
		groups = []localityGroup{{LocalityLbEndpoints: c.LoadAssignment.Endpoints[0], rows: c.dnsRows}}
		if len(c.LoadAssignment.Endpoints[0].LbEndpoints) < len(c.dnsRows) && s.ranks(cb.proxy, c.OutlierDetection != nil) {
			cb.istiodPanics(svc)
			return
		}
	}
	s.apply(c.LoadAssignment, groups, cb.proxy, c.OutlierDetection != nil)
}

// ranks reports whether a proxy's endpoints are ranked by failoverPriority.
func (s localitySetting) ranks(p *mesh.Proxy, outlier bool) bool {
	return s.dependsOnProxy(outlier) && len(s.priorityLabels()) > 0 && !p.Labels.Empty()
}

// istiodPanics notes that istiod falls over when it ranks the endpoints of a
// service that resolves by DNS and has them in more than one locality: it counts
// on one (Istio 1.31 cluster.go buildOutboundClusters, loadbalancer.go
// applyFailoverPriorityPerLocality; digest PANIC-1).
func (b *Builder) istiodPanics(svc *mesh.Service) {
	gap := result.Gap{Kind: result.Unmodelled, Object: svc.Ref, All: true, Text: "failoverPriority for " + svc.Host +
		", which resolves by DNS and has endpoints in several localities: istiod from 1.30 on panics, and what proxies get is not known"}
	if !slices.ContainsFunc(b.gaps, func(g result.Gap) bool { return g.Object == gap.Object && g.Text == gap.Text }) {
		b.gaps = append(b.gaps, gap)
	}
}

// localityGroup is the endpoints of one locality with the rows behind them.
type localityGroup struct {
	*endpointv3.LocalityLbEndpoints
	rows []*mesh.Endpoint
}

// apply sets priorities and weights of a load assignment for a proxy. groups
// are those of the assignment; for DNS clusters the first one only, or none.
func (s localitySetting) apply(a *endpointv3.ClusterLoadAssignment, groups []localityGroup, p *mesh.Proxy, outlier bool) {
	here := localityOf(p.Locality)
	switch {
	case s.zone != nil:
		if !zoneRouting(s.zone) {
			return
		}
		if priority := s.zone.GetFailoverPriority(); len(priority) > 0 {
			applyPriorityLabels(a, groups, priorityLabels{p.Labels, priority, s.networkFirst})
		}
		applyBuckets(a, 3, func(l *corev3.Locality) int { return zoneBucket(here, l, s.zone.GetFailover()) })
	case s.locality.GetDistribute() != nil:
		applyDistribute(a, here, s.locality.GetDistribute())
	case s.locality != nil && (outlier || s.forced):
		priority := s.locality.GetFailoverPriority()
		if len(priority) > 0 {
			applyPriorityLabels(a, groups, priorityLabels{p.Labels, priority, s.networkFirst})
		}
		if len(priority) == 0 || len(s.locality.GetFailover()) > 0 {
			applyBuckets(a, 5, func(l *corev3.Locality) int { return failoverBucket(here, l, s.locality.GetFailover()) })
		}
	}
}

// applyDistribute sets the weights that a distribute setting gives to
// localities and empties those it does not name.
func applyDistribute(a *endpointv3.ClusterLoadAssignment, here *corev3.Locality, distribute []*networking.LocalityLoadBalancerSetting_Distribute) {
	for _, d := range distribute {
		if d == nil || !localityMatches(here, d.GetFrom()) {
			continue
		}
		left := map[int]bool{}
		for i := range a.Endpoints {
			left[i] = true
		}
		for _, to := range sortedKeys(d.GetTo()) {
			distributeTo(a, left, to, d.GetTo()[to])
		}
		for i, g := range a.Endpoints {
			if left[i] {
				g.LbEndpoints = nil
			}
		}
		return
	}
}

func distributeTo(a *endpointv3.ClusterLoadAssignment, left map[int]bool, to string, weight uint32) {
	var matched []int
	var total uint32
	for i, g := range a.Endpoints {
		if left[i] && localityMatches(g.GetLocality(), to) {
			delete(left, i)
			matched = append(matched, i)
			total += weightOf(g)
		}
	}
	for _, i := range matched {
		if share := float64(weightOf(a.Endpoints[i])*weight) / float64(total); share > 0 {
			a.Endpoints[i].LoadBalancingWeight = wrapperspb.UInt32(uint32(math.Ceil(share)))
		}
	}
}

func weightOf(g *endpointv3.LocalityLbEndpoints) uint32 {
	if g.LoadBalancingWeight == nil {
		return 1
	}
	return g.LoadBalancingWeight.Value
}

// localityOf reads "region/zone/subzone".
func localityOf(s string) *corev3.Locality {
	if s == "" {
		return &corev3.Locality{}
	}
	parts := strings.Split(s, "/")
	out := &corev3.Locality{Region: parts[0]}
	if len(parts) > 1 {
		out.Zone = parts[1]
	}
	if len(parts) > 2 {
		out.SubZone = parts[2]
	}
	return out
}

// localityMatches tests a locality against a rule such as "region/*".
func localityMatches(l *corev3.Locality, rule string) bool {
	r := localityOf(rule)
	return (r.Region == "*" || l.GetRegion() == r.Region) &&
		(r.Zone == "*" || r.Zone == "" || l.GetZone() == r.Zone) &&
		(r.SubZone == "*" || r.SubZone == "" || l.GetSubZone() == r.SubZone)
}
