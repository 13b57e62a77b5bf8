// Package scope answers, for each distinct scope key, what a proxy's config is
// made from: the services visible to its namespace, those that its Sidecar
// imports or a VirtualService pulls in, the VirtualServices and
// DestinationRules that apply, and the Gateway servers that a router binds;
// each with the reason, recorded when it is decided. It refuses to say what is
// sent for them: that is package xds.
package scope

import (
	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// Scoper computes and keeps the distinct scopes of one view. It is not safe
// for use by several goroutines.
type Scoper struct {
	view     *mesh.View
	rec      Recorder
	explains bool
	memo     map[Key]*Scope

	visible         *visibility
	sidecars        *sidecars
	virtualServices *virtualServices
	rules           *ruleIndex
	keys            *keyIndex

	plains  map[plainKey]*Service
	imports map[importsKey]*imports
	common  map[source]*imported // of namespaces that are like others
	commons map[*imported]*Common

	gateways       gatewayMemo
	orderDependent map[string]bool // namespaces whose routers are (TRAP-3)
}

// NewScoper indexes a view for scoping; rec is told of each decision.
func NewScoper(view *mesh.View, rec Recorder) *Scoper {
	return &Scoper{
		view: view, rec: rec, explains: Explains(rec), memo: map[Key]*Scope{},
		visible: newVisibility(view), sidecars: indexSidecars(view), virtualServices: indexVirtualServices(view),
		rules: indexRules(view), keys: indexKeys(view),
		plains: map[plainKey]*Service{}, imports: map[importsKey]*imports{}, common: map[source]*imported{}, commons: map[*imported]*Common{}, orderDependent: map[string]bool{},
	}
}

// Visible reports that exportTo lets a namespace see a service (VIS-3; Istio
// PushContext.IsServiceVisible).
func (s *Scoper) Visible(svc *mesh.Service, namespace string) bool {
	return svc != nil && s.visible.visible(svc, namespace)
}

// VisibleServices are all services that a namespace sees, in istiod's order
// (VIS-2). The slice must not be changed.
func (s *Scoper) VisibleServices(namespace string) []*mesh.Service {
	return s.visible.services(namespace)
}

// For returns a proxy's scope. Proxies with the same Key share it.
func (s *Scoper) For(p *mesh.Proxy) *Scope {
	var cfg *sidecarConfig
	var gateways *MergedGateway
	if p.Kind == mesh.RouterProxy {
		gateways = s.MergedGateway(p)
	} else {
		cfg = s.sidecars.choose(p)
	}
	from, other := s.sidecars.sourceFor(p)
	in := s.importsOf(from, cfg, p.Namespace)
	key := s.key(p, cfg, gateways, in)
	key.shared = from == fromSidecarsRouter
	if known := s.memo[key]; known != nil {
		return known
	}
	made := &Scope{
		Key: key, View: s.view, Kind: p.Kind, Namespace: p.Namespace, Sidecar: cfg, Named: in.egress,
		Services: in.services, Visible: in.services, OutboundPolicy: in.policy, imports: in, scoper: s,
	}
	if p.Kind == mesh.SidecarProxy {
		made.Egress = in.egress
	} else if s.view.Flags.FilterGatewayClusterConfig {
		made.Services = s.filterForGateway(p, gateways, in.services)
	}
	made.OrderDependent = !s.explains && from != other &&
		(p.AnswersDNS() || !sameServices(in.services, s.importsOf(other, cfg, p.Namespace).services))
	if made.OrderDependent {
		s.orderDependent[p.Namespace] = true
	}
	s.memo[key] = made
	return made
}

// sameServices reports lists that make the same clusters, whatever their order.
func sameServices(a, b []*Service) bool {
	if len(a) != len(b) {
		return false
	}
	ports := make(map[*mesh.Service][]mesh.Port, len(a))
	for _, svc := range a {
		ports[svc.Service] = svc.Ports
	}
	for _, svc := range b {
		if have, ok := ports[svc.Service]; !ok || !samePorts(have, svc.Ports) {
			return false
		}
	}
	return true
}
