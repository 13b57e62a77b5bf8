package load

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// pager makes a listFunc of a typed client.
func pager[C interface {
	List(context.Context, metav1.ListOptions) (L, error)
}, L runtime.Object](client func(namespace string) C) listFunc {
	return func(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
		return client(namespace).List(ctx, o)
	}
}

// istioKinds are Istio's kinds, each at the versions that may be served, the
// newest first.
func (l *live) istioKinds() []liveKind {
	return []liveKind{
		{groupKind: groupKind{Group: networking, Kind: "ServiceEntry"}, resource: "serviceentries", facts: "hosts that are not Kubernetes services, and their endpoints", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().ServiceEntries)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().ServiceEntries)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().ServiceEntries)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "WorkloadEntry"}, resource: "workloadentries", facts: "workloads outside of Kubernetes", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().WorkloadEntries)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().WorkloadEntries)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().WorkloadEntries)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "WorkloadGroup"}, resource: "workloadgroups", facts: "groups of workloads outside of Kubernetes", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().WorkloadGroups)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().WorkloadGroups)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().WorkloadGroups)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "DestinationRule"}, resource: "destinationrules", facts: "subsets and traffic policies of clusters", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().DestinationRules)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().DestinationRules)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().DestinationRules)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "VirtualService"}, resource: "virtualservices", facts: "routes, and the services that they pull in", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().VirtualServices)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().VirtualServices)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().VirtualServices)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "Gateway"}, resource: "gateways", facts: "listeners of gateways", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().Gateways)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().Gateways)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().Gateways)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "Sidecar"}, resource: "sidecars", facts: "scopes: every sidecar is taken to have the default scope", versions: []liveVersion{
			{"v1", pager(l.istio.NetworkingV1().Sidecars)},
			{"v1beta1", pager(l.istio.NetworkingV1beta1().Sidecars)},
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().Sidecars)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "EnvoyFilter"}, resource: "envoyfilters", facts: "patches of the generated config", versions: []liveVersion{
			{"v1alpha3", pager(l.istio.NetworkingV1alpha3().EnvoyFilters)},
		}},
		{groupKind: groupKind{Group: networking, Kind: "ProxyConfig"}, resource: "proxyconfigs", facts: "proxy settings of namespaces and workloads", versions: []liveVersion{
			{"v1beta1", pager(l.istio.NetworkingV1beta1().ProxyConfigs)},
		}},
		{groupKind: groupKind{Group: security, Kind: "PeerAuthentication"}, resource: "peerauthentications", facts: "mTLS modes", versions: []liveVersion{
			{"v1", pager(l.istio.SecurityV1().PeerAuthentications)},
			{"v1beta1", pager(l.istio.SecurityV1beta1().PeerAuthentications)},
		}},
		{groupKind: groupKind{Group: security, Kind: "RequestAuthentication"}, resource: "requestauthentications", facts: "JWT filters", versions: []liveVersion{
			{"v1", pager(l.istio.SecurityV1().RequestAuthentications)},
			{"v1beta1", pager(l.istio.SecurityV1beta1().RequestAuthentications)},
		}},
		{groupKind: groupKind{Group: security, Kind: "AuthorizationPolicy"}, resource: "authorizationpolicies", facts: "RBAC filters", versions: []liveVersion{
			{"v1", pager(l.istio.SecurityV1().AuthorizationPolicies)},
			{"v1beta1", pager(l.istio.SecurityV1beta1().AuthorizationPolicies)},
		}},
		{groupKind: groupKind{Group: telemetry, Kind: "Telemetry"}, resource: "telemetries", facts: "access logs, tracing and metrics filters", versions: []liveVersion{
			{"v1", pager(l.istio.TelemetryV1().Telemetries)},
			{"v1alpha1", pager(l.istio.TelemetryV1alpha1().Telemetries)},
		}},
		{groupKind: groupKind{Group: extension, Kind: "WasmPlugin"}, resource: "wasmplugins", facts: "Wasm filters", versions: []liveVersion{
			{"v1alpha1", pager(l.istio.ExtensionsV1alpha1().WasmPlugins)},
		}},
	}
}
