package overlay

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// workloads decides which pods of the files' workloads stay. Where the template
// is the one of base its pods do, as far as the number of replicas goes; where
// it changed all are predicted anew, with the addresses of those that go.
func (l *laying) workloads() {
	minimum := autoscaled(l.files.Objects)
	for _, o := range l.files.Objects {
		template, replicas := templateOf(o)
		k := keyOf(o)
		if template == nil || metav1.GetControllerOfNoCopy(o.Obj.(metav1.Object)) != nil {
			continue
		}
		l.templates[k] = snapshot.TemplateOf(template)
		before := l.workload(k)
		if before == nil {
			l.moved = append(l.moved, podLabels{k.Namespace, template.Labels})
			continue
		}
		have := l.podsOf(k)
		want := len(have) // what the file leaves open stays as it is
		if replicas != nil {
			if l.open[k] = *replicas == nil; !l.open[k] {
				want = int(**replicas)
			}
			want = max(want, minimum[k])
			n := int32(want)
			*replicas = &n
		}
		if !sameTemplate(before.Template, l.templates[k]) {
			l.left[k] = have
			for i, p := range have {
				l.dropPod(p)
				if len(p.IPs) > 0 {
					l.assigned.Pod(k.Kind, k.Namespace, k.Name, i, p.IPs[0])
				}
			}
			l.moved = append(l.moved, podLabels{k.Namespace, template.Labels})
			continue
		}
		l.stay[k] = min(want, len(have))
		for _, p := range have[l.stay[k]:] {
			l.dropPod(p)
		}
		if want > len(have) {
			l.left[k] = have
			l.moved = append(l.moved, podLabels{k.Namespace, template.Labels})
		}
	}
	for _, o := range l.files.Objects {
		if p, ok := o.Obj.(*corev1.Pod); ok {
			l.moved = append(l.moved, podLabels{p.Namespace, p.Labels})
			if before := l.pod(keyOf(o)); before != nil {
				l.movePod(before)
			}
		}
	}
}

// templateOf is the template of a workload that runs pods, and the field for
// their number; nil for other objects, and for a DaemonSet's number.
func templateOf(o load.Object) (*corev1.PodTemplateSpec, **int32) {
	switch w := o.Obj.(type) {
	case *appsv1.Deployment:
		return &w.Spec.Template, &w.Spec.Replicas
	case *appsv1.StatefulSet:
		return &w.Spec.Template, &w.Spec.Replicas
	case *appsv1.ReplicaSet:
		return &w.Spec.Template, &w.Spec.Replicas
	case *appsv1.DaemonSet:
		return &w.Spec.Template, nil
	case *batchv1.Job:
		return &w.Spec.Template, &w.Spec.Parallelism
	}
	return nil, nil
}

// autoscaled tells how many pods the files' autoscalers want at least.
func autoscaled(objects []load.Object) map[Key]int {
	out := map[Key]int{}
	for _, o := range objects {
		switch h := o.Obj.(type) {
		case *autoscalingv2.HorizontalPodAutoscaler:
			out[Key{h.Spec.ScaleTargetRef.Kind, h.Namespace, h.Spec.ScaleTargetRef.Name}] = int(ptr.Deref(h.Spec.MinReplicas, 1))
		case *autoscalingv1.HorizontalPodAutoscaler:
			out[Key{h.Spec.ScaleTargetRef.Kind, h.Namespace, h.Spec.ScaleTargetRef.Name}] = int(ptr.Deref(h.Spec.MinReplicas, 1))
		}
	}
	return out
}

func sameTemplate(a, b *snapshot.Pod) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, _ := json.Marshal(a) // plain values: cannot fail
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// podsOf lists base's pods of a workload by name.
func (l *laying) podsOf(k Key) []*snapshot.Pod {
	if l.pods == nil {
		l.pods = map[Key][]*snapshot.Pod{}
		for i := range l.base.Pods {
			p := &l.base.Pods[i]
			if w, ok := l.workloadOf(p); ok {
				l.pods[w] = append(l.pods[w], p)
			}
		}
	}
	return l.pods[k]
}

// workloadOf follows a pod's owners, by the ReplicaSet or by the hash in its
// name, to the workload that the user wrote.
func (l *laying) workloadOf(p *snapshot.Pod) (Key, bool) {
	owner := Key{p.Owner.Kind, p.Namespace, p.Owner.Name}
	if owner.Kind == "" {
		return owner, false
	}
	if w := l.workload(owner); w != nil {
		if w.Owner.Kind != "" {
			owner.Kind, owner.Name = w.Owner.Kind, w.Owner.Name
		}
		return owner, true
	}
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; owner.Kind == "ReplicaSet" && hash != "" {
		if name, found := strings.CutSuffix(owner.Name, "-"+hash); found {
			return Key{"Deployment", p.Namespace, name}, true
		}
	}
	return owner, true
}

// resettle gives the pods that were predicted for a workload of base what the
// template does not decide and the pods before them had: the node, and, unless
// what injection goes by changed, the proxy as it was injected.
func (l *laying) resettle(rows *snapshot.Snapshot) {
	next := map[Key]int{}
	for i := range rows.Pods {
		p := &rows.Pods[i]
		k, ok := l.workloadOf(p)
		if !p.Assumed || l.given[metaKey(&p.Meta)] || !ok || len(l.left[k]) == 0 {
			continue
		}
		old := l.left[k][min(next[k]+l.stay[k], len(l.left[k])-1)]
		next[k]++
		p.Node = cmp.Or(p.Node, old.Node)
		if before := l.workload(k); p.Proxy != nil && old.Proxy != nil && before.Template != nil && sameInjection(before.Template, l.templates[k]) {
			p.Proxy = old.Proxy
		}
	}
}

func sameInjection(a, b *snapshot.Pod) bool {
	same := maps.Equal(a.Annotations, b.Annotations) && sameProxy(a.Proxy, b.Proxy) && a.HostNetwork == b.HostNetwork
	for _, label := range []string{"sidecar.istio.io/inject", "istio.io/rev"} {
		same = same && a.Labels[label] == b.Labels[label]
	}
	return same
}

func sameProxy(a, b *snapshot.ProxyContainer) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Image == b.Image && a.Native == b.Native && slices.Equal(a.Args, b.Args) && slices.Equal(a.Env, b.Env)
}
