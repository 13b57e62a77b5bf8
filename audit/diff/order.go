package diff

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// hazard is two inputs, by index, whose order matters.
type hazard struct{ first, then int }

// hazards notes where one change of a list relies on another that has another
// cause: a route on a new cluster, the loss of a cluster on the routes' leaving
// it, a route to a gateway on its listener.
func (c *comparer) hazards(list []*found) {
	if len(c.out.Inputs) < 2 {
		return
	}
	come, gone := map[string][]int{}, map[string][]int{}
	for _, f := range list {
		if f.Type != "cds" {
			continue
		}
		switch f.Kind {
		case result.Gained:
			come[f.Resource] = c.indexes(f)
		case result.Lost:
			gone[f.Resource] = c.indexes(f)
		case result.Moved:
			gone[f.Resource], come[f.To] = c.indexes(f), c.indexes(f)
		}
	}
	if len(come)+len(gone) == 0 {
		return
	}
	for _, f := range list {
		if f.Type != "rds" && f.Type != "lds" {
			continue
		}
		before, after := c.destinations(f, f.Before), c.destinations(f, f.After)
		for name, users := range after {
			if _, already := before[name]; !already {
				c.hazard(come[name], users, seesFor(f.Type)+" of "+name+" until it is there")
			}
		}
		for name, users := range before {
			if _, still := after[name]; !still {
				c.hazard(users, gone[name], seesFor(f.Type)+" of "+name+" while routes still lead to it")
			}
		}
	}
}

func seesFor(xdsType string) string {
	if xdsType == "rds" {
		return "503 NC for callers"
	}
	return "closed connections for callers"
}

func (c *comparer) indexes(f *found) []int {
	var out []int
	for _, id := range f.Inputs {
		out = append(out, c.inputs.index[id])
	}
	return out
}

// destinations are the clusters that parts lead to, each with the inputs that say so.
func (c *comparer) destinations(f *found, parts []result.Part) map[string][]int {
	out := map[string][]int{}
	for i := range parts {
		users := c.changed([]object{objectOf(parts[i].By)})
		if len(users) == 0 {
			users = c.indexes(f)
		}
		for _, to := range parts[i].To {
			name := strings.TrimPrefix(strings.TrimPrefix(to, "cluster "), "mirror ")
			out[name] = append(out[name], users...)
		}
	}
	return out
}

func (c *comparer) hazard(first, then []int, what string) {
	if len(first) == 0 || len(then) == 0 || len(first) > 1 && len(then) > 1 {
		return
	}
	for _, x := range first {
		for _, y := range then {
			if x == y || slices.Contains(first, y) || slices.Contains(then, x) {
				continue
			}
			if key := (hazard{x, y}); c.found[key] == "" || what < c.found[key] {
				c.found[key] = what
			}
		}
	}
}

// order tells the hazards and a safe order of the objects in them.
func (c *comparer) order() {
	order := &c.out.Order
	after := map[int]map[int]bool{} // what must come first
	involved := map[int]bool{}
	for _, h := range slices.SortedFunc(maps.Keys(c.found), func(x, y hazard) int { return cmp.Or(x.first-y.first, x.then-y.then) }) {
		if !c.applicable(h.first) || !c.applicable(h.then) {
			continue
		}
		order.Hazards = append(order.Hazards, result.Hazard{First: c.out.Inputs[h.first].ID, Then: c.out.Inputs[h.then].ID, Text: c.found[h]})
		if after[h.then] == nil {
			after[h.then] = map[int]bool{}
		}
		after[h.then][h.first] = true
		involved[h.first], involved[h.then] = true, true
	}
	done := map[int]bool{}
	left := slices.SortedFunc(maps.Keys(involved), func(x, y int) int {
		return cmp.Or(rank(&c.out.Inputs[x])-rank(&c.out.Inputs[y]), x-y)
	})
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(n int) bool {
			for first := range after[n] {
				if !done[first] {
					return false
				}
			}
			return true
		})
		if i < 0 {
			order.Unsafe = "each of these objects needs another of them first: apply one step that has both the old and the new (say, both subsets), move the routes, then take the old away"
			i = 0
		}
		in := &c.out.Inputs[left[i]]
		step := result.Step{Input: in.ID, Do: "apply"}
		if in.Change == "removed" {
			step.Do = "delete"
		}
		order.Steps = append(order.Steps, step)
		done[left[i]] = true
		left = slices.Delete(left, i, i+1)
	}
}

// applicable reports whether an input is an object that is applied or deleted.
func (c *comparer) applicable(input int) bool {
	in := &c.out.Inputs[input]
	return in.Kind == result.InputObject && in.Change != result.InputUnread
}

// ranks is the order in which kinds are safe to apply where nothing else says:
// what is referred to before what refers to it.
var ranks = []string{"Namespace", "ConfigMap", "Deployment", "StatefulSet", "Service", "ServiceEntry", "WorkloadEntry", "DestinationRule", "Sidecar", "Gateway", "VirtualService"}

func rank(in *result.Input) int {
	at := slices.Index(ranks, in.Ref().Kind)
	if at < 0 {
		at = len(ranks)
	}
	if in.Change == "removed" {
		return 2*len(ranks) - at
	}
	return at
}
