// Package diff tells what changes between two audits: for which proxies, of
// which resource and part, because of which object, and what callers will see.
//
// It compares scope by scope and group by group, never proxy by proxy, and
// knows nothing but audit/result: a saved report compares as its source does.
package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Options name the sides.
type Options struct {
	BaseLabel, HeadLabel string
}

// Compare tells what is different in head. Both audits need their resources
// with details.
func Compare(base, head *result.Audit, o Options) *result.Diff {
	c := &comparer{
		base: newSide(base), head: newSide(head),
		scopes: map[scopePair][]*found{}, index: map[changeKey]int{},
		references: map[*result.Scope]*references{}, facts: map[*result.Scope]*scopeFacts{}, gained: map[scopePair]*gains{},
		takers: map[*result.Scope]*takers{}, found: map[hazard]string{},
		out: &result.Diff{
			APIVersion: result.APIVersion, Kind: result.KindDiffReport,
			Base: result.DiffSide{Label: o.BaseLabel, Mesh: base.Mesh}, Head: result.DiffSide{Label: o.HeadLabel, Mesh: head.Mesh},
			Inputs: []result.Input{}, Groups: []result.DiffGroup{}, Audiences: []result.Audience{}, Changes: []result.Change{},
		},
	}
	c.out.Gaps = mergeGaps(base.Gaps, head.Gaps)
	c.out.Diagnostics = mergeDiagnostics(base.Diagnostics, head.Diagnostics)
	c.readInputs()
	var gone, come []*result.Proxy
	c.pairs, gone, come = match(base, head)
	c.out.Gone, c.out.New = c.oneSided(gone, c.base, c.head), c.oneSided(come, c.head, c.base)
	for i := range c.pairs {
		c.compare(&c.pairs[i])
	}
	c.finish()
	return c.out
}

// side is one audit with what is looked up in it.
type side struct {
	*result.Audit
	scopes   map[string]*result.Scope
	groups   map[string]*result.Group
	services map[string][]*result.Service // by host
	byRef    map[object]*result.Service
	names    fileNames // made when first asked for
}

func newSide(a *result.Audit) *side {
	s := &side{
		Audit: a, scopes: map[string]*result.Scope{}, groups: map[string]*result.Group{},
		services: map[string][]*result.Service{}, byRef: map[object]*result.Service{},
	}
	for i := range a.Scopes {
		s.scopes[a.Scopes[i].ID] = &a.Scopes[i]
	}
	for i := range a.Groups {
		s.groups[a.Groups[i].ID] = &a.Groups[i]
	}
	for i := range a.Services {
		s.services[a.Services[i].Host] = append(s.services[a.Services[i].Host], &a.Services[i])
		s.byRef[objectOf(a.Services[i].Ref)] = &a.Services[i]
	}
	return s
}

// comparer holds one comparison.
type comparer struct {
	base, head *side
	out        *result.Diff
	inputs     inputs
	pairs      []pair
	scopes     map[scopePair][]*found
	index      map[changeKey]int // of entries
	entries    []*entry
	references map[*result.Scope]*references
	interest   interest
	facts      map[*result.Scope]*scopeFacts
	takers     map[*result.Scope]*takers
	gained     map[scopePair]*gains
	found      map[hazard]string   // what callers would see in between
	hosts      map[object][]string // of Services and ServiceEntries, once asked for
	touched    map[string][]string // services by the inputs that change them, once asked for
}

// entry is a change with the pairs of groups that it is for.
type entry struct {
	change result.Change
	pairs  []int
}

type scopePair struct{ base, head *result.Scope }

// compare tells what changes for the proxies of one pair of groups.
func (c *comparer) compare(p *pair) {
	x := &pairView{
		base: groupView{c.base.scopes[p.base.Scope], p.base},
		head: groupView{c.head.scopes[p.head.Scope], p.head},
	}
	key := scopePair{x.base.scope, x.head.scope}
	shared, known := c.scopes[key]
	if !known {
		whole := &pairView{base: groupView{scope: key.base}, head: groupView{scope: key.head}}
		for _, t := range result.Types {
			shared = append(shared, whole.list(t, *whole.base.shared(t), *whole.head.shared(t))...)
		}
		shared = c.moves(whole, shared)
		c.explain(whole, shared)
		c.scopes[key] = shared
	}
	own := c.own(x, shared)
	c.explain(x, own.extra)
	for _, f := range append(own.extra, own.kept...) {
		c.add(p, f)
		p.lose = p.lose || f.Noticed()
		p.loseUnused = p.loseUnused || f.Loses()
		p.changed = true
	}
	if p.base.Bytes.Total != p.head.Bytes.Total {
		p.changed = true
	}
}

