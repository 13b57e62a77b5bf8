package bigmesh

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	root       = "istio-system"
	apiVersion = "networking.istio.io/v1"
)

// controlPlane makes istiod with its service and mesh config.
func (m *mesh) controlPlane() {
	labels := map[string]string{"app": "istiod", "istio": "pilot", "istio.io/rev": "default"}
	m.add(&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: root, Labels: map[string]string{"kubernetes.io/metadata.name": root}},
	})
	m.add(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metaOf(root, "istio", map[string]string{"istio.io/rev": "default"}),
		Data:       map[string]string{"mesh": "rootNamespace: istio-system\ntrustDomain: cluster.local\ndefaultConfig:\n  discoveryAddress: istiod.istio-system.svc:15012\n"},
	})
	w := &workload{kind: "Deployment", namespace: root, name: "istiod", labels: labels}
	w.hash = hashOf(w.name)
	spec := corev1.PodSpec{ServiceAccountName: "istiod", Containers: []corev1.Container{{
		Name: "discovery", Image: "docker.io/istio/pilot:" + Version, Args: []string{"discovery"},
		Env: []corev1.EnvVar{{Name: "REVISION", Value: "default"}},
	}}}
	m.add(&appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metaOf(root, "istiod", labels),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	})
	w.pods = []placed{{name: "istiod-" + w.hash + "-00000", ip: m.pods.take(), node: nodeName(0), zone: zoneOf(0)}}
	m.add(&corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: root, Name: w.pods[0].name, GenerateName: "istiod-" + w.hash + "-", Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "istiod-" + w.hash, Controller: new(true)}},
		},
		Spec: spec,
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: w.pods[0].ip, PodIPs: []corev1.PodIP{{IP: w.pods[0].ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	})
	var ports []corev1.ServicePort
	for i, name := range []string{"grpc-xds", "https-dns", "https-webhook", "http-monitoring"} {
		port := []int32{15010, 15012, 443, 15014}[i]
		target := []int32{15010, 15012, 15017, 15014}[i]
		ports = append(ports, corev1.ServicePort{Name: name, Port: port, TargetPort: intstr.FromInt32(target), Protocol: corev1.ProtocolTCP})
	}
	m.expose(w, "istiod", m.ips.take(), ports)
}

// hostOf is the host name of a service by number.
func (m *mesh) hostOf(i int) string { return serviceName(i) + "." + m.home(i) + ".svc.cluster.local" }

// config makes the objects of Istio's own kinds beside those of gateways.
func (m *mesh) config() {
	for i := range m.Sidecars {
		m.sidecar(i)
	}
	for i := range m.VirtualServices {
		m.virtualService(i)
	}
	for i := range m.Rules {
		service := i * m.Services / m.Rules
		m.add(&networkingv1.DestinationRule{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "DestinationRule"},
			ObjectMeta: metaOf(m.home(service), serviceName(service), nil),
			Spec: networking.DestinationRule{
				Host: m.hostOf(service),
				TrafficPolicy: &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
					Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: int32(100 + i%50)},
				}},
				Subsets: []*networking.Subset{{Name: "stable", Labels: map[string]string{"version": "v" + fmt.Sprint(service%3+1)}}},
			},
		})
	}
	for i := range m.External {
		m.add(&networkingv1.ServiceEntry{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "ServiceEntry"},
			ObjectMeta: metaOf(m.namespace(i%m.Namespaces), fmt.Sprintf("external-%04d", i), nil),
			Spec: networking.ServiceEntry{
				Hosts: []string{fmt.Sprintf("api-%04d.partner.example.com", i)}, Location: networking.ServiceEntry_MESH_EXTERNAL,
				Resolution: networking.ServiceEntry_DNS, Addresses: []string{m.ips.take()},
				Ports: []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}},
			},
		})
	}
}

// sidecar imports the namespace itself, the control plane and a few others.
func (m *mesh) sidecar(i int) {
	hosts := []string{"./*", root + "/*"}
	for k := range m.Imports {
		hosts = append(hosts, m.namespace((i+1+k*7)%m.Namespaces)+"/*")
	}
	m.add(&networkingv1.Sidecar{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "Sidecar"},
		ObjectMeta: metaOf(m.namespace(i), "default", nil),
		Spec:       networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: hosts}}},
	})
}

// virtualService routes a host to a service: a public host at a gateway, or
// the service's own host in the mesh.
func (m *mesh) virtualService(i int) {
	service := i * m.Services / m.VirtualServices
	if portsOf(service)[0].Name != "http" {
		service++
	}
	service %= m.Services
	number := uint32(portsOf(service)[0].Port) //nolint:gosec // a port
	to := func(weight int32) *networking.HTTPRouteDestination {
		return &networking.HTTPRouteDestination{
			Destination: &networking.Destination{Host: m.hostOf(service), Port: &networking.PortSelector{Number: number}}, Weight: weight,
		}
	}
	vs := &networkingv1.VirtualService{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "VirtualService"},
		ObjectMeta: metaOf(m.home(service), fmt.Sprintf("route-%05d", i), nil),
	}
	spec := &vs.Spec
	spec.Hosts = []string{m.hostOf(service)}
	if m.Gateways > 0 {
		gateway := i % m.Gateways
		vs.Namespace = m.gatewayNamespace(gateway)
		spec.Gateways = []string{gatewayName(gateway)}
		spec.Hosts = []string{fmt.Sprintf("app-%05d.example.com", i)}
	}
	spec.Http = []*networking.HTTPRoute{
		{
			Match: []*networking.HTTPMatchRequest{{Uri: &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/api/v2/"}}}},
			Route: []*networking.HTTPRouteDestination{to(100)}, Retries: &networking.HTTPRetry{Attempts: 3, RetryOn: "5xx"},
		},
		{Route: []*networking.HTTPRouteDestination{to(100)}},
	}
	m.add(vs)
}

func gatewayName(i int) string { return fmt.Sprintf("gateway-%04d", i) }

func (m *mesh) gatewayNamespace(i int) string { return m.namespace(i % max(m.Namespaces, 1)) }

// gateway makes a workload of two routers with its service and Gateway.
func (m *mesh) gateway(i int) {
	w := &workload{kind: "Deployment", namespace: m.gatewayNamespace(i), name: gatewayName(i), role: "router"}
	w.hash = hashOf(w.namespace + w.name)
	w.labels = workloadLabels(w, i)
	w.labels["istio"] = w.name
	ports := []corev1.ServicePort{{Name: "http2", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolTCP}}
	m.deploy(w, 2)
	m.expose(w, w.name, m.ips.take(), ports)
	m.add(&networkingv1.Gateway{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiVersion, Kind: "Gateway"},
		ObjectMeta: metaOf(w.namespace, w.name, nil),
		Spec: networking.Gateway{
			Selector: map[string]string{"istio": w.name},
			Servers:  []*networking.Server{{Port: &networking.Port{Number: 80, Name: "http", Protocol: "HTTP"}, Hosts: []string{"*.example.com"}}},
		},
	})
}
