package xds

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// SizeGaps are what the bytes of the given proxies leave out or assume, with
// the proxies that each touches: nothing where nothing applies.
func (b *Builder) SizeGaps(proxies []*mesh.Proxy) []result.Gap {
	out := b.secretGaps(proxies)
	if b.view.Policies == nil {
		return out
	}
	touched := func(g result.Gap, namespace string, policy targetable) {
		for _, p := range proxies {
			if (namespace == p.Namespace || namespace == b.view.RootNamespace) && policyAttaches(p, namespace, policy) {
				g.Proxies = append(g.Proxies, proxyID(p))
			}
		}
		if len(g.Proxies) > 0 {
			out = append(out, g)
		}
	}
	for _, policy := range b.view.Policies.RequestAuthentications {
		if n := b.fetchedSets(policy.Spec.GetJwtRules()); n > 0 {
			touched(result.Gap{Kind: result.Assumed, Counted: true, Object: policy.Ref(), Text: fmt.Sprintf(
				"key sets that istiod fetches from a jwksUri: %d, taken to be %d bytes in each chain that checks tokens (--jwks-bytes)", n, len(b.fetchedKeys()))}, policy.Namespace, policy.Spec)
		}
	}
	for _, plugin := range b.view.Policies.WasmPlugins {
		if plugin.Spec.GetImagePullSecret() != "" {
			touched(result.Gap{Kind: result.Unmodelled, Object: plugin.Ref(),
				Text: "istiod sends the content of its imagePullSecret; Secrets are not read: not in the bytes"}, plugin.Namespace, plugin.Spec)
		}
	}
	return out
}

func proxyID(p *mesh.Proxy) string { return p.Namespace + "/" + p.Name }

// secretGaps are the certificates that istiod sends by SDS: those that Gateways
// and DestinationRules name by credentialName.
func (b *Builder) secretGaps(proxies []*mesh.Proxy) []result.Gap {
	const text = "istiod sends the certificates of its credentialName by SDS; Secrets are not read: not in the bytes"
	var out []result.Gap
	var routers []string
	byGateway := map[*snapshot.Config[*networking.Gateway]][]string{}
	for _, p := range proxies {
		if p.Kind != mesh.RouterProxy {
			continue
		}
		routers = append(routers, proxyID(p))
		merged := b.scoper.MergedGateway(p)
		if merged == nil {
			continue
		}
		for _, port := range merged.Ports {
			for _, server := range port.Servers {
				tls := server.Spec.GetTls()
				if names := byGateway[server.Gateway]; (tls.GetCredentialName() != "" || len(tls.GetCredentialNames()) > 0) && !slices.Contains(names, proxyID(p)) {
					byGateway[server.Gateway] = append(names, proxyID(p))
				}
			}
		}
	}
	for _, gateway := range b.view.Gateways {
		if names := byGateway[gateway]; len(names) > 0 {
			out = append(out, result.Gap{Kind: result.Unmodelled, Object: gateway.Ref(), Proxies: names, Text: text})
		}
	}
	for _, rule := range b.view.DestinationRules {
		if !namesCredential(rule.Spec) {
			continue
		}
		names := routers
		if selector := rule.Spec.GetWorkloadSelector(); selector != nil {
			names = nil
			for _, p := range proxies {
				if p.Namespace == rule.Namespace && p.Labels.Include(selector.GetMatchLabels()) {
					names = append(names, proxyID(p))
				}
			}
		}
		if len(names) > 0 {
			out = append(out, result.Gap{Kind: result.Unmodelled, Object: rule.Ref(), Proxies: names, Text: text})
		}
	}
	return out
}

// namesCredential reports a DestinationRule with a credentialName.
func namesCredential(rule *networking.DestinationRule) bool {
	policies := []*networking.TrafficPolicy{rule.GetTrafficPolicy()}
	for _, subset := range rule.GetSubsets() {
		policies = append(policies, subset.GetTrafficPolicy())
	}
	return slices.ContainsFunc(policies, func(policy *networking.TrafficPolicy) bool {
		return policy.GetTls().GetCredentialName() != "" ||
			slices.ContainsFunc(policy.GetPortLevelSettings(), func(port *networking.TrafficPolicy_PortTrafficPolicy) bool {
				return port.GetTls().GetCredentialName() != ""
			})
	})
}
