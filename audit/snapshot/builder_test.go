package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1alpha1 "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	k8snetworkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func build(objects ...runtime.Object) *snapshot.Snapshot {
	b := snapshot.NewBuilder()
	for i, o := range objects {
		b.Add(o, result.Source{File: "f", Line: i + 1})
	}
	return b.Build()
}

func ptr[T any](v T) *T { return &v }

func TestProxyContainer(t *testing.T) {
	always := ptr(corev1.ContainerRestartPolicyAlways)
	tests := map[string]struct {
		spec corev1.PodSpec
		want *snapshot.ProxyContainer
	}{
		"none":           {corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}, nil},
		"by name":        {corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}, {Name: "istio-proxy", Image: "mine"}}}, &snapshot.ProxyContainer{Image: "mine"}},
		"by image":       {corev1.PodSpec{Containers: []corev1.Container{{Name: "gw", Image: "a:5000/istio/proxyv2:1.31.0@sha256:0"}}}, &snapshot.ProxyContainer{Image: "a:5000/istio/proxyv2:1.31.0@sha256:0"}},
		"native sidecar": {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "istio-proxy", Image: "p", RestartPolicy: always}}}, &snapshot.ProxyContainer{Image: "p", Native: true}},
		"istio-init":     {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "istio-init", Image: "istio/proxyv2:1.31.0"}}}, nil},
		"name over image": {corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "proxyv2"}, {Name: "istio-proxy", Image: "mine"}}},
			&snapshot.ProxyContainer{Image: "mine"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := build(&corev1.Pod{ObjectMeta: meta("shop", "web"), Spec: test.spec})
			if diff := cmp.Diff(test.want, s.Pods[0].Proxy); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPod(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", GenerateName: "web-", Labels: map[string]string{"app": "web"},
			Annotations:       map[string]string{"proxy.istio.io/config": "x", "other/key": "y", "plain": "z"},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "Other", Name: "o"}, {Kind: "ReplicaSet", Name: "web-1", Controller: ptr(true)}},
			CreationTimestamp: metav1.Unix(1000, 5),
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "web", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}},
				{Name: "istio-proxy", Env: []corev1.EnvVar{{Name: "ISTIO_META_A", Value: "1"}, {Name: "ISTIO_META_B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}},
			},
			InitContainers: []corev1.Container{
				{Name: "once", Ports: []corev1.ContainerPort{{ContainerPort: 1}}},
				{Name: "side", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{ContainerPort: 9, Protocol: "UDP"}}},
			},
		},
		Status: corev1.PodStatus{
			PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	got := build(pod).Pods[0]
	want := snapshot.Pod{
		Meta: snapshot.Meta{
			Kind: "Pod", Namespace: "shop", Name: "web-0", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{"proxy.istio.io/config": "x"}, Created: 1000, Source: result.Source{File: "f", Line: 1},
		},
		Owner: snapshot.OwnerRef{Kind: "ReplicaSet", Name: "web-1"}, Generated: true,
		IPs: []string{"10.0.0.1", "fd00::1"}, Ready: true,
		Ports: []snapshot.ContainerPort{{Name: "http", Port: 8080, Protocol: "TCP", Container: "web"}, {Port: 9, Protocol: "UDP", Container: "side"}},
		Proxy: &snapshot.ProxyContainer{Env: []snapshot.EnvVar{{Name: "ISTIO_META_A", Value: "1"}, {Name: "ISTIO_META_B", From: "fieldRef metadata.name"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestIstiods(t *testing.T) {
	deployment := func(name string, labels map[string]string, containers ...corev1.Container) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: meta("istio-system", name)}
		d.Spec.Template.Labels = labels
		d.Spec.Template.Spec.Containers = containers
		return d
	}
	s := build(
		deployment("by-args", nil, corev1.Container{Name: "a"}, corev1.Container{Name: "b", Image: "pilot:1", Args: []string{"discovery", "--x"}}),
		deployment("by-label", map[string]string{"app": "istiod"}, corev1.Container{Name: "a", Image: "pilot:2"}),
		deployment("by-label-and-name", map[string]string{"app": "istiod"}, corev1.Container{Name: "a"}, corev1.Container{Name: "discovery", Image: "pilot:3"}),
		deployment("empty", map[string]string{"app": "istiod"}),
		deployment("other", nil, corev1.Container{Args: []string{"serve", "discovery"}}),
	)
	got := map[string]string{}
	for _, i := range s.Istiods {
		got[i.Name] = i.Image
	}
	if diff := cmp.Diff(map[string]string{"by-args": "pilot:1", "by-label": "pilot:2", "by-label-and-name": "pilot:3"}, got); diff != "" {
		t.Error(diff)
	}
	if len(s.Workloads) != 5 || s.Workloads[0].Replicas != 1 {
		t.Errorf("workloads: %+v, want all 5, of 1 replica", s.Workloads)
	}
}

// Kept are the ConfigMaps that an istiod reads: of its revision, and the one
// that it shares.
func TestConfigMaps(t *testing.T) {
	istiod := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istiod"}}
	istiod.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "discovery", Args: []string{"discovery"}, Env: []corev1.EnvVar{{Name: "SHARED_MESH_CONFIG", Value: "shared"}},
	}}
	objects := []runtime.Object{istiod}
	for _, name := range []string{"istio", "istio-canary", "istio-ca-root-cert", "shared", "web"} {
		cm := &corev1.ConfigMap{ObjectMeta: meta("istio-system", name), Data: map[string]string{"x": ""}}
		if name != "istio" && name != "istio-ca-root-cert" {
			cm.Data["mesh"] = ""
		}
		objects = append(objects, cm)
	}
	objects = append(objects, &corev1.ConfigMap{ObjectMeta: meta("elsewhere", "shared"), Data: map[string]string{"mesh": ""}})
	var got []string
	for _, cm := range build(objects...).ConfigMaps {
		got = append(got, cm.Namespace+"/"+cm.Name)
	}
	if diff := cmp.Diff([]string{"istio-system/istio", "istio-system/istio-canary", "istio-system/shared"}, got); diff != "" {
		t.Error(diff)
	}
}

// Endpoints count only where the service has no slice.
func TestEndpoints(t *testing.T) {
	endpoints := func(name string) *corev1.Endpoints {
		return &corev1.Endpoints{
			ObjectMeta: meta("shop", name),
			Subsets: []corev1.EndpointSubset{{
				Addresses:         []corev1.EndpointAddress{{IP: "10.0.0.1", TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "shop"}}, {IP: "fd00::1"}, {IP: "junk"}},
				NotReadyAddresses: []corev1.EndpointAddress{{IP: "10.0.0.2"}},
				Ports:             []corev1.EndpointPort{{Name: "http", Port: 80}},
			}},
		}
	}
	skipped := endpoints("skipped")
	skipped.Labels = map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}
	s := build(
		endpoints("old"), endpoints("new"), skipped,
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new-1", Labels: map[string]string{"kubernetes.io/service-name": "new"}}, AddressType: "IPv4"},
	)
	var old []snapshot.EndpointSlice
	for _, slice := range s.Slices {
		switch slice.Service {
		case "old":
			old = append(old, slice)
		case "new":
			if slice.Name != "new-1" {
				t.Errorf("a slice was made of Endpoints new: %+v", slice)
			}
		default:
			t.Errorf("slice of %s", slice.Service)
		}
	}
	ports := []snapshot.SlicePort{{Name: "http", Protocol: "TCP", Port: 80}}
	m := snapshot.Meta{Kind: "Endpoints", Namespace: "shop", Name: "old", Source: result.Source{File: "f", Line: 1}}
	want := []snapshot.EndpointSlice{
		{Meta: m, Service: "old", AddressType: "IPv4", Ports: ports, Endpoints: []snapshot.SliceEndpoint{
			{Addresses: []string{"10.0.0.1"}, Ready: ptr(true), TargetKind: "Pod", TargetNamespace: "shop", TargetName: "p"},
			{Addresses: []string{"10.0.0.2"}, Ready: ptr(false)},
		}},
		{Meta: m, Service: "old", AddressType: "IPv6", Ports: ports, Endpoints: []snapshot.SliceEndpoint{{Addresses: []string{"fd00::1"}, Ready: ptr(true)}}},
	}
	if diff := cmp.Diff(want, old); diff != "" {
		t.Error(diff)
	}
}

