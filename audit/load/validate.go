package load

import (
	"fmt"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	istiovalidation "github.com/mesh-audit/mesh-audit/audit/validation"
)

// validate refuses what the API server and Istio's webhook would refuse, as far
// as the model reads it: such an object cannot be in the cluster that the input
// stands for.
func validate(obj runtime.Object) *problem {
	m, ok := obj.(metav1.Object)
	if !ok {
		return problemf(0, "has no metadata")
	}
	if p := validateMeta(obj, m); p != nil {
		return p
	}
	switch o := obj.(type) {
	case *corev1.Service:
		return validateService(&o.Spec)
	case *discoveryv1.EndpointSlice:
		return validateSlice(o)
	case *corev1.Pod:
		return validatePod(o)
	case *appsv1.Deployment:
		return validateWorkload(o.Spec.Replicas, "replicas", &o.Spec.Template)
	case *appsv1.StatefulSet:
		return validateWorkload(o.Spec.Replicas, "replicas", &o.Spec.Template)
	case *appsv1.ReplicaSet:
		return validateWorkload(o.Spec.Replicas, "replicas", &o.Spec.Template)
	case *appsv1.DaemonSet:
		return validateWorkload(nil, "", &o.Spec.Template)
	case *batchv1.Job:
		return validateWorkload(o.Spec.Parallelism, "parallelism", &o.Spec.Template)
	case *autoscalingv1.HorizontalPodAutoscaler:
		return validateAutoscaler(o.Spec.MinReplicas, o.Spec.MaxReplicas)
	case *autoscalingv2.HorizontalPodAutoscaler:
		return validateAutoscaler(o.Spec.MinReplicas, o.Spec.MaxReplicas)
	}
	if refused := istiovalidation.Object(obj); len(refused) > 0 {
		return problemf(0, "%s", refused[0])
	}
	return nil
}

func validateWorkload(number *int32, field string, t *corev1.PodTemplateSpec) *problem {
	if number != nil && *number < 0 {
		return problemf(0, "spec.%s: %d is negative", field, *number)
	}
	if len(t.Spec.Containers) == 0 {
		return problemf(0, "spec.template.spec.containers is missing")
	}
	for _, k := range sortedKeys(t.Labels) {
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			return problemf(0, "spec.template.metadata.labels: key %q: %s", k, errs[0])
		}
	}
	if p := validatePod(&corev1.Pod{Spec: t.Spec}); p != nil {
		p.text = strings.Replace(p.text, "spec.", "spec.template.spec.", 1)
		return p
	}
	return nil
}

func validateAutoscaler(least *int32, most int32) *problem {
	switch {
	case least != nil && *least < 0:
		return problemf(0, "spec.minReplicas: %d is negative", *least)
	case least != nil && most < *least:
		return problemf(0, "spec.maxReplicas: %d is less than minReplicas, %d", most, *least)
	}
	return nil
}

func validateMeta(obj runtime.Object, m metav1.Object) *problem {
	check := validation.IsDNS1123Subdomain
	switch obj.(type) {
	case *corev1.Namespace:
		check = validation.IsDNS1123Label
	case *corev1.Service:
		check = validation.IsDNS1123Label // Kubernetes before 1.34 also wants a letter first
	}
	if name := m.GetName(); !isPlain(name) {
		if errs := check(name); len(errs) > 0 {
			return problemf(0, "metadata.name %q: %s", name, errs[0])
		}
	}
	if ns := m.GetNamespace(); ns != "" && !isPlain(ns) {
		if errs := validation.IsDNS1123Label(ns); len(errs) > 0 {
			return problemf(0, "metadata.namespace %q: %s", ns, errs[0])
		}
	}
	labels := m.GetLabels()
	if allOf(labels, isPlainLabel) {
		return nil
	}
	for _, k := range sortedKeys(labels) {
		if errs := validation.IsQualifiedName(k); len(errs) > 0 {
			return problemf(0, "metadata.labels: key %q: %s", k, errs[0])
		}
		if errs := validation.IsValidLabelValue(labels[k]); len(errs) > 0 {
			return problemf(0, "metadata.labels.%s: value %q: %s", k, labels[k], errs[0])
		}
	}
	return nil
}

func portRange(port int32, field string) *problem {
	if port < 1 || port > 65535 {
		return problemf(0, "%s: %d is not between 1 and 65535", field, port)
	}
	return nil
}

func protocol(p corev1.Protocol, field string) *problem {
	switch p {
	case "", corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		return nil
	}
	return problemf(0, "%s: %q is none of TCP, UDP, SCTP", field, p)
}

