package mesh

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOwner(t *testing.T) {
	all := []Istiod{{Revision: "default"}, {Revision: "canary"}}
	tags := map[string]string{"prod": "canary"}
	for name, c := range map[string]struct {
		annotations, labels, ns map[string]string
		want                    string
	}{
		"nothing":    {want: "default"},
		"annotation": {annotations: map[string]string{"istio.io/rev": "canary"}, want: "canary"},
		"status":     {annotations: map[string]string{"sidecar.istio.io/status": `{"revision":"canary"}`}, want: "canary"},
		"tag":        {labels: map[string]string{"istio.io/rev": "prod"}, want: "canary"},
		"namespace":  {ns: map[string]string{"istio.io/rev": "canary"}, want: "canary"},
		"unknown":    {labels: map[string]string{"istio.io/rev": "gone"}, want: "default"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: c.annotations, Labels: c.labels}}
		if got := owner(pod, c.ns, all, tags); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
