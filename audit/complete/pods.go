package complete

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// template is a workload that runs pods.
type template struct {
	meta     metav1.ObjectMeta
	kind     string
	selector *metav1.LabelSelector
	pod      *corev1.PodTemplateSpec
	replicas int
	istiod   bool // never injected: its chart labels its pods so
	source   result.Source
}

// maxReplicas bounds what one workload may ask for, so that a slip of the
// keyboard or a hostile file cannot make millions of pods.
const maxReplicas = 10000

// templates lists the workloads of the input that would run pods, by
// namespace, name and kind.
func (c *completion) templates() []template {
	var out []template
	for _, o := range c.read.Objects {
		var t template
		switch w := o.Obj.(type) {
		case *appsv1.Deployment:
			t = template{meta: w.ObjectMeta, kind: "Deployment", selector: w.Spec.Selector, pod: &w.Spec.Template, replicas: c.replicas("Deployment", w.ObjectMeta, w.Spec.Replicas), istiod: snapshot.DiscoveryContainer(w) != nil}
		case *appsv1.StatefulSet:
			t = template{meta: w.ObjectMeta, kind: "StatefulSet", selector: w.Spec.Selector, pod: &w.Spec.Template, replicas: c.replicas("StatefulSet", w.ObjectMeta, w.Spec.Replicas)}
			if t.pod.Spec.Subdomain == "" {
				t.pod = t.pod.DeepCopy()
				t.pod.Spec.Subdomain = w.Spec.ServiceName
			}
		case *appsv1.DaemonSet:
			t = template{meta: w.ObjectMeta, kind: "DaemonSet", selector: w.Spec.Selector, pod: &w.Spec.Template, replicas: max(1, c.nodes)}
		case *appsv1.ReplicaSet:
			t = template{meta: w.ObjectMeta, kind: "ReplicaSet", selector: w.Spec.Selector, pod: &w.Spec.Template, replicas: c.replicas("ReplicaSet", w.ObjectMeta, w.Spec.Replicas)}
		case *batchv1.Job:
			t = template{meta: w.ObjectMeta, kind: "Job", selector: w.Spec.Selector, pod: &w.Spec.Template, replicas: c.replicas("Job", w.ObjectMeta, w.Spec.Parallelism)}
		default:
			continue
		}
		if metav1.GetControllerOfNoCopy(&t.meta) != nil {
			continue
		}
		t.source = o.Source
		if t.replicas > maxReplicas {
			c.leftOut += t.replicas - maxReplicas
			t.replicas = maxReplicas
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(x, y template) int {
		return cmp.Or(cmp.Compare(x.meta.Namespace, y.meta.Namespace), cmp.Compare(x.meta.Name, y.meta.Name), cmp.Compare(x.kind, y.kind))
	})
	return out
}

// pods makes the Pods of each workload that has none in the input, and injects
// those that the webhook selects.
func (c *completion) pods() {
	ips := c.allocator(podNetwork)
	for _, ip := range c.assigned.pods {
		ips.use(ip)
	}
	names := map[target]bool{}
	for _, p := range c.podItems {
		names[target{"Pod", p.obj.Namespace, p.obj.Name}] = true
		ips.use(p.obj.Status.PodIP)
		for _, ip := range p.obj.Status.PodIPs {
			ips.use(ip.IP)
		}
	}
	given := slices.Clone(c.podItems)
	templates := c.templates()
	running := indexPods(c.podItems, c.selectorKeys(templates))
	for _, t := range templates {
		stay := 0
		if c.around.Running != nil {
			stay = c.around.Running(t.kind, t.meta.Namespace, t.meta.Name)
		}
		if stay == 0 && running.runs(&t) {
			continue
		}
		made := 0
		for i := stay; i < t.replicas; i++ {
			pod := c.makePod(&t, i)
			key := target{"Pod", pod.Namespace, pod.Name}
			slot := podSlot{target{t.kind, t.meta.Namespace, t.meta.Name}, i}
			ip := ips.again(c.assigned.pods[slot])
			if ip == "" {
				c.leftOut++
			}
			if names[key] || ip == "" {
				continue
			}
			names[key] = true
			c.assigned.pods[slot] = ip
			pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
			c.add(pod, t.source)
			c.podItems = append(c.podItems, item[*corev1.Pod]{pod, t.source})
			made++
		}
		c.madePods += made
		if made > 0 {
			c.madeWorkloads++
		}
	}
	for _, p := range given {
		defaultPod(&p.obj.Spec)
		c.start(p.obj, ips)
	}
}

// start lets a Pod of the input run that has no status yet, as manifests have
// it, and injects it if the webhook selects it.
func (c *completion) start(pod *corev1.Pod, ips *allocator) {
	if pod.Status.Phase != "" || pod.Status.PodIP != "" || len(pod.Status.PodIPs) > 0 {
		return
	}
	slot := podSlot{target{"Pod", pod.Namespace, pod.Name}, 0}
	ip := ips.again(c.assigned.pods[slot])
	if ip == "" {
		return
	}
	c.assigned.pods[slot] = ip
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Status = runningStatus()
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	c.started++
	template := &corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	if revision, ok := c.injects(pod.Namespace, template); ok && !hasProxy(pod) {
		c.inject(pod, pod.Name, revision)
	}
}

// hasProxy tells a Pod that was injected before, as a proxy that says what it is.
func hasProxy(pod *corev1.Pod) bool {
	return slices.ContainsFunc(append(slices.Clip(pod.Spec.InitContainers), pod.Spec.Containers...), func(k corev1.Container) bool {
		return k.Name == proxyContainer && len(k.Args) > 0
	})
}

// defaultPod does for a Pod what the API server and its service account
// admission do, as far as istiod looks at it.
func defaultPod(spec *corev1.PodSpec) {
	spec.ServiceAccountName = cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default")
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for j := range containers[i].Ports {
				p := &containers[i].Ports[j]
				p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
			}
		}
	}
}

