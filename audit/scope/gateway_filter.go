package scope

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// referencedServices on an EnvoyFilter lists services that its patches need (CDS-13).
const referencedServices = "envoyfilter.istio.io/referenced-services"

// wanted is the services that a filtered router keeps, by host name or by
// namespace and host name, each with the first reason.
type wanted struct {
	hosts  map[string]result.Reason
	scoped map[mesh.HostNamespace]result.Reason
}

// host adds a reference "host" or "namespace/host".
func (w *wanted) host(ref string, why result.Reason) {
	if ns, host, ok := strings.Cut(ref, "/"); ok {
		key := mesh.HostNamespace{Host: host, Namespace: ns}
		if _, known := w.scoped[key]; !known {
			w.scoped[key] = why
		}
		return
	}
	w.plain(ref, why)
}

func (w *wanted) plain(host string, why result.Reason) {
	if _, known := w.hosts[host]; !known {
		w.hosts[host] = why
	}
}

// filterForGateway leaves the services that a router refers to under
// PILOT_FILTER_GATEWAY_CLUSTER_CONFIG (CDS-11 … CDS-15; Istio
// PushContext.GatewayServices): destinations of VirtualServices that name one
// of its Gateways, whatever their exportTo, hosts and ports, and the extras.
func (s *Scoper) filterForGateway(p *mesh.Proxy, gateways *MergedGateway, services []*Service) []*Service {
	w := &wanted{map[string]result.Reason{}, map[mesh.HostNamespace]result.Reason{}}
	extras := s.view.Behaviours.GatewayExtras
	if gateways != nil {
		for _, name := range gateways.Names {
			s.wantDestinations(w, name)
		}
	}
	if gateways != nil || extras {
		for i, provider := range s.view.Config.GetExtensionProviders() {
			s.wantProvider(w, i, provider)
		}
		s.wantJWKS(w, p)
	}
	if extras {
		s.wantReferenced(w, p)
	}
	var kept []*Service
	for _, svc := range services {
		why, ok := w.hosts[svc.Host]
		if !ok {
			why, ok = w.scoped[mesh.HostNamespace{Host: svc.Host, Namespace: svc.Namespace}]
		}
		if !ok {
			if s.explains {
				s.rec.Excluded(svc.Host, result.Reason{Rule: "CDS-12", Word: "gateway-cluster-filter",
					Text: "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG: no VirtualService of the router's Gateways leads to it, and nothing else that counts refers to it"})
			}
			continue
		}
		copied := *svc
		copied.Because = s.rec.Included(why)
		kept = append(kept, &copied)
	}
	return kept
}

// wantDestinations wants what the VirtualServices of a gateway lead to.
func (s *Scoper) wantDestinations(w *wanted, gateway string) {
	clientNs := ""
	if s.view.Flags.ScopeGatewayToNamespace {
		clientNs, _, _ = strings.Cut(gateway, "/")
	}
	for _, vs := range s.virtualServices.all[gateway] {
		for _, d := range s.virtualServices.destinationsOf(vs, clientNs) {
			w.plain(d.host, result.Reason{Rule: "CDS-12", Word: "virtualservice-destination", Object: vs.Ref(), Field: d.field,
				Text: "VirtualService " + vs.Namespace + "/" + vs.Name + " of Gateway " + gateway + " leads to it"})
		}
	}
}

// wantProvider wants the service of an extension provider, used or not.
func (s *Scoper) wantProvider(w *wanted, index int, provider *meshconfig.MeshConfig_ExtensionProvider) {
	service, ok := s.providerService(provider)
	if !ok {
		return
	}
	why := result.Reason{Rule: "CDS-13", Word: "extension-provider", Field: "meshConfig.extensionProviders[" + provider.GetName() + "]",
		Text: "extension provider " + strconv.Quote(provider.GetName()) + " names it: a filtered gateway keeps the services of all providers, used or not"}
	if provider.GetName() == "" {
		why.Field = "meshConfig.extensionProviders[" + strconv.Itoa(index) + "]"
	}
	if s.view.Behaviours.GatewayExtras {
		w.host(service, why)
	} else {
		w.plain(service, why)
	}
}

// providerService is the service that a provider names; false for kinds that
// istiod does not look at.
func (s *Scoper) providerService(provider *meshconfig.MeshConfig_ExtensionProvider) (string, bool) {
	switch kind := provider.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzHttp:
		return kind.EnvoyExtAuthzHttp.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc:
		return kind.EnvoyExtAuthzGrpc.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		return kind.Zipkin.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		return kind.Datadog.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		return kind.Skywalking.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		return kind.Opentelemetry.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		return kind.EnvoyHttpAls.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		return kind.EnvoyTcpAls.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		return kind.EnvoyOtelAls.GetService(), true
	case *meshconfig.MeshConfig_ExtensionProvider_Sds:
		return kind.Sds.GetService(), s.view.Behaviours.SDSProvider
	case *meshconfig.MeshConfig_ExtensionProvider_Lightstep:
		return kind.Lightstep.GetService(), !s.view.Behaviours.SDSProvider
	case *meshconfig.MeshConfig_ExtensionProvider_Opencensus:
		return kind.Opencensus.GetService(), !s.view.Behaviours.SDSProvider
	}
	return "", false
}

// wantJWKS wants the hosts of JWKS addresses of the RequestAuthentications
// that select the router, where Envoy may fetch them itself.
func (s *Scoper) wantJWKS(w *wanted, p *mesh.Proxy) {
	if !fetchesJWKS(s.view.Flags.RemoteJWKS) || s.view.Policies == nil {
		return
	}
	for _, cfg := range s.view.Policies.RequestAuthentications {
		if !s.policyApplies(cfg.Namespace, p) || !attaches(cfg.Spec, cfg.Namespace, p) {
			continue
		}
		for i, rule := range cfg.Spec.GetJwtRules() {
			u, err := url.Parse(rule.GetJwksUri())
			if err != nil || u.Scheme != "http" && u.Scheme != "https" {
				continue
			}
			w.plain(u.Hostname(), result.Reason{Rule: "CDS-13", Word: "jwks", Object: cfg.Ref(),
				Field: "spec.jwtRules[" + strconv.Itoa(i) + "].jwksUri", Text: "the proxy itself fetches JWKS from it"})
		}
	}
}

// fetchesJWKS reads PILOT_JWT_ENABLE_REMOTE_JWKS (Istio pkg/jwt).
func fetchesJWKS(mode string) bool { return slices.Contains([]string{"hybrid", "true", "envoy"}, mode) }

// wantReferenced wants the services that EnvoyFilters of the router say they need.
func (s *Scoper) wantReferenced(w *wanted, p *mesh.Proxy) {
	for _, cfg := range s.view.EnvoyFilters {
		list := cfg.Annotations[referencedServices]
		if list == "" || !s.policyApplies(cfg.Namespace, p) || !attaches(envoyFilter{cfg.Spec}, cfg.Namespace, p) {
			continue
		}
		for _, ref := range strings.Split(list, ",") {
			w.host(ref, result.Reason{Rule: "CDS-13", Word: "envoyfilter-reference", Object: cfg.Ref(),
				Field: "metadata.annotations[" + referencedServices + "]", Text: "the EnvoyFilter says that it needs it"})
		}
	}
}

// policyApplies reports a namespace whose policies reach a proxy: its own or the root (VIS-11).
func (s *Scoper) policyApplies(namespace string, p *mesh.Proxy) bool {
	return namespace == p.Namespace || namespace == s.view.RootNamespace
}
