package load

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// slim drops of a running Pod, of which there may be a million, what neither
// completion nor a snapshot reads. What completion would start is left whole.
func slim(obj runtime.Object) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Status.Phase == "" {
		return
	}
	spec, status := &pod.Spec, &pod.Status
	proxy, _ := snapshot.FindProxyContainer(spec)
	kept := corev1.PodSpec{
		NodeName: spec.NodeName, ServiceAccountName: spec.ServiceAccountName, DeprecatedServiceAccount: spec.DeprecatedServiceAccount,
		HostNetwork: spec.HostNetwork, Hostname: spec.Hostname, Subdomain: spec.Subdomain,
		Containers: slimContainers(spec.Containers, proxy), InitContainers: slimContainers(spec.InitContainers, proxy),
	}
	conditions := slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type != corev1.PodReady })
	*spec, *status = kept, corev1.PodStatus{Phase: status.Phase, PodIP: status.PodIP, PodIPs: status.PodIPs, Conditions: conditions}
}

func slimContainers(list []corev1.Container, proxy *corev1.Container) []corev1.Container {
	out := list[:0]
	for i := range list {
		c := &list[i]
		kept := corev1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		if c == proxy {
			kept.Args, kept.Env = c.Args, c.Env
		}
		out = append(out, kept)
	}
	return out
}
