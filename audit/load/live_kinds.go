package load

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// liveKind is a kind to be listed from the API server.
type liveKind struct {
	groupKind
	resource string
	versions []string // that may be served, the newest first
	facts    string   // what is not known without it
}

// liveKinds are all the kinds to list. Of one namespace alone the cluster-scoped
// kinds are not read.
func (l *live) liveKinds() []liveKind {
	list := slices.Concat(kubernetesResources, istioResources, unmodelledResources)
	if !l.mayServe(discoveryv1.SchemeGroupVersion.WithResource("endpointslices")) {
		list = append(list, liveKind{groupKind{Kind: "Endpoints"}, "endpoints", v1, "endpoints of services"})
	}
	if l.options.OnlyNamespace == "" {
		return list
	}
	return slices.DeleteFunc(list, func(k liveKind) bool { return kinds[k.groupKind].cluster })
}

var (
	v1            = []string{"v1"}
	networkingAll = []string{"v1", "v1beta1", "v1alpha3"}
	securityAll   = []string{"v1", "v1beta1"}
)

// kubernetesResources are the modelled ones of kinds that Kubernetes has itself.
var kubernetesResources = []liveKind{
	{groupKind{Kind: "Service"}, "services", v1, "Kubernetes services"},
	{groupKind{Kind: "Pod"}, "pods", v1, "the proxies, and the pods that services select"},
	{groupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}, "endpointslices", v1, "endpoints of services"},
	{groupKind{Group: "apps", Kind: "Deployment"}, "deployments", v1, "the control planes, their versions and flags, and the names of workloads"},
	{groupKind{Group: "apps", Kind: "StatefulSet"}, "statefulsets", v1, "names of workloads"},
	{groupKind{Group: "apps", Kind: "DaemonSet"}, "daemonsets", v1, "names of workloads"},
	{groupKind{Group: "apps", Kind: "ReplicaSet"}, "replicasets", v1, "names of workloads"},
	{groupKind{Group: "batch", Kind: "Job"}, "jobs", v1, "names of workloads"},
	{groupKind{Group: "batch", Kind: "CronJob"}, "cronjobs", v1, "names of workloads"},
	{groupKind{Group: "networking.k8s.io", Kind: "Ingress"}, "ingresses", v1, "whether Istio serves any Ingress"},
	{groupKind{Kind: "Namespace"}, "namespaces", v1, "labels of namespaces, which choose revisions and injection"},
	{groupKind{Kind: "Node"}, "nodes", v1, "localities of proxies and endpoints"},
	{groupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}, "mutatingwebhookconfigurations", v1, "revisions and tags that inject proxies"},
	{groupKind{Group: "networking.k8s.io", Kind: "IngressClass"}, "ingressclasses", v1, "whether Istio serves any Ingress"},
}

// istioResources are Istio's kinds that are modelled.
var istioResources = []liveKind{
	{groupKind{Group: networking, Kind: "ServiceEntry"}, "serviceentries", networkingAll, "hosts that are not Kubernetes services, and their endpoints"},
	{groupKind{Group: networking, Kind: "WorkloadEntry"}, "workloadentries", networkingAll, "workloads outside of Kubernetes"},
	{groupKind{Group: networking, Kind: "WorkloadGroup"}, "workloadgroups", networkingAll, "groups of workloads outside of Kubernetes"},
	{groupKind{Group: networking, Kind: "DestinationRule"}, "destinationrules", networkingAll, "subsets and traffic policies of clusters"},
	{groupKind{Group: networking, Kind: "VirtualService"}, "virtualservices", networkingAll, "routes, and the services that they pull in"},
	{groupKind{Group: networking, Kind: "Gateway"}, "gateways", networkingAll, "listeners of gateways"},
	{groupKind{Group: networking, Kind: "Sidecar"}, "sidecars", networkingAll, "scopes: every sidecar is taken to have the default scope"},
	{groupKind{Group: networking, Kind: "EnvoyFilter"}, "envoyfilters", []string{"v1alpha3"}, "patches of the generated config"},
	{groupKind{Group: networking, Kind: "ProxyConfig"}, "proxyconfigs", []string{"v1beta1"}, "proxy settings of namespaces and workloads"},
	{groupKind{Group: security, Kind: "PeerAuthentication"}, "peerauthentications", securityAll, "mTLS modes"},
	{groupKind{Group: security, Kind: "RequestAuthentication"}, "requestauthentications", securityAll, "JWT filters"},
	{groupKind{Group: security, Kind: "AuthorizationPolicy"}, "authorizationpolicies", securityAll, "RBAC filters"},
	{groupKind{Group: telemetry, Kind: "Telemetry"}, "telemetries", []string{"v1", "v1alpha1"}, "access logs, tracing and metrics filters"},
	{groupKind{Group: extension, Kind: "WasmPlugin"}, "wasmplugins", []string{"v1alpha1"}, "Wasm filters"},
}

// unmodelledFacts is what is not known without one of unmodelledResources.
const unmodelledFacts = "whether there is anything of this kind, which istiod reads and the model does not"

// unmodelledResources are the unmodelled ones of kinds: their objects are only noted.
var unmodelledResources = []liveKind{
	{groupKind{Group: extension, Kind: "TrafficExtension"}, "trafficextensions", []string{"v1alpha1"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "GatewayClass"}, "gatewayclasses", []string{"v1", "v1beta1"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "Gateway"}, "gateways", []string{"v1", "v1beta1"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "ListenerSet"}, "listenersets", v1, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "HTTPRoute"}, "httproutes", []string{"v1", "v1beta1"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "GRPCRoute"}, "grpcroutes", []string{"v1", "v1alpha2"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "TCPRoute"}, "tcproutes", []string{"v1", "v1alpha2"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "TLSRoute"}, "tlsroutes", []string{"v1", "v1alpha3", "v1alpha2"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "UDPRoute"}, "udproutes", []string{"v1", "v1alpha2"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "ReferenceGrant"}, "referencegrants", []string{"v1", "v1beta1"}, unmodelledFacts},
	{groupKind{Group: gatewayAPI, Kind: "BackendTLSPolicy"}, "backendtlspolicies", []string{"v1", "v1alpha3"}, unmodelledFacts},
	{groupKind{Group: "gateway.networking.x-k8s.io", Kind: "XListenerSet"}, "xlistenersets", []string{"v1alpha1"}, unmodelledFacts},
	{groupKind{Group: "gateway.networking.x-k8s.io", Kind: "XBackendTrafficPolicy"}, "xbackendtrafficpolicies", []string{"v1alpha1"}, unmodelledFacts},
	{groupKind{Group: "inference.networking.k8s.io", Kind: "InferencePool"}, "inferencepools", v1, unmodelledFacts},
	{groupKind{Group: "inference.networking.x-k8s.io", Kind: "InferencePool"}, "inferencepools", []string{"v1alpha2"}, unmodelledFacts},
	{groupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}, "serviceexports", []string{"v1beta1", "v1alpha1"}, unmodelledFacts},
	{groupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}, "serviceimports", []string{"v1beta1", "v1alpha1"}, unmodelledFacts},
}
