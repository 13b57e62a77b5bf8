package snapshot

import (
	"reflect"

	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	telemetryv1 "istio.io/client-go/pkg/apis/telemetry/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	k8snetworkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Add compacts one object into the snapshot and reports whether anything of it
// was kept. Of an object added twice (same kind, namespace and name) the last
// one counts.
func (b *Builder) Add(obj runtime.Object, src result.Source) bool {
	if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addCore(obj, src) || b.addWorkloadKind(obj, src) || b.addNetworking(obj, src) || b.addPolicy(obj, src)
}

func (b *Builder) addCore(obj runtime.Object, src result.Source) bool {
	switch o := obj.(type) {
	case *corev1.Namespace:
		m := b.metaOf("Namespace", &o.ObjectMeta, src)
		m.Namespace = ""
		b.snap.Namespaces = append(b.snap.Namespaces, Namespace{Meta: m})
	case *corev1.Node:
		m := b.metaOf("Node", &o.ObjectMeta, src)
		m.Namespace = ""
		b.snap.Nodes = append(b.snap.Nodes, Node{Meta: m})
	case *corev1.Service:
		spec := o.Spec
		b.addBalancer(o)
		b.snap.Services = append(b.snap.Services, Config[*corev1.ServiceSpec]{Meta: b.metaOf("Service", &o.ObjectMeta, src), Spec: &spec})
	case *corev1.Endpoints:
		b.addEndpoints(o, src)
	case *discoveryv1.EndpointSlice:
		b.addSlice(o, src)
	case *corev1.Pod:
		b.addPod(o, src)
	case *corev1.ConfigMap:
		return b.AddConfigMap(o, src, nil)
	case *admissionv1.MutatingWebhookConfiguration:
		return b.addWebhook(o, src)
	case *k8snetworkingv1.Ingress:
		b.ingresses.addIngress(b.metaOf(ingressKind, &o.ObjectMeta, src), o.Spec.IngressClassName)
	case *k8snetworkingv1.IngressClass:
		b.ingresses.addClass(o.Name, o.Spec.Controller)
	default:
		return false
	}
	return true
}

func (b *Builder) addWorkloadKind(obj runtime.Object, src result.Source) bool {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		b.addWorkload("Deployment", &o.ObjectMeta, count(o.Spec.Replicas), &o.Spec.Template, src)
		b.addIstiod(o, src)
	case *appsv1.StatefulSet:
		b.addWorkload("StatefulSet", &o.ObjectMeta, count(o.Spec.Replicas), &o.Spec.Template, src)
	case *appsv1.DaemonSet:
		b.addWorkload("DaemonSet", &o.ObjectMeta, int(o.Status.DesiredNumberScheduled), &o.Spec.Template, src)
	case *appsv1.ReplicaSet:
		b.addWorkload("ReplicaSet", &o.ObjectMeta, count(o.Spec.Replicas), &o.Spec.Template, src)
	case *batchv1.Job:
		b.addWorkload("Job", &o.ObjectMeta, count(o.Spec.Parallelism), &o.Spec.Template, src)
	case *batchv1.CronJob:
		b.addWorkload("CronJob", &o.ObjectMeta, 0, &o.Spec.JobTemplate.Spec.Template, src)
	default:
		return false
	}
	return true
}

func (b *Builder) addNetworking(obj runtime.Object, src result.Source) bool {
	s := &b.snap
	switch o := obj.(type) {
	case *networkingv1.ServiceEntry:
		b.addServiceEntry(&o.ObjectMeta, &o.Spec, &o.Status, src)
	case *networkingv1.WorkloadEntry:
		b.addWorkloadEntry(&o.ObjectMeta, &o.Spec, &o.Status, src)
	case *networkingv1.WorkloadGroup:
		addConfig(b, &s.WorkloadGroups, "WorkloadGroup", &o.ObjectMeta, &o.Spec, src)
	case *networkingv1.DestinationRule:
		addConfig(b, &s.DestinationRules, "DestinationRule", &o.ObjectMeta, &o.Spec, src)
	case *networkingv1.VirtualService:
		addConfig(b, &s.VirtualServices, "VirtualService", &o.ObjectMeta, &o.Spec, src)
	case *networkingv1.Gateway:
		addConfig(b, &s.Gateways, "Gateway", &o.ObjectMeta, &o.Spec, src)
	case *networkingv1.Sidecar:
		addConfig(b, &s.Sidecars, "Sidecar", &o.ObjectMeta, &o.Spec, src)
	default:
		return false
	}
	return true
}

func (b *Builder) addPolicy(obj runtime.Object, src result.Source) bool {
	s := &b.snap
	switch o := obj.(type) {
	case *networkingv1alpha3.EnvoyFilter:
		b.addEnvoyFilter(&o.ObjectMeta, &o.Spec, src)
	case *networkingv1beta1.ProxyConfig:
		addConfig(b, &s.ProxyConfigs, "ProxyConfig", &o.ObjectMeta, &o.Spec, src)
	case *securityv1.PeerAuthentication:
		addConfig(b, &s.PeerAuthentications, "PeerAuthentication", &o.ObjectMeta, &o.Spec, src)
	case *securityv1.RequestAuthentication:
		addConfig(b, &s.RequestAuthentications, "RequestAuthentication", &o.ObjectMeta, &o.Spec, src)
	case *securityv1.AuthorizationPolicy:
		addConfig(b, &s.AuthorizationPolicies, "AuthorizationPolicy", &o.ObjectMeta, &o.Spec, src)
	case *telemetryv1.Telemetry:
		addConfig(b, &s.Telemetries, "Telemetry", &o.ObjectMeta, &o.Spec, src)
	case *extensionsv1alpha1.WasmPlugin:
		b.addWasmPlugin(o, src)
	default:
		return false
	}
	return true
}

// count is the value of an optional number of pods; the API's default of 1 if nil.
func count(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}
