package mesh

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
	klabels "k8s.io/apimachinery/pkg/labels"
)

// Visibility is what meshConfig.serviceEntryVisibility says of a ServiceEntry (VIS-4).
type Visibility uint8

// The visibilities.
const (
	Public Visibility = iota
	NamespaceOnly
	Hidden
)

// visibilityMatcher finds a ServiceEntry's visibility by its namespace's labels
// (Istio pilot/pkg/model/serviceentry_visibility.go).
type visibilityMatcher struct {
	fallback Visibility
	policies []visibilityPolicy
}

type visibilityPolicy struct {
	visibility Visibility
	rules      []klabels.Selector // all must match
}

func newVisibilityMatcher(v *View) visibilityMatcher {
	written := v.Config.GetServiceEntryVisibility()
	if written == nil || !v.Behaviours.ServiceEntryVisibility {
		return visibilityMatcher{}
	}
	m := visibilityMatcher{fallback: visibilityOf(written.GetDefaultVisibility())}
	for _, policy := range written.GetPolicies() {
		p := visibilityPolicy{visibility: visibilityOf(policy.GetVisibility())}
		for _, rule := range policy.GetMatchingRules() {
			selector, err := labelSelector(rule.GetNamespaceSelector())
			if err != nil {
				selector = klabels.Nothing()
			}
			p.rules = append(p.rules, selector)
		}
		m.policies = append(m.policies, p)
	}
	return m
}

func visibilityOf(written meshconfig.ServiceEntryVisibility_Visibility) Visibility {
	switch written {
	case meshconfig.ServiceEntryVisibility_NAMESPACE:
		return NamespaceOnly
	case meshconfig.ServiceEntryVisibility_NONE:
		return Hidden
	}
	return Public
}

func (m visibilityMatcher) of(namespaceLabels map[string]string) Visibility {
	for _, policy := range m.policies {
		matches := func(s klabels.Selector) bool { return s.Matches(klabels.Set(namespaceLabels)) }
		if !slices.ContainsFunc(policy.rules, func(s klabels.Selector) bool { return !matches(s) }) {
			return policy.visibility
		}
	}
	return m.fallback
}

// EffectiveExportTo is a service's exportTo after the mesh default and
// serviceEntryVisibility: "*", "~", "." and namespace names (VIS-1, VIS-4; Istio
// pilot/pkg/model/push_context.go serviceExportTo). Never empty.
func (v *View) EffectiveExportTo(s *Service) []string {
	exportTo := s.ExportTo
	if len(exportTo) == 0 {
		exportTo = v.defaultExportTo(v.Config.GetDefaultServiceExportTo())
	}
	if len(exportTo) == 1 && exportTo[0] == "~" || !v.Config.GetServiceEntryVisibility().GetApplyToSidecars() {
		return exportTo
	}
	switch s.Visibility {
	case NamespaceOnly:
		if slices.Contains(exportTo, "*") || slices.Contains(exportTo, ".") || slices.Contains(exportTo, s.Namespace) {
			return []string{"."}
		}
		return []string{"~"}
	case Hidden:
		return []string{"~"}
	}
	return exportTo
}

// defaultExportTo is a mesh config's default list as the version takes it: an
// older istiod knows only "." (asked first) and "*" of it, and with neither
// shows the object to nobody (VIS-1).
func (v *View) defaultExportTo(written []string) []string {
	if len(written) == 0 {
		return []string{"*"}
	}
	if v.Behaviours.DefaultExportToNames {
		return written
	}
	for _, known := range []string{".", "*"} {
		if slices.Contains(written, known) {
			return []string{known}
		}
	}
	return []string{"~"}
}