func TestUnhealthyWorkloadEntries(t *testing.T) {
	entry := func(name, checked, status string) *networkingv1.WorkloadEntry {
		e := &networkingv1.WorkloadEntry{ObjectMeta: meta("vm", name)}
		e.Annotations = map[string]string{"proxy.istio.io/health-checks-enabled": checked}
		if status != "" {
			e.Status.Conditions = append(e.Status.Conditions, condition("Healthy", status))
		}
		return e
	}
	s := build(entry("unchecked", "false", ""), entry("new", "true", ""), entry("well", "true", "True"), entry("ill", "true", "False"))
	if diff := cmp.Diff(map[string]bool{"vm/new": true, "vm/ill": true}, s.Unhealthy); diff != "" {
		t.Error(diff)
	}
}

func TestIngresses(t *testing.T) {
	ingress := func(name string, class *string, annotation string) *k8snetworkingv1.Ingress {
		i := &k8snetworkingv1.Ingress{ObjectMeta: meta("shop", name)}
		i.Spec.IngressClassName = class
		if annotation != "" {
			i.Annotations = map[string]string{"kubernetes.io/ingress.class": annotation}
		}
		return i
	}
	s := build(
		&k8snetworkingv1.IngressClass{ObjectMeta: meta("", "ours"), Spec: k8snetworkingv1.IngressClassSpec{Controller: "istio.io/ingress-controller"}},
		&k8snetworkingv1.IngressClass{ObjectMeta: meta("", "nginx"), Spec: k8snetworkingv1.IngressClassSpec{Controller: "k8s.io/ingress-nginx"}},
		ingress("annotated", nil, "istio"), ingress("annotated-nginx", nil, "nginx"), ingress("bare", nil, ""),
		ingress("class-istio", ptr("istio"), ""), ingress("class-nginx", ptr("nginx"), ""), ingress("class-ours", ptr("ours"), ""), ingress("class-unknown", ptr("haproxy"), ""),
	)
	var got []string
	for _, m := range s.Unmodelled {
		got = append(got, m.Name)
	}
	if diff := cmp.Diff([]string{"annotated", "bare", "class-istio", "class-ours"}, got); diff != "" {
		t.Error(diff)
	}
}

