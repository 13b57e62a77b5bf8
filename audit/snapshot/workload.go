package snapshot

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

func (b *Builder) addWorkload(kind string, m *metav1.ObjectMeta, replicas int, template *corev1.PodTemplateSpec, src result.Source) {
	w := Workload{
		Meta:      b.metaOf(kind, m, src),
		Owner:     b.owner(m),
		Replicas:  max(replicas, 0),
		PodLabels: b.intern.labels(template.Labels),
	}
	if w.Owner == (OwnerRef{}) && kind != "CronJob" {
		pod := b.podOf(&template.ObjectMeta, &template.Spec, result.Source{})
		w.Template = &pod
	}
	b.snap.Workloads = append(b.snap.Workloads, w)
}

// TemplateOf is the Template of a Workload that is made from t.
func TemplateOf(t *corev1.PodTemplateSpec) *Pod {
	pod := NewBuilder().podOf(&t.ObjectMeta, &t.Spec, result.Source{})
	return &pod
}

// addIstiod keeps the Deployment if its pods run pilot-discovery.
func (b *Builder) addIstiod(o *appsv1.Deployment, src result.Source) {
	c := DiscoveryContainer(o)
	if c == nil {
		return
	}
	b.snap.Istiods = append(b.snap.Istiods, Istiod{
		Meta:      b.metaOf("Deployment", &o.ObjectMeta, src),
		PodLabels: b.intern.labels(o.Spec.Template.Labels),
		Image:     c.Image,
		Args:      slices.Clone(c.Args),
		Env:       istiodEnvironment(b.env(c.Env)),
		Replicas:  max(count(o.Spec.Replicas), 0),
		Resources: *c.Resources.DeepCopy(),
	})
}

// DiscoveryContainer returns the container of a Deployment that runs
// pilot-discovery: the one whose first argument is "discovery", else, in a
// Deployment labelled app=istiod, the one so named or the first. Nil if the
// Deployment is not istiod's.
func DiscoveryContainer(o *appsv1.Deployment) *corev1.Container {
	containers := o.Spec.Template.Spec.Containers
	for i := range containers {
		if args := containers[i].Args; len(args) > 0 && args[0] == "discovery" {
			return &containers[i]
		}
	}
	if len(containers) == 0 || (o.Labels["app"] != "istiod" && o.Spec.Template.Labels["app"] != "istiod") {
		return nil
	}
	if i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "discovery" }); i >= 0 {
		return &containers[i]
	}
	return &containers[0]
}

// AddConfigMap keeps what may hold a mesh config: "istio", and any with a key
// that istiod reads. Build leaves out those that no istiod reads. lines are the
// lines of the file at which its texts begin, by key, as far as they are known.
func (b *Builder) AddConfigMap(o *corev1.ConfigMap, src result.Source, lines map[string]int) bool {
	_, mesh := o.Data["mesh"]
	_, networks := o.Data["meshNetworks"]
	if o.Name != "istio" && !mesh && !networks {
		return false
	}
	cm := ConfigMap{Meta: b.metaOf("ConfigMap", &o.ObjectMeta, src), Data: allowedData(o.Data)}
	if cm.Data["mesh"] == o.Data["mesh"] {
		cm.MeshLine = lines["mesh"]
	}
	if cm.Data["meshNetworks"] == o.Data["meshNetworks"] {
		cm.NetworksLine = lines["meshNetworks"]
	}
	b.snap.ConfigMaps = append(b.snap.ConfigMaps, cm)
	return true
}

// meshConfigs are the ConfigMaps that istiods read: "istio" or "istio-" and a
// revision, and what their SHARED_MESH_CONFIG names.
func meshConfigs(list []ConfigMap, istiods []Istiod) []ConfigMap {
	return slices.DeleteFunc(list, func(c ConfigMap) bool {
		return c.Name != "istio" && !strings.HasPrefix(c.Name, "istio-") && !slices.ContainsFunc(istiods, func(i Istiod) bool {
			return c.Namespace == i.Namespace && c.Name == i.SharedMeshConfig()
		})
	})
}

// allowedData is what the model reads of a mesh ConfigMap.
func allowedData(data map[string]string) map[string]string {
	var out map[string]string
	for key, message := range map[string]protoreflect.MessageDescriptor{"mesh": meshConfigMessage, "meshNetworks": meshNetworksMessage} {
		if text, ok := data[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = allowedConfig(text, message)
		}
	}
	return out
}

// addWebhook keeps the configuration if it injects sidecars.
func (b *Builder) addWebhook(o *admissionv1.MutatingWebhookConfiguration, src result.Source) bool {
	if !InjectsSidecars(o) {
		return false
	}
	m := b.metaOf("MutatingWebhookConfiguration", &o.ObjectMeta, src)
	m.Namespace = ""
	w := Webhook{Meta: m}
	for i := range o.Webhooks {
		h := &o.Webhooks[i]
		rule := WebhookRule{
			Name:              h.Name,
			NamespaceSelector: h.NamespaceSelector.DeepCopy(),
			ObjectSelector:    h.ObjectSelector.DeepCopy(),
		}
		if s := h.ClientConfig.Service; s != nil {
			rule.ServiceNamespace, rule.ServiceName = s.Namespace, s.Name
		}
		w.Webhooks = append(w.Webhooks, rule)
	}
	b.snap.Webhooks = append(b.snap.Webhooks, w)
	return true
}

// InjectsSidecars recognises Istio's webhooks by the label app=sidecar-injector,
// by a revision or tag label, by their names or by the path that istiod serves.
func InjectsSidecars(o *admissionv1.MutatingWebhookConfiguration) bool {
	if o.Labels["app"] == "sidecar-injector" || o.Labels["istio.io/tag"] != "" || o.Labels["istio.io/rev"] != "" {
		return true
	}
	return slices.ContainsFunc(o.Webhooks, func(h admissionv1.MutatingWebhook) bool {
		s := h.ClientConfig.Service
		return strings.HasSuffix(h.Name, "sidecar-injector.istio.io") ||
			s != nil && s.Path != nil && strings.HasPrefix(*s.Path, "/inject")
	})
}
