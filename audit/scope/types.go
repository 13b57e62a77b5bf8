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
	// Services is the scope-wide set, one for each host name, in istiod's order
	// (SC-20 for sidecars; VIS-2 for routers, filtered by CDS-12 where the flag is on).
	Services []*Service
	// OutboundPolicy is the effective outboundTrafficPolicy; nil on routers.
	OutboundPolicy *networking.OutboundTrafficPolicy

	rules  *ruleIndex
	byHost map[string]*Service
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
func (e *EgressListener) CatchAll() bool {
	return e.Spec == nil || e.Spec.GetPort().GetNumber() == 0 && e.Spec.GetPort() == nil
}

// Key is what decides a proxy's outbound sets. Comparable.
type Key struct {
	Revision                   string
	Kind                       mesh.ProxyKind
	Namespace                  string
	Sidecar                    string // "ns/name"; empty: default scope
	Labels                     string // the labels that some workloadSelector (DestinationRule, EnvoyFilter …) or sourceLabels looks at, canonical
	Gateways                   string // the merged gateway servers of a router, canonical
	Version                    mesh.Version
	Domain                     string
	Families                   string // "4", "6", "46"
	Network, Cluster, Locality string
	Features                   string // DNS capture, interception mode … that change sets
}

// DestinationRule is the rule that applies to a service for a proxy: possibly
// merged from several objects (DR-5).
type DestinationRule struct {
	Spec    *networking.DestinationRule
	From    []*snapshot.Meta // the objects, the first is the one that istiod names
	Because result.ReasonID
}

// Recorder is told of every decision. The whole-mesh run interns the reasons
// of what is included; explain also listens to what is turned away.
type Recorder interface {
	// Included interns a reason and returns its id.
	Included(r result.Reason) result.ReasonID
	// Excluded tells that host (a service host, listener name or virtual host)
	// was turned away at a gate. subject is what was looked at.
	Excluded(subject string, r result.Reason)
}

// ruleIndex finds DestinationRules for a scope (DR-4).
type ruleIndex struct{}
