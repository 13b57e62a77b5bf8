package scope

import (
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

type sidecarConfig = snapshot.Config[*networking.Sidecar]

// sidecars is the index of Sidecars by namespace (SC-1, SC-2; Istio
// pilot/pkg/model/push_context.go initSidecarScopes).
type sidecars struct {
	byNamespace map[string][]*sidecarConfig // those with a workloadSelector first, each part oldest first
	root        *sidecarConfig              // of the root namespace, without a selector; nil if none
	// defaults name the first proxy of a namespace that no Sidecar applies to.
	defaults map[string]string
}

func indexSidecars(view *mesh.View) *sidecars {
	out := &sidecars{byNamespace: map[string][]*sidecarConfig{}, defaults: map[string]string{}}
	for _, selecting := range []bool{true, false} {
		for _, cfg := range view.Sidecars {
			if (cfg.Spec.GetWorkloadSelector() != nil) != selecting {
				continue
			}
			out.byNamespace[cfg.Namespace] = append(out.byNamespace[cfg.Namespace], cfg)
			if !selecting && out.root == nil && cfg.Namespace == view.RootNamespace {
				out.root = cfg
			}
		}
	}
	for _, p := range view.Proxies {
		if first, ok := out.defaults[p.Namespace]; p.Kind == mesh.SidecarProxy && (!ok || p.Name < first) && out.choose(p) == nil {
			out.defaults[p.Namespace] = p.Name
		}
	}
	return out
}

// choose returns the Sidecar that applies to a sidecar proxy, or nil for
// istiod's default scope. The root namespace's is the last resort of every
// namespace, also of one whose own Sidecars all select other pods.
func (s *sidecars) choose(p *mesh.Proxy) *sidecarConfig {
	for _, cfg := range s.byNamespace[p.Namespace] {
		if selector := cfg.Spec.GetWorkloadSelector(); selector == nil || p.Labels.Include(selector.GetLabels()) {
			return cfg
		}
	}
	return s.root
}

// imports is what a Sidecar, or the default scope, or a router gets in a
// namespace, whatever the single proxy. It is never changed once it is made.
type imports struct {
	*imported
	policy *networking.OutboundTrafficPolicy
	rules  map[string]foundRules // DestinationRules by host name; hosts without one are absent
	alike  *Common               // with the scopes of other namespaces; nil: with none
}

// imported is the part of imports that namespaces may share.
type imported struct {
	egress   []*EgressListener
	services []*Service
	byHost   map[string]*Service

	nodeDependent     bool // some service has an internalTrafficPolicy Local or prefers the node
	localityDependent bool // some service has a traffic distribution
}

type importsKey struct {
	from      source
	sidecar   *sidecarConfig
	namespace string
}

// source is how istiod comes to a scope's services.
type source uint8

const (
	fromSidecar        source = iota // a Sidecar, or the default scope
	fromVisible                      // a router's own: all that is visible
	fromSidecarsRouter               // a router that is given the default scope of a sidecar
)

// sourceFor tells where a router's services come from (SC-4). Where its
// namespace has a sidecar that no Sidecar applies to, istiod gives the router
// that sidecar's default scope if it was computed first, with what SC-14 and
// SC-16 make of it (TRAP-3). That depends on the order of connections: it is
// taken to be that of the proxies' names. other is the source of the other order.
func (s *sidecars) sourceFor(p *mesh.Proxy) (from, other source) {
	if p.Kind == mesh.SidecarProxy {
		return fromSidecar, fromSidecar
	}
	first, ok := s.defaults[p.Namespace]
	switch {
	case !ok:
		return fromVisible, fromVisible
	case first < p.Name:
		return fromSidecarsRouter, fromVisible
	}
	return fromVisible, fromSidecarsRouter
}

// importsOf computes what a Sidecar (nil: the default scope) imports in a
// namespace, once.
func (s *Scoper) importsOf(from source, cfg *sidecarConfig, ns string) *imports {
	key := importsKey{from, cfg, ns}
	if in := s.imports[key]; in != nil {
		return in
	}
	in := &imports{}
	if cfg == nil && s.likeOthers(from, ns) {
		if s.common[from] == nil {
			s.common[from] = s.importFor(from, cfg, ns)
		}
		in.imported = s.common[from]
		in.alike = s.commonFor(in.imported, ns)
	} else {
		in.imported = s.importFor(from, cfg, ns)
	}
	if from == fromSidecar {
		in.policy = s.outboundPolicy(cfg)
	}
	if in.alike != nil {
		in.rules = in.alike.rules
	} else {
		in.rules = s.selectRules(ns, in.services)
	}
	s.imports[key] = in
	return in
}

// likeOthers reports a namespace whose default scope has nothing of its own:
// it sees public services and VirtualServices only, and owns no service that
// the choice of a namespace for a host would prefer or that is hidden from itself.
func (s *Scoper) likeOthers(from source, ns string) bool {
	if s.explains || len(s.visible.exported[ns]) > 0 {
		return false
	}
	if from == fromVisible {
		return true
	}
	for _, svc := range s.visible.byNamespace[ns] {
		if s.visible.contested[svc.Host] || !s.visible.isPublic[svc.Index] {
			return false
		}
	}
	return s.virtualServices.onlyPublic(ns)
}

// importFor computes what is imported in a namespace.
func (s *Scoper) importFor(from source, cfg *sidecarConfig, ns string) *imported {
	b := &importer{Scoper: s, from: from, sidecar: cfg, ns: ns, position: map[string]int{}}
	b.tellHidden()
	if from == fromVisible {
		because := b.hostReasons(nil)
		for _, svc := range s.visible.services(ns) {
			b.add(s.plain(svc, because(svc, 0)))
		}
		return b.finish(nil)
	}
	specs := specOf(cfg).GetEgress()
	if len(specs) == 0 {
		specs = []*networking.IstioEgressListener{nil}
	}
	var egress []*EgressListener
	for i, spec := range specs {
		egress = append(egress, b.listener(i, spec))
	}
	for _, e := range egress {
		for _, svc := range e.Services {
			b.add(svc)
		}
		b.pullIn(e)
	}
	return b.finish(egress)
}

// outboundPolicy is the Sidecar's outboundTrafficPolicy, else the mesh's mode (SC-23).
func (s *Scoper) outboundPolicy(cfg *sidecarConfig) *networking.OutboundTrafficPolicy {
	if own := specOf(cfg).GetOutboundTrafficPolicy(); own != nil {
		return own
	}
	if s.view.Config.GetOutboundTrafficPolicy() == nil {
		return nil
	}
	mode := s.view.Config.GetOutboundTrafficPolicy().GetMode()
	return &networking.OutboundTrafficPolicy{Mode: networking.OutboundTrafficPolicy_Mode(mode)}
}

// specOf is the Sidecar's spec; nil for none.
func specOf(cfg *sidecarConfig) *networking.Sidecar {
	if cfg == nil {
		return nil
	}
	return cfg.Spec
}

// egressField names an entry of a Sidecar, "spec.egress[0].hosts[1]"; host -1
// names the whole list.
func egressField(listener, host int) string {
	field := "spec.egress[" + strconv.Itoa(listener) + "].hosts"
	if host >= 0 {
		field += "[" + strconv.Itoa(host) + "]"
	}
	return field
}
