package scope

import (
	networking "istio.io/api/networking/v1alpha3"
	"istio.io/api/type/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

const (
	gatewayNameLabel = "gateway.networking.k8s.io/gateway-name"
	gatewayAPIGroup  = "gateway.networking.k8s.io"
)

// targetable is a policy that selects pods by labels or by targetRefs.
type targetable interface {
	GetTargetRef() *v1beta1.PolicyTargetReference
	GetTargetRefs() []*v1beta1.PolicyTargetReference
	GetSelector() *v1beta1.WorkloadSelector
}

// envoyFilter makes an EnvoyFilter, which names its selector otherwise, targetable.
type envoyFilter struct{ *networking.EnvoyFilter }

func (e envoyFilter) GetTargetRef() *v1beta1.PolicyTargetReference { return nil }

func (e envoyFilter) GetSelector() *v1beta1.WorkloadSelector {
	if e.GetWorkloadSelector() == nil {
		return nil
	}
	return &v1beta1.WorkloadSelector{MatchLabels: e.GetWorkloadSelector().GetLabels()}
}

func targetRefs(policy targetable) []*v1beta1.PolicyTargetReference {
	if refs := policy.GetTargetRefs(); len(refs) > 0 {
		return refs
	}
	if ref := policy.GetTargetRef(); ref != nil {
		return []*v1beta1.PolicyTargetReference{ref}
	}
	return nil
}

// attaches reports that a policy of the proxy's own or the root namespace
// selects the proxy: by targetRefs to its Gateway, if it is one of the Gateway
// API's, else by labels (Istio pilot/pkg/model/policyattachment.go).
func attaches(policy targetable, namespace string, p *mesh.Proxy) bool {
	gateway, isGatewayAPI := p.Labels.Lookup(gatewayNameLabel)
	refs := targetRefs(policy)
	if len(refs) == 0 {
		return p.Labels.Include(policy.GetSelector().GetMatchLabels())
	}
	if !isGatewayAPI || namespace != p.Namespace {
		return false
	}
	for _, ref := range refs {
		if ns := ref.GetNamespace(); ns != "" && ns != namespace {
			continue
		}
		if ref.GetGroup() == gatewayAPIGroup && ref.GetKind() == "Gateway" && ref.GetName() == gateway {
			return true
		}
	}
	return false
}
