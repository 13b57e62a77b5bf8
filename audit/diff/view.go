package diff

import (
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// groupView is what a group's proxies get; without a group, what its scope's
// proxies share.
type groupView struct {
	scope *result.Scope
	group *result.Group
}

// pairView is both sides of one comparison.
type pairView struct{ base, head groupView }

func (v groupView) shared(xdsType string) *[]*result.Resource { return v.scope.Resources.Of(xdsType) }

// find returns the resources of the name that the group's proxies get.
func (v groupView) find(xdsType, name string) []*result.Resource {
	var out []*result.Resource
	if v.group != nil {
		out = named(*v.group.Resources.Of(xdsType), name)
		if slices.Contains(*v.group.Without.Of(xdsType), name) {
			return out
		}
	}
	return append(slices.Clip(out), named(*v.shared(xdsType), name)...)
}

// named finds a name's resources in a sorted list.
func named(list []*result.Resource, name string) []*result.Resource {
	i, ok := slices.BinarySearchFunc(list, name, func(r *result.Resource, n string) int { return strings.Compare(r.Name, n) })
	if !ok {
		return nil
	}
	j := i
	for j < len(list) && list[j].Name == name {
		j++
	}
	return list[i:j]
}

// resized is the bytes that resources of the scope have for the group.
func (v groupView) resized(xdsType string) map[string]int64 {
	out := map[string]int64{}
	for _, r := range *v.group.Resized.Of(xdsType) {
		out[r.Name] = r.Bytes
	}
	return out
}

type typeName struct{ xdsType, name string }

// own is what a pair of groups changes beside its scopes.
type own struct {
	extra []*found // of its own
	kept  []*found // of the scopes'
}

// own takes from the scopes' changes those that hold for the groups too, and
// compares apart what the groups have, or are without, of their own.
func (c *comparer) own(x *pairView, shared []*found) own {
	special := map[typeName]bool{}
	for _, v := range []groupView{x.base, x.head} {
		for _, t := range result.Types {
			for _, r := range *v.group.Resources.Of(t) {
				special[typeName{t, r.Name}] = true
			}
			for _, name := range *v.group.Without.Of(t) {
				special[typeName{t, name}] = true
			}
		}
	}
	var out own
	for _, f := range shared {
		if special[typeName{f.Type, f.Resource}] || f.To != "" && special[typeName{f.Type, f.To}] {
			special[typeName{f.Type, f.Resource}] = true
			if f.To != "" {
				special[typeName{f.Type, f.To}] = true
			}
		}
	}
	for _, f := range shared {
		if !special[typeName{f.Type, f.Resource}] && !(f.To != "" && special[typeName{f.Type, f.To}]) {
			out.kept = append(out.kept, f)
		}
	}
	for _, key := range sorted(special) {
		out.extra = append(out.extra, x.list(key.xdsType, x.base.find(key.xdsType, key.name), x.head.find(key.xdsType, key.name))...)
	}
	out.extra = c.moves(x, out.extra)
	out.extra = append(out.extra, x.resized(special, out.kept)...)
	return out
}

// resized tells of shared resources that weigh otherwise for the group though
// nothing of them changed for the scope.
func (x *pairView) resized(special map[typeName]bool, kept []*found) []*found {
	told := map[typeName]bool{}
	for _, f := range kept {
		told[typeName{f.Type, f.Resource}] = true
	}
	var out []*found
	for _, t := range result.Types {
		before, after := x.base.resized(t), x.head.resized(t)
		if len(before)+len(after) == 0 {
			continue
		}
		for _, r := range *x.head.shared(t) {
			key := typeName{t, r.Name}
			if special[key] || told[key] {
				continue
			}
			list := named(*x.base.shared(t), r.Name)
			if len(list) == 0 {
				continue
			}
			old, now := bytesOf(before, list[0]), bytesOf(after, r)
			if old == now {
				continue
			}
			f := &found{base: list[0], head: r}
			f.Kind, f.Type, f.Resource, f.Service = result.ResizedOnly, t, r.Name, r.Service
			f.Fields = []string{"bytes"}
			f.LeastBytes = now - old
			f.MostBytes = f.LeastBytes
			out = append(out, f)
		}
	}
	return out
}

func bytesOf(resized map[string]int64, r *result.Resource) int64 {
	if bytes, ok := resized[r.Name]; ok {
		return bytes
	}
	return r.Bytes
}

func sorted(set map[typeName]bool) []typeName {
	out := make([]typeName, 0, len(set))
	for key := range set {
		out = append(out, key)
	}
	slices.SortFunc(out, func(x, y typeName) int {
		if d := slices.Index(result.Types, x.xdsType) - slices.Index(result.Types, y.xdsType); d != 0 {
			return d
		}
		return strings.Compare(x.name, y.name)
	})
	return out
}