// A GatewayClass or a ReferenceGrant alone changes nothing.
func TestPassiveKinds(t *testing.T) {
	const group = ".gateway.networking.k8s.io"
	for _, test := range []struct {
		kinds []string
		want  int
	}{{[]string{"GatewayClass", "ReferenceGrant"}, 0}, {[]string{"GatewayClass", "HTTPRoute"}, 2}} {
		b := snapshot.NewBuilder()
		for _, k := range test.kinds {
			b.AddUnmodelled(snapshot.Meta{Kind: k + group, Name: "x"})
		}
		if got := b.Build().Unmodelled; len(got) != test.want {
			t.Errorf("%v: %v, want %d", test.kinds, got, test.want)
		}
	}
}

func TestOrderAndDuplicates(t *testing.T) {
	object := func(namespace, name, version string) runtime.Object {
		s := &networkingv1.Sidecar{ObjectMeta: meta(namespace, name)}
		s.Labels = map[string]string{"version": version}
		s.Spec.Egress = []*networking.IstioEgressListener{{Hosts: []string{version}}}
		return s
	}
	s := build(object("b", "x", "1"), object("a", "z", "1"), object("a", "y", "1"), object("b", "x", "2"), (*networkingv1.Sidecar)(nil), nil,
		&corev1.Namespace{ObjectMeta: meta("junk", "a")})
	var got []string
	for _, c := range s.Sidecars {
		got = append(got, c.Namespace+"/"+c.Name+" "+c.Spec.Egress[0].Hosts[0])
	}
	if diff := cmp.Diff([]string{"a/y 1", "a/z 1", "b/x 2"}, got); diff != "" {
		t.Error(diff)
	}
	want := []snapshot.Namespace{
		{Meta: snapshot.Meta{Kind: "Namespace", Name: "a", Source: result.Source{File: "f", Line: 7}}},
		{Meta: snapshot.Meta{Kind: "Namespace", Name: "b"}, Implied: true},
	}
	if diff := cmp.Diff(want, s.Namespaces); diff != "" {
		t.Error(diff)
	}
}

func condition(kind, status string) *metav1alpha1.IstioCondition {
	return &metav1alpha1.IstioCondition{Type: kind, Status: status}
}

// The digest of an object follows its content, not its place.
func TestObjects(t *testing.T) {
	digests := func(host string, objects ...runtime.Object) map[string]string {
		t.Helper()
		rule := &networkingv1.DestinationRule{ObjectMeta: meta("shop", "web")}
		rule.Spec.Host = host
		list, err := build(append(objects, rule)...).Objects(false)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, o := range list {
			got[o.Kind+" "+o.Namespace+"/"+o.Name] = o.Digest
		}
		return got
	}
	pod := &corev1.Pod{ObjectMeta: meta("shop", "p")}
	a, same, other := digests("a"), digests("a", pod), digests("b")
	const rule = "DestinationRule shop/web"
	if a[rule] == "" || a[rule] != same[rule] || a[rule] == other[rule] {
		t.Errorf("digests %q, %q of the same and %q of another rule", a[rule], same[rule], other[rule])
	}
	if len(same) != 2 || same["Pod shop/p"] == "" {
		t.Errorf("objects: %v, want the rule and the pod", same)
	}
}
