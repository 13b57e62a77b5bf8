package scope

import (
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// Common is what the scopes of namespaces that are alike have in common: the
// same services, egress listeners and DestinationRules, by identity. Scopes
// with the same Common differ in their Keys only.
type Common struct {
	// NamespaceMatters says that some route looks at the namespace of the
	// proxy: sourceNamespace of a match, or semantics of the Gateway API.
	NamespaceMatters bool

	rules map[string]foundRules
}

// Common is not nil if other namespaces' scopes may be like this one.
func (s *Scope) Common() *Common {
	if s.imports == nil {
		return nil
	}
	return s.imports.alike
}

// commonFor returns what is common to the namespaces that import the same and
// have no DestinationRules of their own; nil if ns has any.
func (s *Scoper) commonFor(in *imported, ns string) *Common {
	if !s.rules.foundAlike(ns) {
		return nil
	}
	known := s.commons[in]
	if known == nil {
		known = &Common{rules: s.selectRules(ns, in.services)}
		for _, e := range in.egress {
			known.NamespaceMatters = known.NamespaceMatters || slices.ContainsFunc(e.VirtualServices, looksAtNamespace)
		}
		s.commons[in] = known
	}
	return known
}

// foundAlike reports a client namespace for which the lookup finds what it
// finds for others: it has no rules, is not the root, and no exportTo names it.
func (x *ruleIndex) foundAlike(ns string) bool {
	return ns != x.root && x.local[ns] == nil && !x.named[ns]
}

// looksAtNamespace reports routes that depend on the namespace of the proxy.
func looksAtNamespace(vs *mesh.VirtualService) bool {
	if vs.Annotations["internal.istio.io/route-semantics"] != "" {
		return true
	}
	for _, route := range vs.Spec.GetHttp() {
		for _, m := range route.GetMatch() {
			if m.GetSourceNamespace() != "" {
				return true
			}
		}
	}
	for _, route := range vs.Spec.GetTls() {
		for _, m := range route.GetMatch() {
			if m.GetSourceNamespace() != "" {
				return true
			}
		}
	}
	for _, route := range vs.Spec.GetTcp() {
		for _, m := range route.GetMatch() {
			if m.GetSourceNamespace() != "" {
				return true
			}
		}
	}
	return false
}
