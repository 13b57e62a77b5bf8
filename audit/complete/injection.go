package complete

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The keys that injection looks at.
const (
	labelRevision      = "istio.io/rev"
	labelInject        = "sidecar.istio.io/inject"
	labelNamespace     = "istio-injection"
	annotationTemplate = "inject.istio.io/templates"
	annotationConfig   = "proxy.istio.io/config"
	annotationMode     = "sidecar.istio.io/interceptionMode"
	proxyContainer     = "istio-proxy"
)

// injectIgnored are the namespaces that istiod never injects
// (Istio pkg/kube/inject/inject.go, IgnoredNamespaces).
var injectIgnored = []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}

// injects tells whether the webhook that istiod's chart installs selects the
// pod, and for which revision or tag: by namespace label istio-injection or
// istio.io/rev, or by the pod's own labels where the namespace has neither.
func (c *completion) injects(namespace string, template *corev1.PodTemplateSpec) (revision string, ok bool) {
	if template.Spec.HostNetwork || slices.Contains(injectIgnored, namespace) {
		return "", false
	}
	var ns map[string]string
	if n := c.namespace[namespace]; n != nil {
		ns = n.Labels
	}
	pod := template.Labels
	wanted := cmp.Or(pod[labelInject], template.Annotations[labelInject])
	if wanted == "false" || ns[labelNamespace] == "disabled" {
		return "", false
	}
	if ns[labelNamespace] == "enabled" {
		return "default", true
	}
	if rev := ns[labelRevision]; rev != "" && ns[labelNamespace] == "" {
		return rev, true
	}
	if _, labelled := ns[labelNamespace]; labelled {
		return "", false
	}
	if rev := pod[labelRevision]; rev != "" {
		return rev, true
	}
	return "default", pod[labelInject] == "true"
}

// inject writes into the pod what injection would: the proxy container, its
// environment, and the labels and annotations that istiod reads back.
func (c *completion) inject(pod *corev1.Pod, workload, revision string) {
	revision = c.mesh.resolve(revision)
	gateway := slices.Contains(strings.Split(pod.Annotations[annotationTemplate], ","), "gateway")
	set := func(m *map[string]string, key string, values ...string) {
		if *m == nil {
			*m = map[string]string{}
		}
		if (*m)[key] == "" {
			(*m)[key] = cmp.Or(values...)
		}
	}
	l := pod.Labels
	if !gateway {
		set(&pod.Labels, "security.istio.io/tlsMode", "istio")
	}
	name := cmp.Or(l["app.kubernetes.io/name"], l["app"], workload)
	if len(name) > 63 {
		name = name[:63]
	}
	set(&pod.Labels, "service.istio.io/canonical-name", strings.Trim(name, "-_."))
	set(&pod.Labels, "service.istio.io/canonical-revision", l["app.kubernetes.io/version"], l["version"], "latest")
	set(&pod.Annotations, labelRevision, revision)

	role := "sidecar"
	if gateway {
		role = "router"
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(k corev1.Container) bool { return k.Name == proxyContainer })
	if i < 0 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: proxyContainer})
		i = len(pod.Spec.Containers) - 1
	}
	k := &pod.Spec.Containers[i]
	if k.Image == "" || k.Image == "auto" {
		k.Image = "docker.io/istio/proxyv2:" + c.mesh.versionOf(revision)
	}
	if len(k.Args) == 0 {
		k.Args = []string{"proxy", role, "--domain", "$(POD_NAMESPACE).svc.cluster.local"}
	}
	c.environment(pod, k, workload, gateway)
}

// environment adds the proxy's variables that change what istiod sends.
func (c *completion) environment(pod *corev1.Pod, k *corev1.Container, workload string, gateway bool) {
	have := map[string]bool{}
	for _, e := range k.Env {
		have[e.Name] = true
	}
	add := func(name, value string) {
		if value != "" && !have[name] {
			have[name] = true
			k.Env = append(k.Env, corev1.EnvVar{Name: name, Value: value})
		}
	}
	field := func(name, path string) {
		if !have[name] {
			have[name] = true
			k.Env = append(k.Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}})
		}
	}
	field("POD_NAME", "metadata.name")
	field("POD_NAMESPACE", "metadata.namespace")
	field("INSTANCE_IP", "status.podIP")
	field("SERVICE_ACCOUNT", "spec.serviceAccountName")
	config := c.mesh.proxyConfig(pod.Annotations[annotationConfig])
	if len(config) > 0 {
		text, _ := json.Marshal(config)
		add("PROXY_CONFIG", string(text))
	}
	add("ISTIO_META_CLUSTER_ID", c.mesh.cluster)
	if !gateway {
		mode, _ := config["interceptionMode"].(string)
		add("ISTIO_META_INTERCEPTION_MODE", cmp.Or(pod.Annotations[annotationMode], mode, "REDIRECT"))
	}
	add("ISTIO_META_WORKLOAD_NAME", workload)
	add("ISTIO_META_MESH_ID", cmp.Or(c.mesh.id, c.mesh.trustDomain))
	add("TRUST_DOMAIN", c.mesh.trustDomain)
	metadata, _ := config["proxyMetadata"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		switch v := metadata[name].(type) {
		case string:
			add(name, v)
		case bool:
			add(name, strconv.FormatBool(v))
		case float64:
			add(name, strconv.FormatFloat(v, 'f', -1, 64))
		}
	}
}
