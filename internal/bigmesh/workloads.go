package bigmesh

import (
	"fmt"
	"hash/fnv"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload is a Deployment or StatefulSet with its pods.
type workload struct {
	kind, namespace, name, hash string
	labels                      map[string]string
	ports                       []corev1.ServicePort // of the services that select it
	role                        string               // of its proxies: sidecar, router; empty: it has none
	pods                        []placed
}

// placed is a pod as endpoints name it.
type placed struct{ name, ip, node, zone string }

var words = []string{"orders", "ledger", "cart", "search", "mail", "users", "catalog", "invoice-renderer", "recommendation", "queue", "stock", "pricing"}

// serviceName is the name of a service by number, unique in the mesh.
func serviceName(i int) string { return fmt.Sprintf("%s-%05d", words[i%len(words)], i) }

// home is the namespace of a service by number: the services that share pods
// are in one.
func (m *mesh) home(i int) string {
	return m.namespace(i / max(m.Shared, 1) % max(m.Namespaces, 1))
}

// mixed is a number that depends on a service's, but not on its namespace's.
func mixed(i int) int {
	const odd = 2654435761
	return int(uint32(i) * odd >> 8) //nolint:gosec // a number of a service
}

// portsOf are a service's ports: most speak HTTP, some gRPC too, some only TCP.
func portsOf(i int) []corev1.ServicePort {
	port := func(name string, number, target int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, TargetPort: intstr.FromInt32(target), Protocol: corev1.ProtocolTCP}
	}
	switch mixed(i) % 10 {
	case 0:
		return []corev1.ServicePort{port("tcp-db", 5432, 5432)}
	case 1, 2:
		return []corev1.ServicePort{port("http", 80, 8080), port("grpc", 9090, 9090)}
	case 3, 4, 5:
		return []corev1.ServicePort{port("http", 8080, 8080)}
	}
	return []corev1.ServicePort{port("http", 80, 8080)}
}

// service makes a service by number, and the workload behind it where it is
// the first of those that share it.
func (m *mesh) service(i int) {
	if m.full {
		return
	}
	shared := max(m.Shared, 1)
	first := i - i%shared
	w := &workload{kind: "Deployment", namespace: m.home(i), name: serviceName(first)}
	w.hash = hashOf(w.namespace + w.name)
	w.labels = workloadLabels(w, first)
	w.ports = portsOf(first)
	if i == first {
		n := m.Endpoints/m.Services + boolInt(i < m.Endpoints%m.Services)
		// A workload is injected as a whole: the Shape's share of them, in all namespaces.
		if chance := mixed(i) % max(m.Endpoints/shared, 1); chance < m.Proxies && m.proxy+n <= m.Proxies {
			w.role = "sidecar"
			m.proxy += n
		}
		m.deploy(w, n)
		m.shared = w.pods
	}
	w.pods = m.shared
	ports := portsOf(i)
	if shared > 1 {
		ports = portsOf(first)
	}
	m.expose(w, serviceName(i), m.ips.take(), ports)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// headless makes a headless service of TCP with its StatefulSet.
func (m *mesh) headless(i int) {
	w := &workload{kind: "StatefulSet", namespace: m.namespace(i % max(m.Namespaces, 1)), name: fmt.Sprintf("db-%04d", i), role: "sidecar"}
	w.labels = workloadLabels(w, i)
	w.ports = portsOf(0)
	m.deploy(w, m.HeadlessPods)
	m.expose(w, w.name, corev1.ClusterIPNone, w.ports)
}

// clients makes the proxies that no service selects, ten to a workload.
func (m *mesh) clients() {
	const most = 10
	for i := 0; m.proxy < m.Proxies && !m.full; i++ {
		n := min(most, m.Proxies-m.proxy)
		w := &workload{kind: "Deployment", namespace: m.namespace(i % max(m.Namespaces, 1)), name: fmt.Sprintf("worker-%05d", i), role: "sidecar"}
		w.hash = hashOf(w.namespace + w.name)
		w.labels = workloadLabels(w, i)
		m.proxy += n
		m.deploy(w, n)
	}
}

// workloadLabels are the labels of a workload's pods: those that select it and
// those that charts add.
func workloadLabels(w *workload, i int) map[string]string {
	labels := map[string]string{
		"app": w.name, "version": "v" + strconv.Itoa(i%3+1),
		"app.kubernetes.io/name": w.name, "app.kubernetes.io/part-of": w.namespace, "app.kubernetes.io/managed-by": "Helm",
		"helm.sh/chart": words[i%len(words)] + "-1." + strconv.Itoa(i%20) + ".0",
	}
	if w.hash != "" {
		labels["pod-template-hash"] = w.hash
	}
	return labels
}

func hashOf(s string) string {
	h := fnv.New32a()
	h.Write([]byte(s))
	return fmt.Sprintf("%010d", h.Sum32())
}

// deploy makes the workload and n pods of it.
func (m *mesh) deploy(w *workload, n int) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.labels["app"]}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: w.labels}, Spec: w.spec()}
	replicas := int32(n) //nolint:gosec // far below the limit
	if w.kind == "StatefulSet" {
		m.add(&appsv1.StatefulSet{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: w.kind},
			ObjectMeta: metaOf(w.namespace, w.name, w.labels),
			Spec:       appsv1.StatefulSetSpec{Replicas: &replicas, ServiceName: w.name, Selector: selector, Template: template},
		})
	} else {
		m.add(&appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: w.kind},
			ObjectMeta: metaOf(w.namespace, w.name, w.labels),
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template},
		})
	}
	for i := range n {
		if m.full {
			return
		}
		w.pods = append(w.pods, m.pod(w, i))
	}
}

// expose makes a service of the workload with its slices of at most 100
// endpoints, as Kubernetes makes them.
func (m *mesh) expose(w *workload, name, ip string, ports []corev1.ServicePort) {
	m.add(&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metaOf(w.namespace, name, map[string]string{"app": w.labels["app"], "helm.sh/chart": w.labels["helm.sh/chart"]}),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Ports: ports,
			Selector: map[string]string{"app": w.labels["app"]},
		},
	})
	const most = 100
	for start := 0; start < len(w.pods) && !m.full; start += most {
		slice := &discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
			ObjectMeta: metaOf(w.namespace, fmt.Sprintf("%s-%05d", name, start/most), map[string]string{
				discoveryv1.LabelServiceName: name, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
			}),
			AddressType: discoveryv1.AddressTypeIPv4,
		}
		for i := range ports {
			target := ports[i].TargetPort.IntVal
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &ports[i].Name, Port: &target, Protocol: &ports[i].Protocol})
		}
		for i := start; i < min(start+most, len(w.pods)); i++ {
			p := &w.pods[i]
			e := discoveryv1.Endpoint{
				Addresses:  []string{p.ip},
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
				NodeName:   &p.node, Zone: &p.zone,
				TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: w.namespace, Name: p.name},
			}
			if w.kind == "StatefulSet" {
				e.Hostname = &p.name
			}
			slice.Endpoints = append(slice.Endpoints, e)
		}
		m.add(slice)
	}
}
