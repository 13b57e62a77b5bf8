package xds

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// applyLoadBalancer sets the load balancing of an outbound cluster (SIZE-2;
// Istio cluster_traffic_policy.go applyLoadBalancer).
func (cb *clusterBuilder) applyLoadBalancer(c *cluster, svc *mesh.Service, lb *networking.LoadBalancerSettings, port mesh.Port) {
	if c.LbPolicy == clusterv3.Cluster_CLUSTER_PROVIDED {
		return
	}
	if c.CommonLbConfig.HealthyPanicThreshold == nil && cb.takesUnhealthy(svc) {
		c.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{}
	}
	cb.applyLocality(c, svc, cb.localitySetting(lb, svc))
	if c.GetType() == clusterv3.Cluster_ORIGINAL_DST {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		return
	}
	if cb.view.Flags.RedisFilter && port.Protocol == mesh.Redis {
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		return
	}
	switch lb.GetSimple() {
	case networking.LoadBalancerSettings_RANDOM:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
		if slow := slowStart(lb); slow != nil {
			c.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: slow}}
		}
	case networking.LoadBalancerSettings_PASSTHROUGH:
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		c.LoadAssignment = nil
	default:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if slow := slowStart(lb); slow != nil {
			c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: slow}}
		}
	}
	applyConsistentHash(c.Cluster, lb.GetConsistentHash())
}

func slowStart(lb *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	w := lb.GetWarmup()
	if w == nil {
		if window := lb.GetWarmupDurationSecs(); window != nil {
			return &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: window}
		}
		return nil
	}
	aggression, minimum := 1.0, 10.0
	if w.GetAggression() != nil {
		aggression = w.GetAggression().GetValue()
	}
	if w.GetMinimumPercent() != nil {
		minimum = w.GetMinimumPercent().GetValue()
	}
	return &clusterv3.Cluster_SlowStartConfig{
		SlowStartWindow:  w.GetDuration(),
		Aggression:       &corev3.RuntimeDouble{DefaultValue: aggression, RuntimeKey: "("},
		MinWeightPercent: &typev3.Percent{Value: minimum},
	}
}

func applyConsistentHash(c *clusterv3.Cluster, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if hash == nil {
		return
	}
	ring := func(size uint64) {
		c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{
			MinimumRingSize: wrapperspb.UInt64(size),
		}}
	}
	switch {
	case hash.GetMaglev() != nil:
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		if size := hash.GetMaglev().GetTableSize(); size != 0 {
			c.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(size)}}
		}
	case hash.GetRingHash() != nil:
		c.LbPolicy = clusterv3.Cluster_RING_HASH
		if size := hash.GetRingHash().GetMinimumRingSize(); size != 0 {
			ring(size)
		}
	default:
		c.LbPolicy = clusterv3.Cluster_RING_HASH
		size := hash.GetMinimumRingSize()
		if size == 0 {
			size = 1024
		}
		ring(size)
	}
}
