package mesh

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

// panicGaps notes what makes istiod itself fall over while it computes, so that
// nobody can tell what proxies get. Both were seen with 1.31.
func (v *View) panicGaps(g *gaps) {
	if !v.Version.AtLeast(1, 31, 0) {
		return
	}
	for _, p := range v.Config.GetExtensionProviders() {
		_, lightstep := p.GetProvider().(*meshconfig.MeshConfig_ExtensionProvider_Lightstep)
		if lightstep && slices.Contains(v.Config.GetDefaultProviders().GetTracing(), p.GetName()) {
			g.all("the default tracing provider " + p.GetName() + " is of lightstep, with which istiod 1.31 panics: what proxies get is not known")
		}
	}
	for _, svc := range v.Services {
		if svc.Resolution != DynamicDNS {
			continue
		}
		for _, rule := range v.DestinationRules {
			if HostMatches(rule.Spec.GetHost(), svc.Host) && detectsOutliers(rule.Spec) {
				g.unmodelled(rule.Ref(), "outlier detection for "+svc.Host+", which has resolution DYNAMIC_DNS: "+
					"istiod 1.31 panics (istio/istio#61433), and what proxies get is not known")
			}
		}
	}
}

func detectsOutliers(rule *networking.DestinationRule) bool {
	policies := []*networking.TrafficPolicy{rule.GetTrafficPolicy()}
	for _, subset := range rule.GetSubsets() {
		policies = append(policies, subset.GetTrafficPolicy())
	}
	return slices.ContainsFunc(policies, func(p *networking.TrafficPolicy) bool {
		return p.GetOutlierDetection() != nil || slices.ContainsFunc(p.GetPortLevelSettings(), func(port *networking.TrafficPolicy_PortTrafficPolicy) bool {
			return port.GetOutlierDetection() != nil
		})
	})
}