func runningStatus() corev1.PodStatus {
	return corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
}

// runs reports whether there are pods of the workload: owned by it, or selected
// by it in its namespace.
func (x *podIndex) runs(t *template) bool {
	if x.owned[target{t.kind, t.meta.Namespace, t.meta.Name}] {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(t.selector)
	if err != nil || selector.Empty() {
		return false
	}
	return slices.ContainsFunc(x.candidates(t.meta.Namespace, matchLabels(t.selector)), func(pod *corev1.Pod) bool {
		return selector.Matches(labels.Set(pod.Labels))
	})
}

func (c *completion) makePod(t *template, i int) *corev1.Pod {
	copied := t.pod.DeepCopy()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.meta.Namespace, Labels: copied.Labels, Annotations: copied.Annotations,
		},
		Spec: copied.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	defaultPod(&pod.Spec)
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: t.kind, Name: t.meta.Name, Controller: new(true)}
	switch t.kind {
	case "StatefulSet":
		pod.Name = fmt.Sprintf("%s-%d", t.meta.Name, i)
		pod.Labels[appsv1.StatefulSetPodNameLabel] = pod.Name
		pod.Labels[appsv1.PodIndexLabel] = strconv.Itoa(i)
		pod.Spec.Hostname = pod.Name
	case "Deployment":
		hash := templateHash(t.pod)
		pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
		owner.Kind, owner.Name = "ReplicaSet", t.meta.Name+"-"+hash
		pod.Name = fmt.Sprintf("%s-%05d", owner.Name, i)
	case "Job":
		owner.APIVersion = "batch/v1"
		pod.Name = fmt.Sprintf("%s-%05d", t.meta.Name, i)
	default:
		pod.Name = fmt.Sprintf("%s-%05d", t.meta.Name, i)
	}
	pod.GenerateName = owner.Name + "-"
	pod.OwnerReferences = []metav1.OwnerReference{owner}
	pod.Status = runningStatus()
	if revision, ok := c.injects(t.meta.Namespace, t.pod); ok && !t.istiod {
		c.inject(pod, t.meta.Name, revision)
	}
	return pod
}

// templateHash stands for the hash that the Deployment controller would put
// into names and labels: the same template gives the same one.
func templateHash(t *corev1.PodTemplateSpec) string {
	text, _ := json.Marshal(t)
	h := fnv.New32a()
	h.Write(text)
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}
