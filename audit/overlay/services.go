package overlay

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// services decides whose endpoints are made anew: of Services that select other
// pods than before or select pods that came, went or changed.
func (l *laying) services() {
	own := map[Key]bool{} // Services with endpoints in the files
	for _, o := range l.files.Objects {
		switch s := o.Obj.(type) {
		case *discoveryv1.EndpointSlice:
			own[Key{"Service", s.Namespace, s.Labels[discoveryv1.LabelServiceName]}] = true
		case *corev1.Endpoints:
			own[Key{"Service", s.Namespace, s.Name}] = true
		}
	}
	moved := map[string][]map[string]string{}
	for _, p := range l.moved {
		moved[p.namespace] = append(moved[p.namespace], p.labels)
	}
	decide := func(k Key, now *corev1.ServiceSpec, before *corev1.ServiceSpec) {
		if own[k] || len(now.Selector) == 0 && (before == nil || len(before.Selector) == 0) {
			return
		}
		if before == nil || !sameBackends(before, now) ||
			slices.ContainsFunc(moved[k.Namespace], func(labels map[string]string) bool { return selects(now.Selector, labels) }) {
			l.remade[k] = true
			l.dropSlices(k)
		}
	}
	before := map[Key]*corev1.ServiceSpec{}
	for i := range l.base.Services {
		s := &l.base.Services[i]
		k := metaKey(&s.Meta)
		switch {
		case l.given[k]:
			before[k] = s.Spec
		case !l.isGone(&s.Meta) && len(s.Spec.Selector) > 0:
			decide(k, s.Spec, s.Spec)
		}
	}
	for _, o := range l.files.Objects {
		if s, ok := o.Obj.(*corev1.Service); ok {
			decide(keyOf(o), &s.Spec, before[keyOf(o)])
		}
	}
}

// sliced reports whether a Service has endpoints that stay.
func (l *laying) sliced(namespace, name string) bool {
	k := Key{"Service", namespace, name}
	return !l.remade[k] && l.find(k) != nil
}

// sameBackends: both Services get the same endpoints of the same pods.
func sameBackends(a, b *corev1.ServiceSpec) bool {
	ports := func(s *corev1.ServiceSpec) []corev1.ServicePort {
		list := slices.Clone(s.Ports)
		for i := range list {
			list[i].NodePort = 0
		}
		return list
	}
	external := func(s *corev1.ServiceSpec) bool { return s.Type == corev1.ServiceTypeExternalName }
	return external(a) == external(b) && a.PublishNotReadyAddresses == b.PublishNotReadyAddresses &&
		reflect.DeepEqual(a.Selector, b.Selector) && reflect.DeepEqual(ports(a), ports(b))
}

func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return len(selector) > 0
}

// dropSlices takes away the endpoints of a Service that follow its pods; of a
// Service that is gone all.
func (l *laying) dropSlices(service Key) {
	first, _ := slices.BinarySearchFunc(l.base.Slices, service.Namespace, func(s snapshot.EndpointSlice, ns string) int {
		return compare(Key{Namespace: s.Namespace, Name: s.Name}, Key{Namespace: ns})
	})
	for i := first; i < len(l.base.Slices) && l.base.Slices[i].Namespace == service.Namespace; i++ {
		if s := &l.base.Slices[i]; s.Service == service.Name && (l.gone[service] || ofPods(s)) {
			l.gone[metaKey(&s.Meta)] = true
		}
	}
}

func ofPods(s *snapshot.EndpointSlice) bool {
	if s.Labels[discoveryv1.LabelManagedBy] == "endpointslice-controller.k8s.io" {
		return true
	}
	return !slices.ContainsFunc(s.Endpoints, func(e snapshot.SliceEndpoint) bool { return e.TargetKind != "Pod" })
}
