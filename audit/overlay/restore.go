package overlay

import (
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// What is restored of a row has what the row has: compacted again, it gives the
// same row.

func typeOf(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}

func objectMeta(m *snapshot.Meta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	if m.Created != 0 {
		out.CreationTimestamp = metav1.Unix(m.Created, 0)
	}
	return out
}

func restoreIstiod(row *snapshot.Istiod) *appsv1.Deployment {
	d := &appsv1.Deployment{TypeMeta: typeOf("apps/v1", "Deployment"), ObjectMeta: objectMeta(&row.Meta)}
	replicas := int32(row.Replicas)
	d.Spec.Replicas = &replicas
	d.Spec.Template.Labels = row.PodLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "discovery", Image: row.Image, Args: row.Args, Env: restoreEnv(row.Env), Resources: row.Resources,
	}}
	return d
}

func restoreWebhook(row *snapshot.Webhook) *admissionv1.MutatingWebhookConfiguration {
	w := &admissionv1.MutatingWebhookConfiguration{
		TypeMeta: typeOf("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"), ObjectMeta: objectMeta(&row.Meta),
	}
	for i := range row.Webhooks {
		r := &row.Webhooks[i]
		h := admissionv1.MutatingWebhook{Name: r.Name, NamespaceSelector: r.NamespaceSelector, ObjectSelector: r.ObjectSelector}
		if r.ServiceNamespace != "" || r.ServiceName != "" {
			h.ClientConfig.Service = &admissionv1.ServiceReference{Namespace: r.ServiceNamespace, Name: r.ServiceName}
		}
		w.Webhooks = append(w.Webhooks, h)
	}
	return w
}

func restorePod(row *snapshot.Pod) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: typeOf("v1", "Pod"), ObjectMeta: objectMeta(&row.Meta)}
	if row.Owner != (snapshot.OwnerRef{}) {
		controls := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: row.Owner.Kind, Name: row.Owner.Name, Controller: &controls}}
	}
	if row.Generated {
		p.GenerateName = row.Name[:strings.LastIndexByte(row.Name, '-')+1]
	}
	if row.Terminating {
		now := metav1.Unix(1, 0)
		p.DeletionTimestamp = &now
	}
	p.Spec.NodeName, p.Spec.ServiceAccountName, p.Spec.HostNetwork = row.Node, row.ServiceAccount, row.HostNetwork
	p.Spec.Hostname, p.Spec.Subdomain = row.Hostname, row.Subdomain
	p.Status = restoreStatus(row)
	for _, port := range row.Ports {
		k := containerOf(p, port.Container)
		k.Ports = append(k.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: int32(port.Port), Protocol: corev1.Protocol(port.Protocol)})
	}
	return p
}

func restoreStatus(row *snapshot.Pod) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodPhase(row.Phase)}
	if row.Ready {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	for i, ip := range row.IPs {
		if i == 0 {
			s.PodIP = ip
		}
		s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
	}
	return s
}

func containerOf(p *corev1.Pod, name string) *corev1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == name {
			return &p.Spec.Containers[i]
		}
	}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name})
	return &p.Spec.Containers[len(p.Spec.Containers)-1]
}

func restoreEnv(env []snapshot.EnvVar) []corev1.EnvVar {
	var out []corev1.EnvVar
	for _, e := range env {
		out = append(out, corev1.EnvVar{Name: e.Name, Value: e.Value})
	}
	return out
}
