package snapshot

import (
	"slices"
	"strings"
)

const (
	ingressKind        = "Ingress.networking.k8s.io"
	ingressClassKey    = "kubernetes.io/ingress.class"
	istioIngress       = "istio"
	istioIngressServer = "istio.io/ingress-controller"
)

// ingressFilter finds the Ingresses that istiod may serve: those of no class,
// of class "istio", or of a class whose controller is Istio's
// (pilot/pkg/config/kube/ingress, shouldProcessIngress).
type ingressFilter struct {
	ingresses []Meta
	class     []*string         // spec.ingressClassName of each
	classes   map[string]string // IngressClass → controller
}

func (f *ingressFilter) addIngress(m Meta, class *string) {
	f.ingresses = append(f.ingresses, m)
	f.class = append(f.class, class)
}

func (f *ingressFilter) addClass(name, controller string) {
	if f.classes == nil {
		f.classes = map[string]string{}
	}
	f.classes[name] = controller
}

func (f *ingressFilter) absorb(other *ingressFilter) {
	f.ingresses = append(f.ingresses, other.ingresses...)
	f.class = append(f.class, other.class...)
	for name, controller := range other.classes {
		f.addClass(name, controller)
	}
}

func (f *ingressFilter) istio() []Meta {
	var out []Meta
	for i, m := range f.ingresses {
		if f.served(m.Annotations, f.class[i]) {
			out = append(out, m)
		}
	}
	return out
}

func (f *ingressFilter) served(annotations map[string]string, class *string) bool {
	if a, ok := annotations[ingressClassKey]; ok {
		return a == istioIngress
	}
	if class == nil {
		return true
	}
	controller, known := f.classes[*class]
	if !known {
		return *class == istioIngress
	}
	return controller == istioIngressServer
}

// effective drops the objects that change nothing on their own: istiod itself
// creates a GatewayClass in every cluster that has the kind, and a
// ReferenceGrant only matters to a route or gateway.
func effective(list []Meta) []Meta {
	const group = ".gateway.networking.k8s.io"
	passive := func(m Meta) bool {
		return m.Kind == "GatewayClass"+group || m.Kind == "ReferenceGrant"+group
	}
	active := slices.ContainsFunc(list, func(m Meta) bool {
		return strings.HasSuffix(m.Kind, group) && !passive(m)
	})
	if active {
		return list
	}
	return slices.DeleteFunc(list, passive)
}
