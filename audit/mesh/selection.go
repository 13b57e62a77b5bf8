package mesh

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// selection says which namespaces istiod sees (REG-30, FLAG-30).
type selection struct {
	watch string          // ISTIO_WATCH_NAMESPACE; empty: all
	all   bool            // no discoverySelectors
	names map[string]bool // selected by a selector
}

func (v *View) selectNamespaces(snap *snapshot.Snapshot, gaps *gaps) {
	v.Namespaces = make(map[string]*snapshot.Namespace, len(snap.Namespaces))
	v.selected = selection{watch: v.Flags.WatchNamespace, names: map[string]bool{}}
	selectors := v.discoverySelectors(gaps)
	v.selected.all = len(selectors) == 0
	for i := range snap.Namespaces {
		ns := &snap.Namespaces[i]
		v.Namespaces[ns.Name] = ns
		for _, selector := range selectors {
			if selector.Matches(klabels.Set(ns.Labels)) {
				v.selected.names[ns.Name] = true
				break
			}
		}
	}
	v.Nodes = make(map[string]*snapshot.Node, len(snap.Nodes))
	for i := range snap.Nodes {
		v.Nodes[snap.Nodes[i].Name] = &snap.Nodes[i]
	}
}

func (v *View) discoverySelectors(gaps *gaps) []klabels.Selector {
	var out []klabels.Selector
	for _, written := range v.Config.GetDiscoverySelectors() {
		selector, err := labelSelector(written)
		if err != nil {
			gaps.all("mesh config's discoverySelectors: " + err.Error() + ": all namespaces are taken, as istiod does")
			return nil
		}
		out = append(out, selector)
	}
	return out
}

// labelSelector makes a Kubernetes selector of a mesh config's one; nil matches
// nothing, an empty one everything (Istio pkg/config/mesh/labelselector).
func labelSelector(written *meshconfig.LabelSelector) (klabels.Selector, error) {
	if written == nil {
		return klabels.Nothing(), nil
	}
	out := &metav1.LabelSelector{MatchLabels: written.GetMatchLabels()}
	for _, expression := range written.GetMatchExpressions() {
		out.MatchExpressions = append(out.MatchExpressions, metav1.LabelSelectorRequirement{
			Key:      expression.GetKey(),
			Operator: metav1.LabelSelectorOperator(expression.GetOperator()),
			Values:   expression.GetValues(),
		})
	}
	return metav1.LabelSelectorAsSelector(out)
}

// Selected reports that istiod sees objects of a namespace (REG-30); "" stands
// for cluster-scoped ones.
func (v *View) Selected(namespace string) bool {
	if namespace == "" {
		return true
	}
	if v.selected.watch != "" && v.selected.watch != namespace {
		return false
	}
	return v.selected.all || v.selected.names[namespace]
}
