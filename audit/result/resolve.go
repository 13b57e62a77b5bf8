package result

import (
	"cmp"
	"slices"
	"strings"
)

// Find returns the proxy with the namespace and name; nil if there is none.
func (a *Audit) Find(namespace, name string) *Proxy {
	i, ok := slices.BinarySearchFunc(a.Proxies, [2]string{namespace, name}, func(p Proxy, key [2]string) int {
		return cmp.Or(cmp.Compare(p.Namespace, key[0]), cmp.Compare(p.Name, key[1]))
	})
	if !ok {
		return nil
	}
	return &a.Proxies[i]
}

// GroupByID returns the group with the id; nil if there is none.
func (a *Audit) GroupByID(id string) *Group {
	for i := range a.Groups {
		if a.Groups[i].ID == id {
			return &a.Groups[i]
		}
	}
	return nil
}

// ScopeByID returns the scope with the id; nil if there is none.
func (a *Audit) ScopeByID(id string) *Scope {
	for i := range a.Scopes {
		if a.Scopes[i].ID == id {
			return &a.Scopes[i]
		}
	}
	return nil
}

// Resolve returns all that one proxy of the group gets: the scope's resources
// and the group's own, less those it is without, each with the bytes that it
// has here. The lists are new; resources that are not resized are shared.
func (a *Audit) Resolve(g *Group) Resources {
	var out Resources
	s := a.ScopeByID(g.Scope)
	for _, t := range Types {
		without := map[string]bool{}
		for _, name := range *g.Without.Of(t) {
			without[name] = true
		}
		resized := map[string]int64{}
		for _, r := range *g.Resized.Of(t) {
			resized[r.Name] = r.Bytes
		}
		list := out.Of(t)
		if s != nil {
			for _, r := range *s.Resources.Of(t) {
				if without[r.Name] {
					continue
				}
				if bytes, ok := resized[r.Name]; ok {
					copied := *r
					copied.Bytes = bytes
					r = &copied
				}
				*list = append(*list, r)
			}
		}
		*list = append(*list, *g.Resources.Of(t)...)
		slices.SortStableFunc(*list, func(x, y *Resource) int { return strings.Compare(x.Name, y.Name) })
	}
	return out
}

// Unread reports whether something that the answer needed could not be read.
func (a *Audit) Unread() bool {
	return LeftOut(a.Diagnostics) || slices.ContainsFunc(a.Gaps, func(g Gap) bool { return g.Kind == Unread })
}

// LeftOut reports whether a diagnostic tells of input that is not in the answer.
func LeftOut(diagnostics []Diagnostic) bool {
	return slices.ContainsFunc(diagnostics, func(d Diagnostic) bool { return !d.Kept })
}
