package scope

import (
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// The steps of the lookup, in order: the first with a match decides (DR-4).
const (
	clientStep = iota
	rootClientStep
	serviceStep
	rootStep
	lookupSteps
)

var stepTexts = [lookupSteps]string{
	clientStep:     "found in the client's own namespace, where istiod looks first",
	rootClientStep: "private to the root namespace, which is the client's own",
	serviceStep:    "found in the service's namespace: the client's own has none for the host",
	rootStep:       "found in the root namespace: neither the client's nor the service's has one for the host",
}

// foundRules are the rules of one host that a lookup found, in istiod's order.
type foundRules struct {
	rules []*rule
	step  int
}

// lookup finds the rules for a service in a client namespace (DR-4; Istio
// PushContext.destinationRule); no rules: none apply.
func (x *ruleIndex) lookup(clientNs string, svc *mesh.Service) foundRules {
	if clientNs != x.root {
		if rules := x.local[clientNs].find(svc.Host); rules != nil {
			return foundRules{rules, clientStep}
		}
	} else if rules := x.rootLocal.find(svc.Host); rules != nil {
		return foundRules{rules, rootClientStep}
	}
	if rules := exportedTo(clientNs, x.exported[svc.Namespace].find(svc.Host)); len(rules) > 0 {
		return foundRules{rules, serviceStep}
	}
	return foundRules{exportedTo(clientNs, x.exported[x.root].find(svc.Host)), rootStep}
}

// exportedTo leaves the rules that a client namespace may use.
func exportedTo(clientNs string, rules []*rule) []*rule {
	usable := func(r *rule) bool {
		return len(r.exportTo) == 0 || slices.Contains(r.exportTo, exportPublic) || slices.Contains(r.exportTo, clientNs)
	}
	if !slices.ContainsFunc(rules, func(r *rule) bool { return !usable(r) }) {
		return rules
	}
	var out []*rule
	for _, r := range rules {
		if usable(r) {
			out = append(out, r)
		}
	}
	return out
}

// selectRules finds the rules of every service of a scope-wide set, by host
// name; hosts without one are absent.
func (s *Scoper) selectRules(ns string, services []*Service) map[string]foundRules {
	out := map[string]foundRules{}
	for _, svc := range services {
		found := s.rules.lookup(ns, svc.Service)
		if len(found.rules) > 0 {
			out[svc.Host] = found
		}
		if s.explains {
			s.tellUnusedRules(ns, svc.Service, found)
		}
	}
	return out
}

// DestinationRule returns the rule for a service's outbound traffic (DR-4 …
// DR-6; Istio SidecarScope.DestinationRule): the first whose workloadSelector
// selects the proxy, else the last without a selector. It is nil if there is
// none, or the scope has no service of the host name.
func (s *Scope) DestinationRule(svc *mesh.Service, p *mesh.Proxy) *DestinationRule {
	return s.ruleFor(svc, func(r *rule) bool {
		return r.owner.Namespace == s.Namespace && p.Labels.Include(r.spec.GetWorkloadSelector().GetMatchLabels())
	})
}

// InboundDestinationRule returns the rule for traffic to a proxy's own
// service, for which no workloadSelector counts.
func (s *Scope) InboundDestinationRule(svc *mesh.Service, _ *mesh.Proxy) *DestinationRule {
	return s.ruleFor(svc, func(*rule) bool { return false })
}

func (s *Scope) ruleFor(svc *mesh.Service, selects func(*rule) bool) *DestinationRule {
	if svc == nil || s.imports == nil {
		return nil
	}
	found := s.imports.rules[svc.Host]
	var last *rule
	for _, r := range found.rules {
		if r.spec.GetWorkloadSelector() == nil {
			last = r
		} else if selects(r) {
			return s.scoper.handOut(r, found.step)
		}
	}
	if last == nil {
		return nil
	}
	return s.scoper.handOut(last, found.step)
}

// handOut is a rule as scopes give it, made once for each step of the lookup.
func (s *Scoper) handOut(r *rule, step int) *DestinationRule {
	if r.given[step] == nil {
		r.given[step] = &DestinationRule{Spec: r.spec, From: r.from, Because: s.rec.Included(result.Reason{
			Rule: "DR-4", Word: "destinationrule-lookup", Object: r.owner.Ref(), Field: "spec.host", Text: stepTexts[step]})}
	}
	return r.given[step]
}

// tellUnusedRules tells which DestinationRules for a service's host the lookup
// did not take, and why.
func (s *Scoper) tellUnusedRules(ns string, svc *mesh.Service, found foundRules) {
	for _, w := range s.rules.written {
		if !mesh.HostSubsetOf(svc.Host, w.spec.GetHost()) || slices.ContainsFunc(found.rules, func(r *rule) bool { return slices.Contains(r.from, w.meta) }) {
			continue
		}
		s.rec.Excluded(svc.Host, result.Reason{Rule: "DR-4", Word: "destinationrule-lookup", Object: w.meta.Ref(), Field: "spec.host",
			Text: s.rules.whyUnused(w, ns, svc, found)})
	}
}

func (x *ruleIndex) whyUnused(w writtenRule, ns string, svc *mesh.Service, found foundRules) string {
	owner := w.meta.Namespace
	usable := len(w.exportTo) == 0 || slices.Contains(w.exportTo, exportPublic) || slices.Contains(w.exportTo, ns)
	switch {
	case owner != ns && owner != svc.Namespace && owner != x.root:
		return "istiod looks in the namespaces of the client (" + ns + "), the service (" + svc.Namespace + ") and the root (" + x.root + ") only, not in " + owner
	case owner == ns && owner != svc.Namespace && owner != x.root && !w.usableAtHome():
		return "its exportTo leaves out its own namespace"
	case owner != ns && !usable:
		return "exportTo does not let namespace " + ns + " use it"
	case len(found.rules) == 0:
		return "no step of the lookup finds it for namespace " + ns
	}
	return "DestinationRule " + ownerName(found.rules[0].owner) + " decides instead: " + stepTexts[found.step] + ", and rules of different namespaces or hosts do not merge"
}

func ownerName(m *snapshot.Meta) string { return m.Namespace + "/" + m.Name }
