package scope

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// ruleIndex is the DestinationRules of a view by namespace and by who may use
// them (DR-1 … DR-5; Istio pilot/pkg/model/push_context.go setDestinationRules).
type ruleIndex struct {
	root      string
	local     map[string]*ruleSet // usable by proxies of the rule's namespace
	exported  map[string]*ruleSet // by the rule's namespace, not private to it
	rootLocal *ruleSet            // private ones of the root namespace
	written   []writtenRule       // as written, for explain
	named     map[string]bool     // namespaces that some exportTo names
}

// ruleSet holds rules by host; a host has several only where they do not merge.
type ruleSet struct {
	exact, wild map[string][]*rule
	wildHosts   []string // most specific first
}

// rule is one or several DestinationRules merged.
type rule struct {
	spec     *networking.DestinationRule
	owner    *snapshot.Meta // of the first
	from     []*snapshot.Meta
	exportTo []string                      // sorted, each once; empty: unset
	given    [lookupSteps]*DestinationRule // by step of the lookup, once handed out
}

// writtenRule is a DestinationRule with its host as a full name.
type writtenRule struct {
	meta     *snapshot.Meta
	spec     *networking.DestinationRule
	exportTo []string
}

func indexRules(view *mesh.View) *ruleIndex {
	x := &ruleIndex{root: view.RootNamespace, local: map[string]*ruleSet{}, exported: map[string]*ruleSet{}, rootLocal: newRuleSet(), named: map[string]bool{}}
	for _, cfg := range view.DestinationRules {
		x.written = append(x.written, writtenRule{&cfg.Meta, withFullHost(cfg, view), ruleExportTo(cfg.Spec)})
	}
	slices.SortStableFunc(x.written, compareRules)
	enhanced := view.Flags.EnhancedDestinationRuleMerge
	privateByDefault := slices.Contains(view.Config.GetDefaultDestinationRuleExportTo(), exportPrivate)
	for _, w := range x.written {
		ns := w.meta.Namespace
		for _, e := range w.exportTo {
			x.named[e] = true
		}
		if w.usableAtHome() {
			x.local[ns] = x.local[ns].orNew()
			x.local[ns].merge(w, enhanced)
		}
		switch {
		case !w.privateOnly(privateByDefault):
			x.exported[ns] = x.exported[ns].orNew()
			x.exported[ns].merge(w, enhanced)
		case ns == x.root:
			x.rootLocal.merge(w, enhanced)
		}
	}
	for _, sets := range []map[string]*ruleSet{x.local, x.exported} {
		for _, set := range sets {
			set.sortHosts()
		}
	}
	x.rootLocal.sortHosts()
	return x
}

// withFullHost is the rule's spec with a short host expanded by its namespace (DR-1).
func withFullHost(cfg *snapshot.Config[*networking.DestinationRule], view *mesh.View) *networking.DestinationRule {
	host := view.ResolveHost(cfg.Spec.GetHost(), cfg.Namespace)
	if host == cfg.Spec.GetHost() && cfg.Spec != nil {
		return cfg.Spec
	}
	spec := &networking.DestinationRule{}
	if cfg.Spec != nil {
		spec = proto.Clone(cfg.Spec).(*networking.DestinationRule)
	}
	spec.Host = host
	return spec
}

// ruleExportTo is a rule's exportTo as a set; one with a workloadSelector is private (VIS-9).
func ruleExportTo(spec *networking.DestinationRule) []string {
	if spec.GetWorkloadSelector() != nil {
		return []string{exportPrivate}
	}
	set := slices.Clone(spec.GetExportTo())
	slices.Sort(set)
	return slices.Compact(set)
}

