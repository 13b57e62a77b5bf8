package load

import (
	"context"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// clusterPager makes a listFunc of the client of a cluster-scoped kind.
func clusterPager[L runtime.Object](client interface {
	List(context.Context, metav1.ListOptions) (L, error)
}) listFunc {
	return func(ctx context.Context, _ string, o metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, o)
	}
}

// liveKinds are all the kinds to list. Of one namespace alone the cluster-scoped
// kinds are not read.
func (l *live) liveKinds() []liveKind {
	kinds := slices.Concat(l.namespacedKinds(), l.istioKinds(), l.unmodelledKinds())
	if !l.mayServe(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")) {
		kinds = append(kinds, liveKind{
			groupKind: groupKind{Kind: "Endpoints"}, resource: "endpoints", facts: "endpoints of services",
			versions: []liveVersion{{"v1", pager(l.kube.CoreV1().Endpoints)}},
		})
	}
	if l.options.OnlyNamespace == "" {
		return append(kinds, l.clusterKinds()...)
	}
	return slices.DeleteFunc(kinds, func(k liveKind) bool { return k.cluster })
}

func (l *live) clusterKinds() []liveKind {
	return []liveKind{
		{groupKind: groupKind{Group: "", Kind: "Namespace"}, resource: "namespaces", cluster: true, facts: "labels of namespaces, which choose revisions and injection", versions: []liveVersion{{"v1", clusterPager(l.kube.CoreV1().Namespaces())}}},
		{groupKind: groupKind{Group: "", Kind: "Node"}, resource: "nodes", cluster: true, facts: "localities of proxies and endpoints", versions: []liveVersion{{"v1", clusterPager(l.kube.CoreV1().Nodes())}}},
		{groupKind: groupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}, resource: "mutatingwebhookconfigurations", cluster: true, facts: "revisions and tags that inject proxies", versions: []liveVersion{{"v1", clusterPager(l.kube.AdmissionregistrationV1().MutatingWebhookConfigurations())}}},
		{groupKind: groupKind{Group: "networking.k8s.io", Kind: "IngressClass"}, resource: "ingressclasses", cluster: true, facts: "whether Istio serves any Ingress", versions: []liveVersion{{"v1", clusterPager(l.kube.NetworkingV1().IngressClasses())}}},
	}
}

func (l *live) namespacedKinds() []liveKind {
	return []liveKind{
		{groupKind: groupKind{Group: "", Kind: "Service"}, resource: "services", facts: "Kubernetes services", versions: []liveVersion{{"v1", pager(l.kube.CoreV1().Services)}}},
		{groupKind: groupKind{Group: "", Kind: "Pod"}, resource: "pods", facts: "the proxies, and the pods that services select", versions: []liveVersion{{"v1", pager(l.kube.CoreV1().Pods)}}},
		{groupKind: groupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}, resource: "endpointslices", facts: "endpoints of services", versions: []liveVersion{{"v1", pager(l.kube.DiscoveryV1().EndpointSlices)}}},
		{groupKind: groupKind{Group: "apps", Kind: "Deployment"}, resource: "deployments", facts: "the control planes, their versions and flags, and the names of workloads", versions: []liveVersion{{"v1", pager(l.kube.AppsV1().Deployments)}}},
		{groupKind: groupKind{Group: "apps", Kind: "StatefulSet"}, resource: "statefulsets", facts: "names of workloads", versions: []liveVersion{{"v1", pager(l.kube.AppsV1().StatefulSets)}}},
		{groupKind: groupKind{Group: "apps", Kind: "DaemonSet"}, resource: "daemonsets", facts: "names of workloads", versions: []liveVersion{{"v1", pager(l.kube.AppsV1().DaemonSets)}}},
		{groupKind: groupKind{Group: "apps", Kind: "ReplicaSet"}, resource: "replicasets", facts: "names of workloads", versions: []liveVersion{{"v1", pager(l.kube.AppsV1().ReplicaSets)}}},
		{groupKind: groupKind{Group: "batch", Kind: "Job"}, resource: "jobs", facts: "names of workloads", versions: []liveVersion{{"v1", pager(l.kube.BatchV1().Jobs)}}},
		{groupKind: groupKind{Group: "batch", Kind: "CronJob"}, resource: "cronjobs", facts: "names of workloads", versions: []liveVersion{{"v1", pager(l.kube.BatchV1().CronJobs)}}},
		{groupKind: groupKind{Group: "networking.k8s.io", Kind: "Ingress"}, resource: "ingresses", facts: "whether Istio serves any Ingress", versions: []liveVersion{{"v1", pager(l.kube.NetworkingV1().Ingresses)}}},
	}
}

// unmodelledKinds are those whose objects are only noted, at any version that
// the server has.
func (l *live) unmodelledKinds() []liveKind {
	var list []liveKind
	for _, u := range unmodelledResources {
		k := liveKind{
			groupKind: groupKind{Group: u.group, Kind: u.kind}, resource: u.resource, unmodelled: true,
			cluster: u.kind == "GatewayClass", facts: "whether there is anything of this kind, which istiod reads and the model does not",
		}
		for _, v := range u.versions {
			client := l.metadata.Resource(schema.GroupVersionResource{Group: u.group, Version: v, Resource: u.resource})
			k.versions = append(k.versions, liveVersion{v, func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
				return client.Namespace(namespace).List(ctx, o)
			}})
		}
		list = append(list, k)
	}
	return list
}

// unmodelledResources are the unmodelled ones of kinds, as the API server names them.
var unmodelledResources = []struct {
	group, kind, resource string
	versions              []string
}{
	{extension, "TrafficExtension", "trafficextensions", []string{"v1alpha1"}},
	{gatewayAPI, "GatewayClass", "gatewayclasses", []string{"v1", "v1beta1"}},
	{gatewayAPI, "Gateway", "gateways", []string{"v1", "v1beta1"}},
	{gatewayAPI, "ListenerSet", "listenersets", []string{"v1"}},
	{gatewayAPI, "HTTPRoute", "httproutes", []string{"v1", "v1beta1"}},
	{gatewayAPI, "GRPCRoute", "grpcroutes", []string{"v1", "v1alpha2"}},
	{gatewayAPI, "TCPRoute", "tcproutes", []string{"v1", "v1alpha2"}},
	{gatewayAPI, "TLSRoute", "tlsroutes", []string{"v1", "v1alpha3", "v1alpha2"}},
	{gatewayAPI, "UDPRoute", "udproutes", []string{"v1", "v1alpha2"}},
	{gatewayAPI, "ReferenceGrant", "referencegrants", []string{"v1", "v1beta1"}},
	{gatewayAPI, "BackendTLSPolicy", "backendtlspolicies", []string{"v1", "v1alpha3"}},
	{"gateway.networking.x-k8s.io", "XListenerSet", "xlistenersets", []string{"v1alpha1"}},
	{"gateway.networking.x-k8s.io", "XBackendTrafficPolicy", "xbackendtrafficpolicies", []string{"v1alpha1"}},
	{"inference.networking.k8s.io", "InferencePool", "inferencepools", []string{"v1"}},
	{"inference.networking.x-k8s.io", "InferencePool", "inferencepools", []string{"v1alpha2"}},
	{"multicluster.x-k8s.io", "ServiceExport", "serviceexports", []string{"v1beta1", "v1alpha1"}},
	{"multicluster.x-k8s.io", "ServiceImport", "serviceimports", []string{"v1beta1", "v1alpha1"}},
}
