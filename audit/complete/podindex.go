package complete

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podIndex finds the pods that a selector selects without a look at all pods
// of the mesh for each.
type podIndex struct {
	byNamespace map[string][]*corev1.Pod
	byLabel     map[labelOf][]*corev1.Pod
	owned       map[target]bool // workloads that own a pod
}

// labelOf is a label of a pod in a namespace.
type labelOf struct{ namespace, key, value string }

// indexPods indexes pods by owner and by the labels that selectors name.
func indexPods(pods []item[*corev1.Pod], selected map[string]bool) *podIndex {
	x := &podIndex{byNamespace: map[string][]*corev1.Pod{}, byLabel: map[labelOf][]*corev1.Pod{}, owned: map[target]bool{}}
	for _, p := range pods {
		x.byNamespace[p.obj.Namespace] = append(x.byNamespace[p.obj.Namespace], p.obj)
		for key, value := range p.obj.Labels {
			if selected[key] {
				l := labelOf{p.obj.Namespace, key, value}
				x.byLabel[l] = append(x.byLabel[l], p.obj)
			}
		}
		for _, owner := range p.obj.OwnerReferences {
			x.owned[target{owner.Kind, p.obj.Namespace, owner.Name}] = true
		}
	}
	return x
}

// candidates are pods of the namespace, in order, that hold all that have the
// labels: those of the label that the fewest have.
func (x *podIndex) candidates(namespace string, labels map[string]string) []*corev1.Pod {
	out, found := x.byNamespace[namespace], false
	for key, value := range labels {
		have := x.byLabel[labelOf{namespace, key, value}]
		if !found || len(have) < len(out) {
			out, found = have, true
		}
	}
	return out
}

// selectorKeys are the label names that the selectors of Services and
// workloads look at by value.
func (c *completion) selectorKeys(templates []template) map[string]bool {
	keys := map[string]bool{}
	for _, s := range c.services {
		for key := range s.obj.Spec.Selector {
			keys[key] = true
		}
	}
	for i := range templates {
		for key := range matchLabels(templates[i].selector) {
			keys[key] = true
		}
	}
	return keys
}

func matchLabels(s *metav1.LabelSelector) map[string]string {
	if s == nil {
		return nil
	}
	return s.MatchLabels
}
