package mesh

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"
	"istio.io/api/label"
)

// owner is the revision of the istiod that a pod's proxy connects to, as
// told by what injection wrote into the pod, else by the labels that choose
// the injector, else the first istiod.
func owner(pod *corev1.Pod, ns map[string]string, all []Istiod, tags map[string]string) string {
	named := []string{
		pod.Annotations[label.IoIstioRev.Name],
		injectedRevision(pod),
		pod.Labels[label.IoIstioRev.Name],
		ns[label.IoIstioRev.Name],
	}
	if ns["istio-injection"] == "enabled" {
		named = append(named, defaultRevision)
	}
	for _, name := range named {
		if name == "" {
			continue
		}
		if d, ok := find(all, name, tags); ok {
			return d.Revision
		}
	}
	return all[0].Revision
}

// injectedRevision is the revision that the sidecar's status annotation
// names.
func injectedRevision(pod *corev1.Pod) string {
	var status struct {
		Revision string `json:"revision"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations[annotation.SidecarStatus.Name]), &status)
	return status.Revision
}

// find looks up a control plane by its revision or a tag of it.
func find(all []Istiod, name string, tags map[string]string) (Istiod, bool) {
	for _, want := range []string{name, tags[name]} {
		for _, d := range all {
			if want != "" && (d.Revision == want || want == defaultRevision && d.isDefault()) {
				return d, true
			}
		}
	}
	return Istiod{}, false
}
