package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// lostUnused is the section of losses that no caller notices, after those that
// callers do.
const lostUnused result.ChangeKind = "lost, unused"

// blockKinds are the sections of a diff, in order.
var blockKinds = slices.Insert(slices.Clone(result.ChangeKinds), 1, lostUnused)

// block is the changes of one kind that have the same causes and touch the
// same proxies: what a reader wants to be told once.
type block struct {
	kind     result.ChangeKind
	inputs   []*result.Input
	reason   string // the inputs in words
	audience *result.Audience
	changes  []*result.Change
}

// diffView looks things up in a Diff.
type diffView struct {
	*result.Diff
	inputs    map[string]*result.Input
	groups    map[string]*result.DiffGroup
	audiences map[string]*result.Audience
	decides   map[string]bool // inputs because of which proxies come or go
	told      map[string]bool // inputs of which the fields that changed are told
}

func viewOf(d *result.Diff) *diffView {
	v := &diffView{
		Diff: d, inputs: map[string]*result.Input{}, groups: map[string]*result.DiffGroup{}, audiences: map[string]*result.Audience{}, decides: map[string]bool{}, told: map[string]bool{},
	}
	for _, list := range [][]result.OneSided{d.Gone, d.New} {
		for i := range list {
			for _, id := range list[i].Inputs {
				v.decides[id] = true
			}
		}
	}
	for i := range d.Inputs {
		v.inputs[d.Inputs[i].ID] = &d.Inputs[i]
	}
	for i := range d.Groups {
		v.groups[d.Groups[i].ID] = &d.Groups[i]
	}
	for i := range d.Audiences {
		v.audiences[d.Audiences[i].ID] = &d.Audiences[i]
	}
	return v
}

// blocks groups the changes; those that touch most proxies come first in each
// kind. Losses that no caller notices go with those of the same cause and the
// same proxies that callers do notice, else into a section of their own.
func (v *diffView) blocks() []*block {
	type key struct {
		kind        result.ChangeKind
		inputs, who string
	}
	index := map[key]*block{}
	var out []*block
	for _, t := range v.tellings() {
		c := t.change
		k := key{c.Told(), strings.Join(c.Inputs, ","), strings.Join(t.groups, ",")}
		b := index[k]
		if b == nil {
			b = &block{kind: c.Told(), audience: v.audienceOf(t.groups)}
			for _, id := range c.Inputs {
				b.inputs = append(b.inputs, v.inputs[id])
			}
			index[k] = b
			out = append(out, b)
		}
		b.changes = append(b.changes, c)
	}
	for _, b := range out {
		if b.kind == result.Lost && !slices.ContainsFunc(b.changes, (*result.Change).Noticed) {
			b.kind = lostUnused
		}
	}
	slices.SortStableFunc(out, func(x, y *block) int {
		return cmp.Or(cmp.Compare(slices.Index(blockKinds, x.kind), slices.Index(blockKinds, y.kind)),
			cmp.Compare(y.audience.Proxies, x.audience.Proxies))
	})
	for _, b := range out {
		b.reason = v.because(b.inputs)
	}
	return out
}

// telling is a change with the groups of all changes that read the same.
type telling struct {
	change *result.Change
	groups []string
}

// tellings joins changes that read the same though they are not: the names of a
// virtual host, say, that proxies of another namespace have.
func (v *diffView) tellings() []*telling {
	index := map[string]*telling{}
	var out []*telling
	for i := range v.Changes {
		c := &v.Changes[i]
		key := strings.Join(append([]string{string(c.Told()), describe(c), c.Sees, strconv.FormatBool(c.Harmless)}, c.Inputs...), "\x00")
		t := index[key]
		if t == nil {
			t = &telling{change: c}
			index[key] = t
			out = append(out, t)
		}
		t.groups = append(t.groups, v.audiences[c.Audience].Groups...)
	}
	for _, t := range out {
		slices.Sort(t.groups)
		t.groups = slices.Compact(t.groups)
	}
	return out
}

// audienceOf is the proxies of groups.
func (v *diffView) audienceOf(groups []string) *result.Audience {
	a := &result.Audience{Groups: groups}
	for _, id := range groups {
		a.Proxies += len(v.groups[id].Proxies)
	}
	return a
}

// who names the proxies of an audience: their number and workloads.
func (v *diffView) who(a *result.Audience, most int) string {
	type workload struct {
		name    string
		proxies int
	}
	var list []workload
	for _, id := range a.Groups {
		g := v.groups[id]
		name := g.Namespace + "/" + workloadName(g)
		if i := slices.IndexFunc(list, func(w workload) bool { return w.name == name }); i >= 0 {
			list[i].proxies += len(g.Proxies)
			continue
		}
		list = append(list, workload{name, len(g.Proxies)})
	}
	slices.SortStableFunc(list, func(x, y workload) int { return cmp.Compare(y.proxies, x.proxies) })
	var names []string
	for _, w := range list[:min(most, len(list))] {
		names = append(names, w.name)
	}
	text := count(a.Proxies, "proxy", "proxies") + ": " + strings.Join(names, ", ")
	if rest := len(list) - len(names); rest > 0 {
		text += fmt.Sprintf(" and %s", count(rest, "more workload", "more workloads"))
	}
	return text
}

func workloadName(g *result.DiffGroup) string {
	if _, name, ok := strings.Cut(g.Workload, "/"); ok {
		return name
	}
	return strings.Join(g.Proxies[:min(1, len(g.Proxies))], "")
}

