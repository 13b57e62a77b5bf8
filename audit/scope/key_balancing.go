package scope

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// indexBalancing notes what load balancing looks at of a proxy: its locality
// where endpoints are put in order by it, and the labels that
// failoverPriority names (EDS-8; Istio loadbalancer.go). DestinationRules'
// workloadSelectors count as well.
func (x *keyIndex) indexBalancing(view *mesh.View) {
	labels := map[string]bool{}
	note := func(setting *networking.LocalityLoadBalancerSetting) {
		for _, name := range setting.GetFailoverPriority() {
			name, _, _ = strings.Cut(name, "=")
			labels[name] = true
		}
	}
	global := view.Config.GetLocalityLbSetting()
	note(global)
	x.locality = len(global.GetDistribute()) > 0 || view.Config.GetDefaultTrafficPolicy() != nil || view.Config.GetZoneAwareLbSetting() != nil
	for _, cfg := range view.DestinationRules {
		if selected := cfg.Spec.GetWorkloadSelector().GetMatchLabels(); len(selected) > 0 {
			x.byNamespace[cfg.Namespace] = append(x.byNamespace[cfg.Namespace], selected)
		}
		for _, policy := range policiesOf(cfg.Spec) {
			note(policy.GetLoadBalancer().GetLocalityLbSetting())
			x.locality = x.locality || policy.GetOutlierDetection() != nil || policy.GetLoadBalancer().GetLocalityLbSetting() != nil
		}
	}
	x.priorities = slices.Sorted(maps.Keys(labels))
}

// balancingPolicy is a traffic policy, of a port or of all.
type balancingPolicy interface {
	GetLoadBalancer() *networking.LoadBalancerSettings
	GetOutlierDetection() *networking.OutlierDetection
}

// policiesOf are all traffic policies of a rule: its own, its subsets', and those of ports.
func policiesOf(rule *networking.DestinationRule) []balancingPolicy {
	var out []balancingPolicy
	add := func(policy *networking.TrafficPolicy) {
		if policy == nil {
			return
		}
		out = append(out, policy)
		for _, port := range policy.GetPortLevelSettings() {
			out = append(out, port)
		}
	}
	add(rule.GetTrafficPolicy())
	for _, subset := range rule.GetSubsets() {
		add(subset.GetTrafficPolicy())
	}
	return out
}
