package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// found is a change of one pair of scopes or groups, with what it was seen in.
type found struct {
	result.Change
	base, head *result.Resource // nil: not there
	key        changeKey
	keyed      bool
}

// list compares the resources of one type, both sorted by name.
func (x *pairView) list(xdsType string, base, head []*result.Resource) []*found {
	var out []*found
	for i, j := 0, 0; i < len(base) || j < len(head); {
		switch order := compareAt(base, i, head, j); {
		case order < 0:
			out = append(out, whole(xdsType, base[i], nil))
			i++
		case order > 0:
			out = append(out, whole(xdsType, nil, head[j]))
			j++
		default:
			out = append(out, resource(xdsType, base[i], head[j])...)
			i, j = i+1, j+1
		}
	}
	return out
}

// compareAt orders two lists' heads; a list that is at its end comes last.
func compareAt(base []*result.Resource, i int, head []*result.Resource, j int) int {
	switch {
	case i == len(base):
		return 1
	case j == len(head):
		return -1
	}
	return strings.Compare(base[i].Name, head[j].Name)
}

// whole is a resource that only one side has.
func whole(xdsType string, base, head *result.Resource) *found {
	f := &found{base: base, head: head}
	f.Type = xdsType
	if base != nil {
		f.Kind, f.Resource, f.Service, f.Before = result.Lost, base.Name, base.Service, base.Parts
		f.LeastBytes = -base.Bytes
	} else {
		f.Kind, f.Resource, f.Service, f.After = result.Gained, head.Name, head.Service, head.Parts
		f.LeastBytes = head.Bytes
	}
	f.MostBytes = f.LeastBytes
	return f
}

// resource compares two resources of one name.
func resource(xdsType string, base, head *result.Resource) []*found {
	var out []*found
	gone, come, altered := unmatched(base.Parts, head.Parts)
	for _, a := range altered {
		if f := part(xdsType, base, head, a[0], a[1]); f != nil {
			out = append(out, f)
		}
	}
	for _, p := range gone {
		out = append(out, part(xdsType, base, head, p, nil))
	}
	for _, p := range come {
		out = append(out, part(xdsType, base, head, nil, p))
	}
	if len(out) == 0 && base.Digest != 0 && head.Digest != 0 && base.Digest != head.Digest {
		f := &found{base: base, head: head}
		f.Kind, f.Type, f.Resource, f.Service, f.Fields = result.Changed, xdsType, head.Name, cmp.Or(head.Service, base.Service), []string{"content"}
		f.LeastBytes = head.Bytes - base.Bytes
		f.MostBytes = f.LeastBytes
		if !divided(xdsType) {
			f.Before, f.After = base.Parts, head.Parts
		}
		out = append(out, f)
	}
	return out
}

// divided reports whether a resource of the type has parts that come and go.
func divided(xdsType string) bool { return xdsType == "lds" || xdsType == "rds" }

// unmatched pairs the parts of a resource and returns those that are not the
// same: alone on a side, or under the same name with another content.
func unmatched(base, head []result.Part) (gone, come []*result.Part, altered [][2]*result.Part) {
	taken := make([]bool, len(head))
	byKey := map[string][]int{}
	for j := range head {
		byKey[partKey(&head[j])] = append(byKey[partKey(&head[j])], j)
	}
	take := func(p *result.Part, same func(*result.Part) bool) *result.Part {
		for _, j := range byKey[partKey(p)] {
			if !taken[j] && same(&head[j]) {
				taken[j] = true
				return &head[j]
			}
		}
		return nil
	}
	var left []*result.Part
	for i := range base {
		p := &base[i]
		if take(p, func(q *result.Part) bool { return samePart(p, q) && sameContent(p, q) }) == nil {
			left = append(left, p)
		}
	}
	var rest []*result.Part
	for _, p := range left {
		if q := take(p, func(q *result.Part) bool { return samePart(p, q) }); q != nil {
			altered = append(altered, [2]*result.Part{p, q})
			continue
		}
		rest = append(rest, p)
	}
	for _, p := range rest {
		if q := take(p, func(*result.Part) bool { return true }); q != nil {
			altered = append(altered, [2]*result.Part{p, q})
			continue
		}
		gone = append(gone, p)
	}
	for j := range head {
		if !taken[j] {
			come = append(come, &head[j])
		}
	}
	return gone, come, altered
}

