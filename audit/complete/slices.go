package complete

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// endpointSlices makes those of each Service with a selector that has none:
// one for each set of resolved target ports, as the endpoint slice controller
// groups them.
func (c *completion) endpointSlices() {
	c.mirrorEndpoints()
	sortItems(c.podItems)
	pods := indexPods(c.podItems, c.selectorKeys(nil))
	for _, s := range c.services {
		spec := &s.obj.Spec
		if len(spec.Selector) == 0 || spec.Type == corev1.ServiceTypeExternalName || c.sliced[target{"Service", s.obj.Namespace, s.obj.Name}] {
			continue
		}
		if c.around.Sliced != nil && c.around.Sliced(s.obj.Namespace, s.obj.Name) {
			continue
		}
		for i, slice := range slicesOf(s.obj, pods.candidates(s.obj.Namespace, spec.Selector)) {
			slice.Name = fmt.Sprintf("%s-%05d", s.obj.Name, i)
			c.add(slice, s.source)
			c.madeSlices++
		}
	}
}

// slicesOf makes a service's slices of those of the pods that it selects.
func slicesOf(svc *corev1.Service, pods []*corev1.Pod) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	byPorts := map[string]*discoveryv1.EndpointSlice{}
	for _, pod := range pods {
		if pod.Status.PodIP == "" || !selects(svc.Spec.Selector, pod.Labels) ||
			pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		ports := slicePorts(svc, pod)
		key := fmt.Sprint(len(ports))
		for _, port := range ports {
			key += fmt.Sprintf(" %s=%d/%s", *port.Name, *port.Port, *port.Protocol)
		}
		slice := byPorts[key]
		if slice == nil {
			slice = &discoveryv1.EndpointSlice{
				TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
				ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Labels: map[string]string{
					discoveryv1.LabelServiceName: svc.Name,
					discoveryv1.LabelManagedBy:   "endpointslice-controller.k8s.io",
				}},
				AddressType: discoveryv1.AddressTypeIPv4,
				Ports:       ports,
			}
			byPorts[key] = slice
			out = append(out, slice)
		}
		slice.Endpoints = append(slice.Endpoints, endpoint(svc, pod))
	}
	return out
}

func endpoint(svc *corev1.Service, pod *corev1.Pod) discoveryv1.Endpoint {
	ready := slices.ContainsFunc(pod.Status.Conditions, func(k corev1.PodCondition) bool {
		return k.Type == corev1.PodReady && k.Status == corev1.ConditionTrue
	})
	terminating := pod.DeletionTimestamp != nil
	shown := svc.Spec.PublishNotReadyAddresses || ready && !terminating
	e := discoveryv1.Endpoint{
		Addresses:  []string{pod.Status.PodIP},
		Conditions: discoveryv1.EndpointConditions{Ready: new(shown), Serving: new(ready), Terminating: new(terminating)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}
	if pod.Spec.NodeName != "" {
		e.NodeName = new(pod.Spec.NodeName)
	}
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain == svc.Name {
		e.Hostname = new(pod.Spec.Hostname)
	}
	return e
}

func slicePorts(svc *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, p := range svc.Spec.Ports {
		number := p.TargetPort.IntVal
		if p.TargetPort.Type == intstr.String {
			number = namedPort(pod, p.TargetPort.StrVal, p.Protocol)
			if number == 0 {
				continue
			}
		}
		protocol := corev1.Protocol(cmp.Or(string(p.Protocol), "TCP"))
		out = append(out, discoveryv1.EndpointPort{
			Name: new(p.Name), Protocol: new(protocol), Port: new(number), AppProtocol: p.AppProtocol,
		})
	}
	return out
}

func namedPort(pod *corev1.Pod, name string, protocol corev1.Protocol) int32 {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, k := range containers {
			for _, p := range k.Ports {
				if p.Name == name && cmp.Or(p.Protocol, corev1.ProtocolTCP) == cmp.Or(protocol, corev1.ProtocolTCP) {
					return p.ContainerPort
				}
			}
		}
	}
	return 0
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}
