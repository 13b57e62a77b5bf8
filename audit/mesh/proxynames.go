package mesh

import (
	"cmp"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// ServiceCluster is the cluster that the proxy's node names itself by (Istio
// pkg/bootstrap/config.go getServiceCluster).
func (p *Proxy) ServiceCluster() string {
	name := p.Config.GetServiceCluster()
	canonical, _ := CanonicalService(p.Labels, cmp.Or(p.WorkloadName, "istio-proxy"))
	switch p.Config.GetTracingServiceName() {
	case meshconfig.ProxyConfig_CANONICAL_NAME_ONLY:
		name = canonical
	case meshconfig.ProxyConfig_CANONICAL_NAME_AND_NAMESPACE:
		return canonical + "." + p.Namespace
	}
	if name != "" && name != "istio-proxy" {
		return name
	}
	for _, label := range []string{"app", "app.kubernetes.io/name", "service.istio.io/canonical-name"} {
		if app, ok := p.Labels.Lookup(label); ok {
			return app + "." + p.Namespace
		}
	}
	if p.WorkloadName != "" {
		return p.WorkloadName + "." + p.Namespace
	}
	return "istio-proxy." + p.Namespace
}

// TracingNames are the names that tracing providers may call the proxy by. The
// second is empty unless a provider of the mesh uses it.
func (p *Proxy) TracingNames() (cluster, conventional string) {
	for _, provider := range p.View.Config.GetExtensionProviders() {
		if provider.GetOpentelemetry().GetServiceAttributeEnrichment() == meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS {
			return p.ServiceCluster(), p.OpenTelemetryName()
		}
	}
	return p.ServiceCluster(), ""
}

// OpenTelemetryName is the service name by OpenTelemetry's conventions for
// Kubernetes (Istio pilot/pkg/networking/core/tracing.go otelServiceName).
func (p *Proxy) OpenTelemetryName() string {
	if p.Pod != nil {
		if name := p.Pod.Annotations["resource.opentelemetry.io/service.name"]; name != "" {
			return name
		}
	}
	for _, name := range []string{p.Labels.Get("app.kubernetes.io/instance"), p.Labels.Get("app.kubernetes.io/name"), p.WorkloadName, p.Name} {
		if name != "" {
			return name
		}
	}
	if containers := p.Metadata.Raw["APP_CONTAINERS"]; containers != "" && !strings.Contains(containers, ",") {
		return containers
	}
	return "unknown_service"
}
