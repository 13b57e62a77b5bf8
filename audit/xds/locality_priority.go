package xds

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// zoneBucket: 0 the proxy's region, 1 the region to fail over to, 2 any other.
func zoneBucket(here, there *corev3.Locality, failover []*networking.ZoneAwareLoadBalancerSetting_Failover) int {
	if here.GetRegion() == there.GetRegion() {
		return 0
	}
	for _, f := range failover {
		if f.GetFrom() == here.GetRegion() {
			if there.GetRegion() == f.GetTo() {
				return 1
			}
			break
		}
	}
	return 2
}

// failoverBucket: 0 same subzone, 1 same zone, 2 same region, 3 another
// region, 4 another region than the one to fail over to.
func failoverBucket(here, there *corev3.Locality, failover []*networking.LocalityLoadBalancerSetting_Failover) int {
	if here.GetRegion() == there.GetRegion() {
		switch {
		case here.GetZone() != there.GetZone():
			return 2
		case here.GetSubZone() != there.GetSubZone():
			return 1
		}
		return 0
	}
	for _, f := range failover {
		if f.GetFrom() == here.GetRegion() {
			if there.GetRegion() != f.GetTo() {
				return 4
			}
			break
		}
	}
	return 3
}

// applyBuckets refines priorities by a bucket below buckets, then numbers them
// from 0 without holes.
func applyBuckets(a *endpointv3.ClusterLoadAssignment, buckets int, bucket func(*corev3.Locality) int) {
	for _, group := range a.Endpoints {
		group.Priority = uint32(int(group.Priority)*buckets + bucket(group.GetLocality()))
	}
	compactPriorities(a.Endpoints)
}

func compactPriorities(groups []*endpointv3.LocalityLbEndpoints) {
	used := map[uint32]uint32{}
	for _, g := range groups {
		used[g.Priority] = 0
	}
	for i, priority := range slices.Sorted(maps.Keys(used)) {
		used[priority] = uint32(i)
	}
	for _, g := range groups {
		g.Priority = used[g.Priority]
	}
}

// priorityLabels are the labels that a proxy's endpoints are ranked by.
type priorityLabels struct {
	proxy        mesh.Labels
	labels       []string
	networkFirst bool // see localitySetting
}

// applyPriorityLabels splits each locality by how many of the labels, from the
// first on, its endpoints share with the proxy.
func applyPriorityLabels(a *endpointv3.ClusterLoadAssignment, groups []localityGroup, by priorityLabels) {
	if by.proxy.Empty() || len(groups) == 0 {
		return
	}
	var out []*endpointv3.LocalityLbEndpoints
	for _, g := range groups {
		out = append(out, by.split(g)...)
	}
	compactPriorities(out)
	a.Endpoints = out
}

func (by priorityLabels) split(g localityGroup) []*endpointv3.LocalityLbEndpoints {
	byPriority := map[int]*endpointv3.LocalityLbEndpoints{}
	for i, row := range g.rows {
		priority := by.priority(row.Labels)
		part := byPriority[priority]
		if part == nil {
			part = &endpointv3.LocalityLbEndpoints{
				Locality: g.Locality, Priority: uint32(priority), Proximity: g.Proximity, LoadBalancingWeight: wrapperspb.UInt32(0),
			}
			byPriority[priority] = part
		}
		part.LbEndpoints = append(part.LbEndpoints, g.LbEndpoints[i])
		part.LoadBalancingWeight.Value += g.LbEndpoints[i].GetLoadBalancingWeight().GetValue()
	}
	var out []*endpointv3.LocalityLbEndpoints
	for _, priority := range slices.Sorted(maps.Keys(byPriority)) {
		out = append(out, byPriority[priority])
	}
	return out
}

// priority is 0 if the endpoint shares all labels; a label may carry the
// value to compare with ("name=value"). A leading network label that differs
// puts the endpoint behind all of the proxy's own network.
func (by priorityLabels) priority(endpoint mesh.Labels) int {
	labels := by.labels
	names, values := make([]string, len(labels)), map[string]string{}
	for i, l := range labels {
		parts := strings.Split(l, "=")
		names[i] = parts[0]
		if len(parts) == 2 {
			values[parts[0]] = parts[1]
		}
	}
	adjust := 0
	for i, name := range names {
		want, ok := values[name]
		if !ok {
			want = by.proxy.Get(name)
		}
		if want == endpoint.Get(name) {
			continue
		}
		if i == 0 && by.networkFirst && labels[0] == networkLabel {
			adjust = len(labels)
			continue
		}
		return len(labels) - i + adjust
	}
	return adjust
}
