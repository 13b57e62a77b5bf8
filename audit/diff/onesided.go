package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// oneSided tells of proxies that only one side has: by workload, those that are
// alike together.
func (c *comparer) oneSided(list []*result.Proxy, has, lacks *side) []result.OneSided {
	left := map[proxyName]int{}
	for i := range lacks.Proxies {
		left[workloadOf(&lacks.Proxies[i])]++
	}
	index := map[string]int{}
	var out []result.OneSided
	for _, p := range list {
		i, known := index[p.Group]
		if !known {
			i = len(out)
			index[p.Group] = i
			one := result.OneSided{Kind: p.Kind, Namespace: p.Namespace, Workload: p.Workload, Bytes: has.groups[p.Group].Bytes}
			if p.Workload != "" {
				one.Left = left[workloadOf(p)]
			}
			out = append(out, one)
		}
		out[i].Proxies = append(out[i].Proxies, p.Name)
	}
	for i := range out {
		slices.Sort(out[i].Proxies)
		out[i].Inputs = c.causesOf(&out[i])
	}
	slices.SortFunc(out, func(x, y result.OneSided) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Workload, y.Workload), slices.Compare(x.Proxies, y.Proxies))
	})
	return out
}

// causesOf are the inputs for which proxies come or go: their workload or Pods
// that come or go or, with others left, change; else what decides on injection,
// the workload among it, else settings; all inputs if it is none of these.
func (c *comparer) causesOf(one *result.OneSided) []string {
	kind, name, _ := strings.Cut(one.Workload, "/")
	injects := func(o object) bool {
		return o.kind == "Namespace" && o.name == one.Namespace || o.kind == "MutatingWebhookConfiguration"
	}
	for _, is := range []func(*result.Input, object) bool{
		func(in *result.Input, o object) bool {
			own := o.namespace == one.Namespace && (strings.EqualFold(o.kind, kind) && o.name == name || o.kind == "Pod" && slices.Contains(one.Proxies, o.name))
			return own && (one.Left > 0 || in.Change != "changed")
		},
		func(_ *result.Input, o object) bool {
			return o.namespace == one.Namespace && strings.EqualFold(o.kind, kind) && o.name == name || injects(o)
		},
		func(in *result.Input, _ object) bool { return in.Kind != result.InputObject || in.Text != "" },
		func(*result.Input, object) bool { return true },
	} {
		var out []string
		for i := range c.out.Inputs {
			if in := &c.out.Inputs[i]; is(in, objectOf(in.Ref())) {
				out = append(out, in.ID)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// countOneSided adds the proxies that only one side has to the summary.
func (c *comparer) countOneSided() {
	s := &c.out.Summary
	emptied := map[proxyName]bool{}
	for i := range c.out.Gone {
		one := &c.out.Gone[i]
		s.Removed += len(one.Proxies)
		switch {
		case one.Left > 0:
		case one.Workload == "":
			s.Emptied += len(one.Proxies) // bare Pods: each is a workload
		case !emptied[proxyName{one.Kind, one.Namespace, one.Workload}]:
			emptied[proxyName{one.Kind, one.Namespace, one.Workload}] = true
			s.Emptied++
		}
	}
	for i := range c.out.New {
		s.Added += len(c.out.New[i].Proxies)
	}
}
