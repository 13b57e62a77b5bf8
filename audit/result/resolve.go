package result

import (
	"cmp"
	"errors"
	"fmt"
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

// Check returns an error if a saved audit does not hold together: no control
// plane (of which each mesh has one, assumed if need be), a proxy without its
// group, a group without its scope, a reason that is not in the list, a resource
// that is null.
func (a *Audit) Check() error {
	if len(a.Mesh.ControlPlanes) == 0 {
		return errors.New("mesh.controlPlanes is missing or empty")
	}
	scopes, groups := map[string]bool{}, map[string]bool{}
	for i := range a.Scopes {
		scopes[a.Scopes[i].ID] = true
		if err := a.checkResources("scope "+a.Scopes[i].ID, &a.Scopes[i].Resources); err != nil {
			return err
		}
	}
	for i := range a.Groups {
		g := &a.Groups[i]
		groups[g.ID] = true
		if !scopes[g.Scope] {
			return fmt.Errorf("group %q is of scope %q, which is not there", g.ID, g.Scope)
		}
		if err := a.checkResources("group "+g.ID, &g.Resources); err != nil {
			return err
		}
	}
	for i := range a.Proxies {
		if p := &a.Proxies[i]; !groups[p.Group] {
			return fmt.Errorf("proxy %s/%s is of group %q, which is not there", p.Namespace, p.Name, p.Group)
		}
	}
	return nil
}

func (a *Audit) checkResources(of string, lists *Resources) error {
	for _, t := range Types {
		for i, r := range *lists.Of(t) {
			if r == nil {
				return fmt.Errorf("%s: %s[%d] is null", of, t, i)
			}
			for _, id := range r.Because {
				if int(id) >= len(a.Reasons) {
					return fmt.Errorf("%s: %s %q has reason %d of %d", of, t, r.Name, id, len(a.Reasons))
				}
			}
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
