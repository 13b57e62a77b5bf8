package scope

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// clamps is meshConfig.serviceEntryVisibility, its selectors compiled (VIS-4).
type clamps struct {
	fallback meshconfig.ServiceEntryVisibility_Visibility
	policies []clamp
}

type clamp struct {
	visibility meshconfig.ServiceEntryVisibility_Visibility
	selectors  []labels.Selector // all must match; a nil one never does
}

func compileClamps(config *meshconfig.ServiceEntryVisibility) *clamps {
	c := &clamps{fallback: config.GetDefaultVisibility()}
	for _, policy := range config.GetPolicies() {
		p := clamp{visibility: policy.GetVisibility()}
		for _, rule := range policy.GetMatchingRules() {
			p.selectors = append(p.selectors, compileSelector(rule.GetNamespaceSelector()))
		}
		c.policies = append(c.policies, p)
	}
	return c
}

// compileSelector returns nil for a selector that is missing or cannot be used.
func compileSelector(in *meshconfig.LabelSelector) labels.Selector {
	if in == nil {
		return nil
	}
	selector := &metav1.LabelSelector{MatchLabels: in.GetMatchLabels()}
	for _, e := range in.GetMatchExpressions() {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: e.GetKey(), Operator: metav1.LabelSelectorOperator(e.GetOperator()), Values: e.GetValues(),
		})
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	return compiled
}

// of is the visibility of the ServiceEntries of a namespace with the labels.
func (c *clamps) of(nsLabels map[string]string) meshconfig.ServiceEntryVisibility_Visibility {
	for _, p := range c.policies {
		if !slices.ContainsFunc(p.selectors, func(s labels.Selector) bool { return s == nil || !s.Matches(labels.Set(nsLabels)) }) {
			return p.visibility
		}
	}
	return c.fallback
}