func validateService(s *corev1.ServiceSpec) *problem {
	switch s.Type {
	case "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
	case corev1.ServiceTypeExternalName:
		if s.ExternalName == "" {
			return problemf(0, "spec.externalName is missing")
		}
	default:
		return problemf(0, "spec.type: %q is none of ClusterIP, NodePort, LoadBalancer, ExternalName", s.Type)
	}
	if len(s.Ports) == 0 && s.ClusterIP != corev1.ClusterIPNone && s.Type != corev1.ServiceTypeExternalName {
		return problemf(0, "spec.ports is missing")
	}
	for i, ip := range append([]string{s.ClusterIP}, s.ClusterIPs...) {
		if ip == "" || ip == corev1.ClusterIPNone {
			continue
		}
		if _, err := netip.ParseAddr(ip); err != nil {
			field := "spec.clusterIP"
			if i > 0 {
				field = fmt.Sprintf("spec.clusterIPs[%d]", i-1)
			}
			return problemf(0, "%s: %q is not an IP address", field, ip)
		}
	}
	return validateServicePorts(s.Ports)
}

func validateServicePorts(ports []corev1.ServicePort) *problem {
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	names, numbers := map[string]bool{}, map[number]bool{}
	for i := range ports {
		p := &ports[i]
		field := fmt.Sprintf("spec.ports[%d]", i)
		if e := portRange(p.Port, field+".port"); e != nil {
			return e
		}
		if e := protocol(p.Protocol, field+".protocol"); e != nil {
			return e
		}
		if e := targetPort(p.TargetPort, field+".targetPort"); e != nil {
			return e
		}
		if p.Name == "" && len(ports) > 1 {
			return problemf(0, "%s.name is missing; a service of several ports must name them", field)
		}
		if p.Name != "" {
			if errs := validation.IsDNS1123Label(p.Name); len(errs) > 0 {
				return problemf(0, "%s.name %q: %s", field, p.Name, errs[0])
			}
		}
		n := number{p.Protocol, p.Port}
		if n.protocol == "" {
			n.protocol = corev1.ProtocolTCP
		}
		if names[p.Name] || numbers[n] {
			return problemf(0, "%s: another port has the same name or number", field)
		}
		names[p.Name], numbers[n] = true, true
	}
	return nil
}

func targetPort(p intstr.IntOrString, field string) *problem {
	switch {
	case p.Type == intstr.Int && p.IntVal != 0:
		return portRange(p.IntVal, field)
	case p.Type == intstr.String && p.StrVal != "":
		if errs := validation.IsValidPortName(p.StrVal); len(errs) > 0 {
			return problemf(0, "%s %q: %s", field, p.StrVal, errs[0])
		}
	}
	return nil
}

func validateSlice(s *discoveryv1.EndpointSlice) *problem {
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6, discoveryv1.AddressTypeFQDN:
	default:
		return problemf(0, "addressType: %q is none of IPv4, IPv6, FQDN", s.AddressType)
	}
	for i, p := range s.Ports {
		field := fmt.Sprintf("ports[%d]", i)
		if p.Port != nil {
			if e := portRange(*p.Port, field+".port"); e != nil {
				return e
			}
		}
		if p.Protocol != nil {
			if e := protocol(*p.Protocol, field+".protocol"); e != nil {
				return e
			}
		}
	}
	for i := range s.Endpoints {
		if len(s.Endpoints[i].Addresses) == 0 {
			return problemf(0, "endpoints[%d].addresses is missing", i)
		}
		for j, a := range s.Endpoints[i].Addresses {
			if !addressOf(s.AddressType, a) {
				return problemf(0, "endpoints[%d].addresses[%d]: %q is not an address of type %s", i, j, a, s.AddressType)
			}
		}
	}
	return nil
}

func addressOf(t discoveryv1.AddressType, a string) bool {
	ip, err := netip.ParseAddr(a)
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return err == nil && ip.Is4()
	case discoveryv1.AddressTypeIPv6:
		return err == nil && ip.Is6()
	default:
		return err != nil && len(validation.IsDNS1123Subdomain(strings.TrimSuffix(a, "."))) == 0
	}
}

func validatePod(o *corev1.Pod) *problem {
	if len(o.Spec.Containers) == 0 {
		return problemf(0, "spec.containers is missing")
	}
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"spec.containers", o.Spec.Containers}, {"spec.initContainers", o.Spec.InitContainers}} {
		for i := range list.containers {
			c := &list.containers[i]
			if c.Name == "" {
				return problemf(0, "%s[%d].name is missing", list.field, i)
			}
			for j, p := range c.Ports {
				field := fmt.Sprintf("%s[%d].ports[%d]", list.field, i, j)
				if e := portRange(p.ContainerPort, field+".containerPort"); e != nil {
					return e
				}
				if e := protocol(p.Protocol, field+".protocol"); e != nil {
					return e
				}
			}
		}
	}
	for _, ip := range o.Status.PodIPs {
		if _, err := netip.ParseAddr(ip.IP); err != nil {
			return problemf(0, "status.podIPs: %q is not an IP address", ip.IP)
		}
	}
	if o.Status.PodIP != "" {
		if _, err := netip.ParseAddr(o.Status.PodIP); err != nil {
			return problemf(0, "status.podIP: %q is not an IP address", o.Status.PodIP)
		}
	}
	return nil
}