// add notes a change for a pair.
func (c *comparer) add(p *pair, f *found) {
	if !f.keyed {
		f.key, f.keyed = keyOf(&f.Change), true
	}
	i, ok := c.index[f.key]
	if !ok {
		i = len(c.entries)
		c.index[f.key] = i
		c.entries = append(c.entries, &entry{change: f.Change})
	}
	e := c.entries[i]
	e.change.LeastBytes, e.change.MostBytes = min(e.change.LeastBytes, f.LeastBytes), max(e.change.MostBytes, f.MostBytes)
	e.pairs = append(e.pairs, p.index)
}

// finish turns pairs and entries into the report, sorted.
func (c *comparer) finish() {
	out := c.out
	ids := map[int]string{}
	for i := range c.pairs {
		p := &c.pairs[i]
		c.count(p)
		if !p.changed {
			continue
		}
		ids[p.index] = id("d", len(out.Groups))
		slices.Sort(p.names)
		out.Groups = append(out.Groups, result.DiffGroup{
			ID: ids[p.index], Kind: p.head.Kind, Namespace: p.head.Namespace, Workload: p.head.Workload, Proxies: p.names,
			BaseScope: c.base.scopes[p.base.Scope].Text, HeadScope: c.head.scopes[p.head.Scope].Text,
			BaseBytes: p.base.Bytes, HeadBytes: p.head.Bytes, Lose: p.lose,
		})
	}
	out.Summary.Istiod = result.Growth{Base: c.base.Mesh.Totals.Bytes, Head: c.head.Mesh.Totals.Bytes}
	slices.SortFunc(c.entries, func(x, y *entry) int { return compareChanges(&x.change, &y.change) })
	audiences := map[string]int{}
	touched := make([]map[int]bool, len(out.Inputs))
	for _, e := range c.entries {
		slices.Sort(e.pairs)
		e.pairs = slices.Compact(e.pairs)
		e.change.Audience = c.audience(audiences, ids, e.pairs)
		for _, input := range e.change.Inputs {
			i := c.inputs.index[input]
			out.Inputs[i].Changes++
			if touched[i] == nil {
				touched[i] = map[int]bool{}
			}
			for _, p := range e.pairs {
				touched[i][p] = true
			}
		}
		out.Changes = append(out.Changes, e.change)
	}
	for i, pairs := range touched {
		for p := range pairs {
			out.Inputs[i].Proxies += len(c.pairs[p].names)
		}
	}
	c.countChanges()
	c.countOneSided()
	c.order()
	c.push()
}

func (c *comparer) audience(known map[string]int, ids map[int]string, pairs []int) string {
	a := result.Audience{}
	for _, p := range pairs {
		a.Groups = append(a.Groups, ids[p])
		a.Proxies += len(c.pairs[p].names)
	}
	key := strings.Join(a.Groups, ",")
	i, ok := known[key]
	if !ok {
		i = len(c.out.Audiences)
		known[key] = i
		a.ID = id("a", i)
		c.out.Audiences = append(c.out.Audiences, a)
	}
	return c.out.Audiences[i].ID
}

func compareChanges(x, y *result.Change) int {
	kind := func(c *result.Change) int { return slices.Index(result.ChangeKinds, c.Told()) }
	xdsType := func(c *result.Change) int { return slices.Index(result.Types, c.Type) }
	return cmp.Or(cmp.Compare(kind(x), kind(y)), cmp.Compare(x.Service, y.Service), cmp.Compare(xdsType(x), xdsType(y)),
		cmp.Compare(x.Resource, y.Resource), cmp.Compare(text(x.Part), text(y.Part)), cmp.Compare(x.To, y.To),
		cmp.Compare(x.Sees, y.Sees), slices.Compare(x.Inputs, y.Inputs), compareParts(x.Before, y.Before), compareParts(x.After, y.After))
}