// why names the causes of a block.
func (b *block) why() string {
	if len(b.inputs) == 0 {
		return "cause not known"
	}
	return b.reason
}

// because joins changed inputs, each of which may be the cause.
func (v *diffView) because(inputs []*result.Input) string {
	const most = 3
	texts := v.inputTexts(inputs)
	if rest := len(texts) - most; rest > 0 {
		texts = append(texts[:most:most], fmt.Sprintf("%d more", rest))
	}
	return strings.Join(texts, " or ")
}

// inputTexts tells of changed inputs, the first time with the fields that
// changed; several that controllers write are one.
func (v *diffView) inputTexts(inputs []*result.Input) []string {
	type many struct{ kind, namespace, change string }
	numbers := map[many]int{}
	keyOf := func(in *result.Input) many { return many{in.Ref().Kind, in.Ref().Namespace, in.Change} }
	for _, in := range inputs {
		numbers[keyOf(in)]++
	}
	var out []string
	for _, in := range inputs {
		k := keyOf(in)
		switch n := numbers[k]; {
		case !slices.Contains(controlled, k.kind) || n == 1:
			text := inputText(in)
			if !v.told[in.ID] {
				v.told[in.ID] = true
				text += fieldsText(in.Fields)
			}
			out = append(out, text)
		case n > 1:
			out = append(out, fmt.Sprintf("%d %ss of %s %s", n, k.kind, k.namespace, k.change))
			numbers[k] = 0
		}
	}
	return out
}

// controlled are the kinds that controllers write.
var controlled = []string{"Pod", "ReplicaSet", "EndpointSlice", "Endpoints"}

// oneSidedTexts tell of proxies that only one side has, and why; workloads of
// the same cause together.
func (v *diffView) oneSidedTexts(list []result.OneSided, most int) []string {
	type key struct {
		inputs string
		alone  int // where others of the workload are left
	}
	index := map[key]int{}
	var alike [][]*result.OneSided
	for i := range list {
		k := key{inputs: strings.Join(list[i].Inputs, ",")}
		if list[i].Left > 0 {
			k.alone = i + 1
		}
		at, known := index[k]
		if !known {
			at = len(alike)
			index[k] = at
			alike = append(alike, nil)
		}
		alike[at] = append(alike[at], &list[i])
	}
	var out []string
	for _, group := range alike {
		text := oneSidedWho(group[0])
		if len(group) > 1 {
			text = oneSidedMany(group, most)
		}
		if inputs := v.inputsOf(group[0]); len(inputs) > 0 {
			text += ", because " + v.because(inputs)
		}
		out = append(out, text)
	}
	return out
}

func oneSidedMany(group []*result.OneSided, most int) string {
	proxies, names := 0, []string{}
	least, top := group[0].Bytes.Total, group[0].Bytes.Total
	for _, one := range group {
		proxies += len(one.Proxies)
		if name := one.Namespace + "/" + oneSidedName(one); !slices.Contains(names, name) {
			names = append(names, name)
		}
		least, top = min(least, one.Bytes.Total), max(top, one.Bytes.Total)
	}
	text := count(proxies, "proxy", "proxies") + ": " + strings.Join(names[:min(most, len(names))], ", ")
	if rest := len(names) - most; rest > 0 {
		text += " and " + count(rest, "more workload", "more workloads")
	}
	return text + " (" + span(least, top, bytesText) + " each)"
}

func oneSidedName(one *result.OneSided) string {
	if _, workload, ok := strings.Cut(one.Workload, "/"); ok {
		return workload
	}
	return strings.Join(one.Proxies[:min(1, len(one.Proxies))], "")
}

func (v *diffView) inputsOf(one *result.OneSided) []*result.Input {
	var inputs []*result.Input
	for _, id := range one.Inputs {
		inputs = append(inputs, v.inputs[id])
	}
	return inputs
}

func oneSidedWho(one *result.OneSided) string {
	text := fmt.Sprintf("%s of %s/%s (%s", count(len(one.Proxies), "proxy", "proxies"), one.Namespace, oneSidedName(one), bytesText(one.Bytes.Total))
	if len(one.Proxies) > 1 {
		text += " each"
	}
	text += ")"
	if one.Left > 0 {
		text += fmt.Sprintf(", beside %d that both sides have", one.Left)
	}
	return text
}

// inputText tells of one changed input: "Sidecar shop/cart (cart.yaml:3) added".
func inputText(in *result.Input) string {
	text := in.Text
	if in.Kind == result.InputObject {
		text = refText(in.Ref()) + " " + changeText(in)
		if in.Text != "" {
			text += " (" + in.Text + ")"
		}
	}
	return text
}

// fieldsText tells which fields of an object changed, the first few.
func fieldsText(fields []result.FieldChange) string {
	const most = 3
	var texts []string
	for _, f := range fields[:min(most, len(fields))] {
		texts = append(texts, f.Path+": "+valueText(f.Before)+" → "+valueText(f.After))
	}
	if rest := len(fields) - most; rest > 0 {
		texts = append(texts, count(rest, "more field", "more fields"))
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, "; ")
}

// valueText is a value of a field, cut if it is long.
func valueText(value string) string {
	const most = 60
	if value == "" {
		return "unset"
	}
	if r := []rune(value); len(r) > most {
		return string(r[:most]) + "…"
	}
	return value
}