// compareRules orders rules with a workloadSelector first, then by age, name
// and namespace (DR-5).
func compareRules(a, b writtenRule) int {
	selecting := func(w writtenRule) int {
		if w.spec.GetWorkloadSelector() != nil {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(selecting(a), selecting(b)), cmp.Compare(a.meta.Created, b.meta.Created),
		cmp.Compare(a.meta.Name, b.meta.Name), cmp.Compare(a.meta.Namespace, b.meta.Namespace))
}

// usableAtHome reports a rule that proxies of its own namespace may use (DR-2).
func (w writtenRule) usableAtHome() bool {
	return len(w.exportTo) == 0 || slices.ContainsFunc(w.exportTo, func(e string) bool {
		return e == exportPublic || e == exportPrivate || e == w.meta.Namespace
	})
}

// privateOnly reports a rule that no other namespace may use (DR-3).
func (w writtenRule) privateOnly(byDefault bool) bool {
	switch len(w.exportTo) {
	case 0:
		return byDefault
	case 1:
		return w.exportTo[0] == exportPrivate || w.exportTo[0] == w.meta.Namespace
	}
	return false
}

func newRuleSet() *ruleSet {
	return &ruleSet{exact: map[string][]*rule{}, wild: map[string][]*rule{}}
}

func (r *ruleSet) orNew() *ruleSet {
	if r == nil {
		return newRuleSet()
	}
	return r
}

func (r *ruleSet) sortHosts() {
	for host := range r.wild {
		r.wildHosts = append(r.wildHosts, host)
	}
	slices.SortFunc(r.wildHosts, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
}

// find returns the rules of the most specific host that is the service's host
// or a wildcard over it (Istio MostSpecificHostMatch); nil if none.
func (r *ruleSet) find(host string) []*rule {
	if r == nil {
		return nil
	}
	suffix := host
	if mesh.IsWildcard(host) {
		if rules, ok := r.wild[host]; ok {
			return rules
		}
		suffix = host[1:]
	} else if rules, ok := r.exact[host]; ok {
		return rules
	}
	for _, h := range r.wildHosts {
		if strings.HasSuffix(suffix, h[1:]) {
			return r.wild[h]
		}
	}
	return nil
}

// merge enters a rule: into those of its host that it may merge with, or as
// one of its own, or both (DR-5; Istio mergeDestinationRule).
func (r *ruleSet) merge(w writtenRule, enhanced bool) {
	index := r.exact
	if mesh.IsWildcard(w.spec.GetHost()) {
		index = r.wild
	}
	host := w.spec.GetHost()
	separate := true
	for _, have := range index[host] {
		if enhanced {
			equal := slices.Equal(w.exportTo, have.exportTo)
			wider := !equal && len(have.exportTo) > 0 && coversAll(w.exportTo, have.exportTo)
			separate = !equal
			if !equal && !wider {
				continue
			}
		}
		mine, theirs := w.spec.GetWorkloadSelector(), have.spec.GetWorkloadSelector()
		both, none := mine != nil && theirs != nil, mine == nil && theirs == nil
		same := sameLabels(mine.GetMatchLabels(), theirs.GetMatchLabels())
		if both && !same {
			separate = true
			continue
		}
		if none || both {
			separate = false
		}
		have.absorb(w)
	}
	if separate {
		index[host] = append(index[host], &rule{spec: w.spec, owner: w.meta, from: []*snapshot.Meta{w.meta}, exportTo: w.exportTo})
	}
}

func coversAll(list, of []string) bool {
	return !slices.ContainsFunc(of, func(e string) bool { return !slices.Contains(list, e) })
}

func sameLabels(a, b map[string]string) bool { return len(a) == len(b) && mesh.LabelsSubset(a, b) }

// absorb merges another DestinationRule of the host into r: subsets with new
// names are added, the traffic policy is taken if r has none.
func (r *rule) absorb(w writtenRule) {
	spec := proto.Clone(r.spec).(*networking.DestinationRule)
	names := map[string]bool{}
	for _, subset := range spec.GetSubsets() {
		names[subset.GetName()] = true
	}
	for _, subset := range w.spec.GetSubsets() {
		if !names[subset.GetName()] {
			spec.Subsets = append(spec.Subsets, subset)
		}
	}
	if spec.TrafficPolicy == nil {
		spec.TrafficPolicy = w.spec.GetTrafficPolicy()
	}
	r.spec = spec
	r.from = append(slices.Clip(r.from), w.meta)
}
