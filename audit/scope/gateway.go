package scope

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Annotations that istiod's Gateway API conversion writes on the Gateways it makes.
const (
	gatewayServiceAnnotation   = "internal.istio.io/gateway-service"
	parentNamespaceAnnotation  = "internal.istio.io/parent-namespace"
	gatewaySemanticsAnnotation = "internal.istio.io/gateway-semantics"
	serviceAccountAnnotation   = "internal.istio.io/service-account-name"
)

// disableTranslationLabel on a Service keeps it from translating ports (GW-3).
const disableTranslationLabel = "experimental.istio.io/disable-gateway-port-translation"

// gatewayMemo keeps what was merged: by proxy, and by what decides it.
type gatewayMemo struct {
	byProxy map[*mesh.Proxy]*MergedGateway
	byKey   map[string]*MergedGateway
}

// MergedGateway returns the Gateway servers that a router binds (GW-1, GW-3,
// GW-5; Istio PushContext.mergeGateways), or nil if no Gateway selects it
// (GW-16). Routers with the same Key share the value.
func (s *Scoper) MergedGateway(p *mesh.Proxy) *MergedGateway {
	if g, ok := s.gateways.byProxy[p]; ok {
		return g
	}
	bound := s.boundGateways(p)
	key := gatewayKey(bound, p)
	g, ok := s.gateways.byKey[key]
	if !ok && len(bound) > 0 {
		g = s.mergeGateways(bound, p)
		g.key = key
	}
	if s.gateways.byProxy == nil {
		s.gateways = gatewayMemo{map[*mesh.Proxy]*MergedGateway{}, map[string]*MergedGateway{}}
	}
	s.gateways.byProxy[p], s.gateways.byKey[key] = g, g
	return g
}

// boundGateway is a Gateway that selects a router.
type boundGateway struct {
	*snapshot.Config[*networking.Gateway]
	targets []mesh.ServiceTarget
	// direct: bound by naming Services, as the Gateway API does, not by labels.
	direct bool
	ports  [][]int // of each server, resolved; nil for a server without a port
}

// boundGateways are the Gateways that select a router, oldest first.
func (s *Scoper) boundGateways(p *mesh.Proxy) []*boundGateway {
	var bound []*boundGateway
	for _, cfg := range s.view.Gateways {
		if s.view.Flags.ScopeGatewayToNamespace && cfg.Namespace != p.Namespace {
			s.unbound(cfg, "metadata.namespace", "PILOT_SCOPE_GATEWAY_TO_NAMESPACE: a Gateway binds routers of its own namespace only")
			continue
		}
		g := bind(cfg, p)
		if g == nil {
			s.unbound(cfg, "spec.selector", "the selector does not match the pod's labels")
			continue
		}
		for _, server := range cfg.Spec.GetServers() {
			g.ports = append(g.ports, g.resolve(server))
		}
		bound = append(bound, g)
	}
	return s.strictMerging(bound)
}

// bind returns nil if a Gateway does not select a router (GW-1).
func bind(cfg *snapshot.Config[*networking.Gateway], p *mesh.Proxy) *boundGateway {
	if services, ok := cfg.Annotations[gatewayServiceAnnotation]; ok {
		namespace := cfg.Annotations[parentNamespaceAnnotation]
		if namespace == "" {
			namespace = cfg.Namespace
		}
		named := strings.Split(services, ",")
		g := &boundGateway{Config: cfg, direct: true}
		for _, t := range p.Targets {
			if t.Service != nil && t.Service.Namespace == namespace && slices.Contains(named, t.Service.Host) {
				g.targets = append(g.targets, t)
			}
		}
		if len(g.targets) == 0 {
			return nil
		}
		return g
	}
	for name, value := range cfg.Spec.GetSelector() {
		if got, ok := p.Labels.Lookup(name); !ok || got != value {
			return nil
		}
	}
	return &boundGateway{Config: cfg, targets: p.Targets}
}

// strictMerging is GW-2: beside managed Gateways of the Gateway API only
// Gateways of their namespaces count.
func (s *Scoper) strictMerging(bound []*boundGateway) []*boundGateway {
	if !s.view.Flags.StrictGatewayMerging {
		return bound
	}
	managed := map[string]bool{}
	for _, g := range bound {
		if g.fromGatewayAPI() && g.Annotations[serviceAccountAnnotation] != "" {
			managed[g.Namespace] = true
		}
	}
	if len(managed) == 0 {
		return bound
	}
	return slices.DeleteFunc(bound, func(g *boundGateway) bool {
		if g.fromGatewayAPI() || managed[g.Namespace] {
			return false
		}
		s.rec.Excluded(g.Namespace+"/"+g.Name, result.Reason{Rule: "GW-2", Object: g.Ref(),
			Text: "the router is bound to a managed Gateway of the Gateway API in another namespace"})
		return true
	})
}

func (g *boundGateway) fromGatewayAPI() bool {
	return g.Annotations[gatewaySemanticsAnnotation] == "gateway"
}

// resolve translates a server's port to the ports listened on (GW-3). Bound by
// labels it is one: the target port of the first Service that has the port,
// else the port itself. Bound by Services it is all their target ports.
func (g *boundGateway) resolve(server *networking.Server) []int {
	if server.GetPort() == nil {
		return nil
	}
	number := int(server.GetPort().GetNumber())
	var ports []int
	for _, t := range g.targets {
		if t.Service == nil || t.Port.Number != number {
			continue
		}
		if _, off := t.Service.Labels[disableTranslationLabel]; off && !g.direct {
			continue
		}
		if !g.direct {
			return []int{t.TargetPort}
		}
		ports = append(ports, t.TargetPort)
	}
	if !g.direct {
		return []int{number}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// udp reports that a Service of the router has the port number as UDP (GW-6).
func (g *boundGateway) udp(number uint32) bool {
	return slices.ContainsFunc(g.targets, func(t mesh.ServiceTarget) bool {
		return t.Port.Number == int(number) && t.Port.Protocol == mesh.UDP
	})
}

func (s *Scoper) unbound(cfg *snapshot.Config[*networking.Gateway], field, text string) {
	if !Explains(s.rec) {
		return
	}
	s.rec.Excluded(cfg.Namespace+"/"+cfg.Name, result.Reason{Rule: "GW-1", Object: cfg.Ref(), Field: field, Text: text})
}

// gatewayKey is canonical: the bound Gateways in order, each with the resolved
// ports of its servers, marked where UDP is served beside them.
func gatewayKey(bound []*boundGateway, p *mesh.Proxy) string {
	var k strings.Builder
	for i, g := range bound {
		if i > 0 {
			k.WriteByte(' ')
		}
		k.WriteString(g.Namespace + "/" + g.Name)
		for j, ports := range g.ports {
			k.WriteString(":")
			for n, port := range ports {
				if n > 0 {
					k.WriteByte(',')
				}
				k.WriteString(strconv.Itoa(port))
			}
			if server := g.Spec.GetServers()[j]; g.udp(server.GetPort().GetNumber()) {
				k.WriteByte('u')
			}
		}
	}
	if p.Metadata.Unprivileged && len(bound) > 0 {
		k.WriteString(" unprivileged")
	}
	return k.String()
}
