package bigmesh

import (
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// spec is what the workload's template says of a pod, before injection.
func (w *workload) spec() corev1.PodSpec {
	c := corev1.Container{
		Name: "app", Image: "registry.example.com/" + w.namespace + "/" + w.name + ":2026.11.3",
		Env: []corev1.EnvVar{
			{Name: "SERVICE_NAME", Value: w.name}, {Name: "LOG_LEVEL", Value: "info"},
			{Name: "DATABASE_URL", Value: "postgres://db." + w.namespace + ":5432/main"},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready"}}},
	}
	for _, p := range w.ports {
		c.Ports = append(c.Ports, corev1.ContainerPort{Name: p.Name, ContainerPort: p.TargetPort.IntVal, Protocol: corev1.ProtocolTCP})
		c.ReadinessProbe.HTTPGet.Port = p.TargetPort
	}
	return corev1.PodSpec{ServiceAccountName: w.name, Containers: []corev1.Container{c}}
}

// pod makes a running pod of the workload, as injection leaves it.
func (m *mesh) pod(w *workload, i int) placed {
	node := m.r.IntN(m.nodes)
	p := placed{ip: m.pods.take(), node: nodeName(node), zone: zoneOf(node)}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: w.kind, Name: w.name, Controller: new(true)}
	labels := maps.Clone(w.labels)
	if w.kind == "StatefulSet" {
		p.name = w.name + "-" + strconv.Itoa(i)
		labels["statefulset.kubernetes.io/pod-name"] = p.name
		labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(i)
	} else {
		owner.Kind, owner.Name = "ReplicaSet", w.name+"-"+w.hash
		p.name = fmt.Sprintf("%s-%05x", owner.Name, i)
	}
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: p.name, GenerateName: owner.Name + "-", Labels: labels,
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "15020"}, OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: w.spec(),
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: p.ip, PodIPs: []corev1.PodIP{{IP: p.ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	pod.Spec.NodeName = p.node
	if w.kind == "StatefulSet" {
		pod.Spec.Hostname, pod.Spec.Subdomain = p.name, w.name
	}
	if w.role != "" {
		inject(pod, w)
	}
	m.add(pod)
	return p
}

// inject adds what injection adds, as far as istiod or its webhook reads it back.
func inject(pod *corev1.Pod, w *workload) {
	env := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	if w.role == "sidecar" {
		pod.Labels["security.istio.io/tlsMode"] = "istio"
	}
	pod.Labels["service.istio.io/canonical-name"] = w.name
	pod.Labels["service.istio.io/canonical-revision"] = pod.Labels["version"]
	pod.Annotations["istio.io/rev"] = "default"
	pod.Annotations["sidecar.istio.io/status"] = `{"initContainers":["istio-init"],"containers":["istio-proxy"],"volumes":["workload-socket","istio-envoy","istio-data"],"revision":"default"}`
	proxy := corev1.Container{
		Name: "istio-proxy", Image: "docker.io/istio/proxyv2:" + Version,
		Args: []string{"proxy", w.role, "--domain", "$(POD_NAMESPACE).svc.cluster.local", "--proxyLogLevel=warning", "--concurrency", "2"},
		Env: []corev1.EnvVar{
			env("PILOT_CERT_PROVIDER", "istiod"), env("CA_ADDR", "istiod.istio-system.svc:15012"),
			field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("INSTANCE_IP", "status.podIP"),
			field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
			env("PROXY_CONFIG", "{}"), env("ISTIO_META_CLUSTER_ID", "Kubernetes"),
			env("ISTIO_META_WORKLOAD_NAME", w.name), env("ISTIO_META_MESH_ID", "cluster.local"), env("TRUST_DOMAIN", "cluster.local"),
		},
		Ports: []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: 15090, Protocol: corev1.ProtocolTCP}},
	}
	if w.role == "sidecar" {
		proxy.Env = append(proxy.Env, env("ISTIO_META_INTERCEPTION_MODE", "REDIRECT"))
	}
	pod.Spec.Containers = append(pod.Spec.Containers, proxy)
}
