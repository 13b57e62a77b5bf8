package complete

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// Pair completes two versions of one mesh with the same made-up addresses for
// the same objects, whichever of the two is the first.
func Pair(a, b *load.Result, forA, forB Options) {
	assigned := NewAssigned()
	inA, inB := needy(a), needy(b)
	if !maps.Equal(inA, inB) {
		both := &load.Result{}
		for _, o := range a.Objects {
			both.Objects = append(both.Objects, load.Object{Obj: o.Obj.DeepCopyObject(), Source: o.Source})
		}
		all := map[target]bool{}
		for _, o := range a.Objects {
			all[targetOf(o)] = true
		}
		for _, o := range b.Objects {
			if !all[targetOf(o)] {
				both.Objects = append(both.Objects, load.Object{Obj: o.Obj.DeepCopyObject(), Source: o.Source})
			}
		}
		Apply(both, Options{Overrides: forB.Overrides, Assigned: assigned})
	}
	forA.Assigned, forB.Assigned = assigned, assigned
	Apply(a, forA)
	Apply(b, forB)
}

func targetOf(o load.Object) target {
	t := target{kind: o.Obj.GetObjectKind().GroupVersionKind().Kind}
	if m, ok := o.Obj.(metav1.Object); ok {
		t.namespace, t.name = m.GetNamespace(), m.GetName()
	}
	return t
}

// needy lists the objects that addresses may be made up for.
func needy(r *load.Result) map[target]bool {
	out := map[target]bool{}
	for _, o := range r.Objects {
		switch o.Obj.(type) {
		case *corev1.Service, *networkingv1.ServiceEntry, *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *appsv1.ReplicaSet, *batchv1.Job:
			out[targetOf(o)] = true
		}
	}
	return out
}
