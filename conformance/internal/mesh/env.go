package mesh

import (
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ContainerEnv is the environment of a container as far as the pod tells it:
// plain values and references to fields of the pod; references to ConfigMaps
// and Secrets are left out.
func ContainerEnv(pod *corev1.Pod, c *corev1.Container) []corev1.EnvVar {
	var out []corev1.EnvVar
	known := map[string]string{}
	for _, e := range c.Env {
		value, ok := envValue(pod, c, e, known)
		if !ok {
			continue
		}
		known[e.Name] = value
		out = append(out, corev1.EnvVar{Name: e.Name, Value: value})
	}
	return out
}

// envValue is the value of one variable.
func envValue(pod *corev1.Pod, c *corev1.Container, e corev1.EnvVar, known map[string]string) (string, bool) {
	switch {
	case e.ValueFrom == nil:
		return Expand(e.Value, known), true
	case e.ValueFrom.FieldRef != nil:
		return field(pod, e.ValueFrom.FieldRef.FieldPath)
	case e.ValueFrom.ResourceFieldRef != nil:
		return limit(c, e.ValueFrom.ResourceFieldRef)
	}
	return "", false
}

var reference = regexp.MustCompile(`\$\$|\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)`)

// Expand replaces $(NAME) by known values, as Kubernetes does.
func Expand(text string, known map[string]string) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		if v, ok := known[ref[2:len(ref)-1]]; ok {
			return v
		}
		return ref
	})
}

var keyed = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.*)'\]$`)

// field is a field of the pod that the downward API gives.
func field(pod *corev1.Pod, path string) (string, bool) {
	if m := keyed.FindStringSubmatch(path); m != nil {
		if m[1] == "labels" {
			return pod.Labels[m[2]], true
		}
		return pod.Annotations[m[2]], true
	}
	switch path {
	case "metadata.name":
		return pod.Name, true
	case "metadata.namespace":
		return pod.Namespace, true
	case "metadata.uid":
		return string(pod.UID), true
	case "spec.nodeName":
		return pod.Spec.NodeName, true
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, true
	case "status.podIP":
		return pod.Status.PodIP, true
	case "status.podIPs":
		return strings.Join(PodIPs(pod), ","), true
	case "status.hostIP":
		return pod.Status.HostIP, true
	}
	return "", false
}

// PodIPs lists the pod's addresses, the main one first.
func PodIPs(pod *corev1.Pod) []string {
	var out []string
	if pod.Status.PodIP != "" {
		out = append(out, pod.Status.PodIP)
	}
	for _, ip := range pod.Status.PodIPs {
		if ip.IP != "" && !contains(out, ip.IP) {
			out = append(out, ip.IP)
		}
	}
	return out
}

// limit is a resource limit of the container, rounded up to the divisor.
func limit(c *corev1.Container, ref *corev1.ResourceFieldSelector) (string, bool) {
	name, isLimit := strings.CutPrefix(ref.Resource, "limits.")
	if !isLimit {
		return "", false
	}
	q, ok := c.Resources.Limits[corev1.ResourceName(name)]
	if !ok {
		return "", false
	}
	divisor := ref.Divisor.AsApproximateFloat64()
	if divisor == 0 {
		divisor = 1
	}
	n := int64(q.AsApproximateFloat64() / divisor)
	if float64(n)*divisor < q.AsApproximateFloat64() {
		n++
	}
	return strconv.FormatInt(n, 10), true
}
