package scope

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Scope is what one distinct scope key sees: what is visible, imported and
// chosen, before it is projected to xDS. It is shared by all proxies with the
// key and never changed.
type Scope struct {
	Key       Key
	View      *mesh.View
	Kind      mesh.ProxyKind
	Namespace string // config namespace

	// Sidecar is the one that applies; nil: istiod's default scope, or a router.
	Sidecar *snapshot.Config[*networking.Sidecar]
	// Egress are the egress listeners in order; a router has none, and the
	// default scope one with hosts */*.
	Egress []*EgressListener
	// Named are the egress listeners whose services the agent's DNS server is
	// told of: Egress, and those of the sidecars' scope on a router that is given it (TRAP-3).
	Named []*EgressListener
	// Services is the scope-wide set that clusters are made of, one for each
	// host name, in istiod's order (SC-20 for sidecars; VIS-2 for routers,
	// filtered by CDS-12 where PILOT_FILTER_GATEWAY_CLUSTER_CONFIG is on).
	Services []*Service
	// Visible is Services before CDS-12: what a router's SNI-DNAT clusters
	// (CDS-15), routes and DestinationRules look at. For a sidecar it is Services.
	Visible []*Service
	// OutboundPolicy is the effective outboundTrafficPolicy (SC-23); nil on routers.
	OutboundPolicy *networking.OutboundTrafficPolicy
	// OrderDependent says that a router would have other Services if the
	// proxies of its namespace connected in another order (TRAP-3).
	OrderDependent bool

	imports *imports
	scoper  *Scoper
}

// Service returns the scope-wide service of a host name, from Visible; nil if none.
func (s *Scope) Service(host string) *Service {
	if s.imports == nil {
		return nil
	}
	return s.imports.byHost[host]
}

// DependsOn are the VirtualServices, with their delegates, and the
// DestinationRules of which a change makes istiod push to a sidecar of the scope
// (Istio SidecarScope.AddConfigDependencies), each once.
func (s *Scope) DependsOn() []*snapshot.Meta {
	var out []*snapshot.Meta
	seen := map[*snapshot.Meta]bool{}
	add := func(m *snapshot.Meta) {
		if !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	for _, l := range s.Egress {
		for _, vs := range l.VirtualServices {
			add(vs.Meta)
			for _, delegate := range vs.Delegates {
				add(delegate)
			}
		}
	}
	if s.imports == nil {
		return out
	}
	for _, found := range s.imports.rules {
		for _, r := range found.rules {
			for _, from := range r.from {
				add(from)
			}
		}
	}
	return out
}

// EgressFor returns the egress listener whose services and VirtualServices
// make the routes of a port, or of the bind address where port is 0 (RDS-3;
// Istio GetEgressListenerForRDS); nil if none does, and for routers.
func (s *Scope) EgressFor(port int, bind string) *EgressListener {
	for _, e := range s.Egress {
		if e.CatchAll() {
			return e
		}
		if int(e.Spec.GetPort().GetNumber()) == port && (port != 0 || e.Spec.GetBind() == bind) {
			return e
		}
	}
	return nil
}

// Service is a registry service as the scope has it: its ports may be trimmed
// (SC-12, SC-18) or merged from several (SC-20), its aliases restricted (SC-13).
type Service struct {
	*mesh.Service
	Ports   []mesh.Port      // instead of the registry's
	Aliases []mesh.AliasName // instead of the registry's
	// Pulled says that only a VirtualService's destination brought it in
	// (SC-16): it has clusters, but no listener, virtual host or DNS entry.
	Pulled  bool
	Because result.ReasonID
}

// Port returns the port that the scope has with the number, or nil.
func (s *Service) Port(number int) *mesh.Port {
	for i := range s.Ports {
		if s.Ports[i].Number == number {
			return &s.Ports[i]
		}
	}
	return nil
}

// EgressListener is one egress listener of a Sidecar, or the default one.
type EgressListener struct {
	Index int
	// Spec is the Sidecar's; nil for the default scope's listener.
	Spec *networking.IstioEgressListener
	// Services in istiod's order. Not one for each host: the several objects of
	// one ServiceEntry host and namespace all stay (REG-16, SC-14).
	Services []*Service
	// VirtualServices imported, in istiod's order; a router's are per gateway.
	VirtualServices []*mesh.VirtualService
}

// CatchAll reports a listener without a port.
func (e *EgressListener) CatchAll() bool { return e.Spec.GetPort() == nil }

// MatchesPort reports a listener that imports only services with its port,
// trimmed to it (SC-12): one with a port number that is no HTTP_PROXY.
func (e *EgressListener) MatchesPort() bool {
	port := e.Spec.GetPort()
	return port.GetNumber() != 0 && mesh.ParseProtocol(port.GetProtocol()) != mesh.HTTPProxy
}

// Key is what decides a proxy's outbound sets. Comparable.
type Key struct {
	Revision                   string
	Kind                       mesh.ProxyKind
	Namespace                  string
	Sidecar                    string // "ns/name"; empty: default scope
	Labels                     string // the pod's labels that matching selectors (DestinationRule, EnvoyFilter …), sourceLabels and failover priorities name, canonical
	Gateways                   string // the merged gateway servers of a router, canonical
	Version                    mesh.Version
	Domain                     string
	Families                   string // "4", "6", "46"
	Network, Cluster, Locality string // Locality is empty where nothing in the scope depends on it
	Features                   string // DNS capture, interception mode … that change sets or bytes

	shared bool // a router that has the default scope of its namespace's sidecars (TRAP-3)
}

// DestinationRule is the rule that applies to a service for a proxy: possibly
// merged from several objects (DR-5).
type DestinationRule struct {
	Spec    *networking.DestinationRule // its host is a full name
	From    []*snapshot.Meta            // the objects, the first is the one that istiod names
	Because result.ReasonID
}
