package xds

import (
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// telemetries are the Telemetry objects that apply to a proxy, widest first:
// the root namespace's, the namespace's, then those that select the workload
// (VIS-11; Istio pilot/pkg/model/telemetry.go applicableTelemetries).
func (b *Builder) telemetries(p *mesh.Proxy) []*telemetry.Telemetry {
	if b.view.Policies == nil {
		return nil
	}
	var out []*telemetry.Telemetry
	wide := func(namespace string) {
		for _, t := range b.view.Policies.Telemetries {
			if t.Namespace == namespace && len(t.Spec.GetSelector().GetMatchLabels()) == 0 && len(targetsOf(t.Spec)) == 0 {
				out = append(out, t.Spec)
				return
			}
		}
	}
	root := b.view.RootNamespace
	if root != "" {
		wide(root)
	}
	if p.Namespace != root {
		wide(p.Namespace)
	}
	for _, t := range b.view.Policies.Telemetries {
		if t.Namespace != p.Namespace || len(t.Spec.GetSelector().GetMatchLabels()) == 0 && len(targetsOf(t.Spec)) == 0 {
			continue
		}
		if policyAttaches(p, t.Namespace, t.Spec) {
			out = append(out, t.Spec)
		}
	}
	return out
}

// targetable is a policy that names what it applies to by labels or by reference.
type targetable interface {
	GetSelector() *typev1beta1.WorkloadSelector
	GetTargetRef() *typev1beta1.PolicyTargetReference
	GetTargetRefs() []*typev1beta1.PolicyTargetReference
}

func targetsOf(policy targetable) []*typev1beta1.PolicyTargetReference {
	if refs := policy.GetTargetRefs(); len(refs) > 0 {
		return refs
	}
	if ref := policy.GetTargetRef(); ref != nil {
		return []*typev1beta1.PolicyTargetReference{ref}
	}
	return nil
}

// policyAttaches reports that a policy of a namespace that was looked up for
// the proxy applies to it (Istio pilot/pkg/model/policyattachment.go).
func policyAttaches(p *mesh.Proxy, namespace string, policy targetable) bool {
	refs := targetsOf(policy)
	gateway, isGateway := p.Labels.Lookup(gatewayNameLabel)
	if len(refs) == 0 {
		return p.Labels.Include(policy.GetSelector().GetMatchLabels())
	}
	if !isGateway || namespace != p.Namespace {
		return false
	}
	for _, ref := range refs {
		if (ref.GetNamespace() == "" || ref.GetNamespace() == p.Namespace) &&
			ref.GetGroup() == "gateway.networking.k8s.io" && ref.GetKind() == "Gateway" && ref.GetName() == gateway {
			return true
		}
	}
	return false
}

// lookUpTelemetry fills in logs, tracing and statistics.
func (b *Builder) lookUpTelemetry(p *mesh.Proxy, class listenerClass, look *classLookups) {
	applied := b.telemetries(p)
	b.lookUpLogs(applied, class, look)
	look.tracing, look.requestID = b.tracing(p, class, applied)
	look.httpStats, look.tcpStats = b.statsFilters(applied, class)
}

// provider finds an extension provider by name, whatever its case; nil if none.
func (b *Builder) provider(name string) *meshconfig.MeshConfig_ExtensionProvider {
	for _, p := range b.view.Config.GetExtensionProviders() {
		if strings.EqualFold(p.GetName(), name) {
			return p
		}
	}
	return nil
}

func providerNames(refs []*telemetry.ProviderRef) []string {
	var names []string
	for _, r := range refs {
		names = append(names, r.GetName())
	}
	return names
}

// providerCluster is the cluster of a provider's service, "ns/host" or "host";
// false: istiod does not find it, or finds several (Istio
// pilot/pkg/model/telemetry_logging.go LookupCluster).
func (b *Builder) providerCluster(service string, port uint32) (host, cluster string, ok bool) {
	var found *mesh.Service
	if parts := strings.Split(service, "/"); len(parts) == 2 {
		found = b.view.Service(parts[1], parts[0])
	} else {
		for _, s := range b.view.ServicesByHost(service) {
			if found != nil && found.Namespace != s.Namespace {
				return "", "", false
			}
			if found == nil {
				found = s
			}
		}
	}
	if service == "" || found == nil {
		return "", "", false
	}
	return found.Host, outboundName(int(port), "", found.Host), true
}

// workloadMode is the side that a class's listeners are on.
func workloadMode(class listenerClass) telemetry.WorkloadMode {
	if class == inboundClass {
		return telemetry.WorkloadMode_SERVER
	}
	return telemetry.WorkloadMode_CLIENT
}