// partKey is what a part is known by within its resource.
func partKey(p *result.Part) string {
	if p.Match != nil {
		return *p.Match
	}
	return p.Name
}

// part tells of one part; nil on the side that lacks it.
func part(xdsType string, base, head *result.Resource, before, after *result.Part) *found {
	f := &found{base: base, head: head}
	f.Type, f.Resource, f.Kind = xdsType, head.Name, result.Changed
	var bytes int64
	if before != nil {
		f.Before, bytes = []result.Part{*before}, -before.Bytes
		f.Service = cmp.Or(before.Service, base.Service)
	}
	if after != nil {
		f.After, bytes = []result.Part{*after}, bytes+after.Bytes
		f.Service = cmp.Or(after.Service, head.Service, f.Service)
	}
	if divided(xdsType) {
		name := partKey(cmp.Or(before, after))
		f.Part = &name
	} else {
		bytes = head.Bytes - base.Bytes
	}
	f.LeastBytes, f.MostBytes = bytes, bytes
	switch {
	case after == nil:
		f.Kind = result.Lost
		return f
	case before == nil:
		f.Kind = result.Gained
		return f
	}
	f.Fields = fields(before, after)
	f.Kind = kindOf(f.Fields, before, after)
	if xdsType == "rds" && !slices.Equal(before.Domains, after.Domains) {
		f.LostDomains = missing(before.Domains, head.Parts)
		f.GainedDomains = missing(after.Domains, base.Parts)
	}
	return f
}

// kindOf judges a part that both sides have: endpoints that all go are lost,
// amounts alone are resized.
func kindOf(fields []string, before, after *result.Part) result.ChangeKind {
	if len(fields) == 1 && fields[0] == "hosts" {
		return result.ResizedOnly
	}
	if len(fields) == 1 && fields[0] == "endpoints" {
		switch {
		case amount(after.Endpoints) == 0:
			return result.Lost
		case amount(before.Endpoints) == 0:
			return result.Gained
		}
		return result.ResizedOnly
	}
	return result.Changed
}

// fields names what differs between two parts of one name.
func fields(before, after *result.Part) []string {
	var out []string
	note := func(name string, different bool) {
		if different {
			out = append(out, name)
		}
	}
	note("domains", !slices.Equal(before.Domains, after.Domains))
	note("to", !slices.Equal(before.To, after.To))
	note("type", before.Type != after.Type)
	note("rule", text(before.Rule) != text(after.Rule))
	note("endpoints", amount(before.Endpoints) != amount(after.Endpoints))
	note("hosts", amount(before.Hosts) != amount(after.Hosts))
	note("content", len(out) == 0)
	return out
}

// missing are the domains that no virtual host of the other side has.
func missing(domains []string, others []result.Part) []string {
	var out []string
	for _, d := range domains {
		if !slices.ContainsFunc(others, func(p result.Part) bool { return slices.Contains(p.Domains, d) }) {
			out = append(out, d)
		}
	}
	return out
}

// samePart compares the canonical fields (docs: parts).
func samePart(x, y *result.Part) bool {
	return x.Name == y.Name && text(x.Match) == text(y.Match) && (x.Match == nil) == (y.Match == nil) &&
		slices.Equal(x.Domains, y.Domains) && slices.Equal(x.To, y.To) && x.Type == y.Type &&
		text(x.Rule) == text(y.Rule) && amount(x.Endpoints) == amount(y.Endpoints) && amount(x.Hosts) == amount(y.Hosts)
}

// sameContent compares what the canonical fields do not say, as far as it is known.
func sameContent(x, y *result.Part) bool {
	return x.Digest == 0 || y.Digest == 0 || x.Digest == y.Digest
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func amount(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
