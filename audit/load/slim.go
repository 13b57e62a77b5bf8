package load

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// decodeRunning fills a Pod that runs, of which there may be a million, with no
// more than what is read of it. It reports false for any other Pod, which
// completion would start and needs all of, and where anything is wrong.
func decodeRunning(it *item, pod *corev1.Pod) bool {
	raw, p := it.json(runningPod)
	if p != nil {
		return false
	}
	strict, err := kjson.UnmarshalStrict(raw, pod)
	if err != nil || len(strict) > 0 || pod.Status.Phase == "" {
		*pod = corev1.Pod{}
		return false
	}
	proxy, _ := snapshot.FindProxyContainer(&pod.Spec)
	pod.Spec.Containers = slim(pod.Spec.Containers, proxy)
	pod.Spec.InitContainers = slim(pod.Spec.InitContainers, proxy)
	pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type != corev1.PodReady })
	return true
}

// slim is the containers in no more memory than they need: arguments and
// variables are read of the proxy only.
func slim(list []corev1.Container, proxy *corev1.Container) []corev1.Container {
	for i := range list {
		if c := &list[i]; c != proxy {
			c.Args, c.Env = nil, nil
		}
	}
	return slices.Clone(list)
}
