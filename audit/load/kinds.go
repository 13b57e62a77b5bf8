package load

import (
	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	telemetryv1 "istio.io/client-go/pkg/apis/telemetry/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	k8snetworkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"google.golang.org/protobuf/proto"
)

// kind says how objects of a kind are decoded.
type kind struct {
	cluster  bool // cluster-scoped
	versions map[string]func() runtime.Object
	// Of Istio's kinds: the message to decode the spec and the status into. A
	// nil status is not read.
	spec   func(runtime.Object) proto.Message
	status func(runtime.Object) proto.Message
	// unmodelled: any version; only the metadata is read.
	unmodelled bool
}

type groupKind = schema.GroupKind

func of[T any, P interface {
	*T
	runtime.Object
}]() runtime.Object {
	return P(new(T))
}

func core(make func() runtime.Object) kind {
	return kind{versions: map[string]func() runtime.Object{"v1": make}}
}

func clusterScoped(make func() runtime.Object) kind {
	k := core(make)
	k.cluster = true
	return k
}

// istio decodes every version into the one type P: the versions of Istio's
// kinds differ in name only.
func istio[T any, P interface {
	*T
	runtime.Object
}](spec func(P) proto.Message, versions ...string) kind {
	k := kind{
		versions: map[string]func() runtime.Object{},
		spec:     func(o runtime.Object) proto.Message { return spec(o.(P)) },
	}
	for _, v := range versions {
		k.versions[v] = of[T, P]
	}
	return k
}

func withStatus[P runtime.Object](k kind, status func(P) proto.Message) kind {
	k.status = func(o runtime.Object) proto.Message { return status(o.(P)) }
	return k
}

const (
	networking = "networking.istio.io"
	security   = "security.istio.io"
	telemetry  = "telemetry.istio.io"
	extension  = "extensions.istio.io"
	gatewayAPI = "gateway.networking.k8s.io"
)

// kinds are all the kinds that are read. Everything else is ignored.
var kinds = map[groupKind]kind{
	{Kind: "Namespace"}: clusterScoped(of[corev1.Namespace]),
	{Kind: "Node"}:      clusterScoped(of[corev1.Node]),
	{Kind: "Service"}:   core(of[corev1.Service]),
	{Kind: "Endpoints"}: core(of[corev1.Endpoints]),
	{Kind: "Pod"}:       core(of[corev1.Pod]),
	{Kind: "ConfigMap"}: core(of[corev1.ConfigMap]),

	{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: core(of[discoveryv1.EndpointSlice]),

	{Group: "apps", Kind: "Deployment"}:  core(of[appsv1.Deployment]),
	{Group: "apps", Kind: "StatefulSet"}: core(of[appsv1.StatefulSet]),
	{Group: "apps", Kind: "DaemonSet"}:   core(of[appsv1.DaemonSet]),
	{Group: "apps", Kind: "ReplicaSet"}:  core(of[appsv1.ReplicaSet]),
	{Group: "batch", Kind: "Job"}:        core(of[batchv1.Job]),
	{Group: "batch", Kind: "CronJob"}:    core(of[batchv1.CronJob]),
	{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: {versions: map[string]func() runtime.Object{
		"v1": of[autoscalingv1.HorizontalPodAutoscaler],
		"v2": of[autoscalingv2.HorizontalPodAutoscaler],
	}},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}: clusterScoped(of[admissionv1.MutatingWebhookConfiguration]),

	{Group: "networking.k8s.io", Kind: "Ingress"}:      core(of[k8snetworkingv1.Ingress]),
	{Group: "networking.k8s.io", Kind: "IngressClass"}: clusterScoped(of[k8snetworkingv1.IngressClass]),

	{Group: networking, Kind: "ServiceEntry"}: withStatus(
		istio(func(o *networkingv1.ServiceEntry) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
		func(o *networkingv1.ServiceEntry) proto.Message { return &o.Status }),
	{Group: networking, Kind: "WorkloadEntry"}: withStatus(
		istio(func(o *networkingv1.WorkloadEntry) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
		func(o *networkingv1.WorkloadEntry) proto.Message { return &o.Status }),
	{Group: networking, Kind: "WorkloadGroup"}:   istio(func(o *networkingv1.WorkloadGroup) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
	{Group: networking, Kind: "DestinationRule"}: istio(func(o *networkingv1.DestinationRule) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
	{Group: networking, Kind: "VirtualService"}:  istio(func(o *networkingv1.VirtualService) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
	{Group: networking, Kind: "Gateway"}:         istio(func(o *networkingv1.Gateway) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
	{Group: networking, Kind: "Sidecar"}:         istio(func(o *networkingv1.Sidecar) proto.Message { return &o.Spec }, "v1", "v1beta1", "v1alpha3"),
	{Group: networking, Kind: "EnvoyFilter"}:     istio(func(o *networkingv1alpha3.EnvoyFilter) proto.Message { return &o.Spec }, "v1alpha3"),
	{Group: networking, Kind: "ProxyConfig"}:     istio(func(o *networkingv1beta1.ProxyConfig) proto.Message { return &o.Spec }, "v1beta1"),

	{Group: security, Kind: "PeerAuthentication"}:    istio(func(o *securityv1.PeerAuthentication) proto.Message { return &o.Spec }, "v1", "v1beta1"),
	{Group: security, Kind: "RequestAuthentication"}: istio(func(o *securityv1.RequestAuthentication) proto.Message { return &o.Spec }, "v1", "v1beta1"),
	{Group: security, Kind: "AuthorizationPolicy"}:   istio(func(o *securityv1.AuthorizationPolicy) proto.Message { return &o.Spec }, "v1", "v1beta1"),
	{Group: telemetry, Kind: "Telemetry"}:            istio(func(o *telemetryv1.Telemetry) proto.Message { return &o.Spec }, "v1", "v1alpha1"),
	{Group: extension, Kind: "WasmPlugin"}:           istio(func(o *extensionsv1alpha1.WasmPlugin) proto.Message { return &o.Spec }, "v1alpha1"),

	{Group: extension, Kind: "TrafficExtension"}:                          {unmodelled: true},
	{Group: gatewayAPI, Kind: "GatewayClass"}:                             {unmodelled: true, cluster: true},
	{Group: gatewayAPI, Kind: "Gateway"}:                                  {unmodelled: true},
	{Group: gatewayAPI, Kind: "ListenerSet"}:                              {unmodelled: true},
	{Group: gatewayAPI, Kind: "HTTPRoute"}:                                {unmodelled: true},
	{Group: gatewayAPI, Kind: "GRPCRoute"}:                                {unmodelled: true},
	{Group: gatewayAPI, Kind: "TCPRoute"}:                                 {unmodelled: true},
	{Group: gatewayAPI, Kind: "TLSRoute"}:                                 {unmodelled: true},
	{Group: gatewayAPI, Kind: "UDPRoute"}:                                 {unmodelled: true},
	{Group: gatewayAPI, Kind: "ReferenceGrant"}:                           {unmodelled: true},
	{Group: gatewayAPI, Kind: "BackendTLSPolicy"}:                         {unmodelled: true},
	{Group: "gateway.networking.x-k8s.io", Kind: "XListenerSet"}:          {unmodelled: true},
	{Group: "gateway.networking.x-k8s.io", Kind: "XBackendTrafficPolicy"}: {unmodelled: true},
	{Group: "inference.networking.k8s.io", Kind: "InferencePool"}:         {unmodelled: true},
	{Group: "inference.networking.x-k8s.io", Kind: "InferencePool"}:       {unmodelled: true},
	{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}:               {unmodelled: true},
	{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}:               {unmodelled: true},
}
