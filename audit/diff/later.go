package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// later tells of which services a later change of endpoints goes to other
// proxies than before.
func (c *comparer) later() {
	about := map[string]bool{}
	for _, e := range c.entries {
		if ch := &e.change; ch.Type == "cds" && (ch.Kind == result.Lost || ch.Kind == result.Gained) {
			if cl, ok := parseCluster(ch.Resource); ok && cl.direction == "outbound" {
				about[cl.host] = true
			}
		}
	}
	if len(about) == 0 {
		return
	}
	before, after := receivers(c.base, about), receivers(c.head, about)
	for host := range about {
		b, a := before[host], after[host]
		if b.proxies == a.proxies {
			continue
		}
		namespace := ""
		for _, s := range []*side{c.head, c.base} {
			if list := s.services[host]; namespace == "" && len(list) > 0 {
				namespace = list[0].Namespace
			}
		}
		c.out.Push.Later = append(c.out.Push.Later, result.LaterPush{Service: host, Namespace: namespace, Base: b.proxies, Head: a.proxies, Bytes: a.bytes})
	}
	slices.SortFunc(c.out.Push.Later, func(x, y result.LaterPush) int {
		return cmp.Or(cmp.Compare(max(y.Head-y.Base, y.Base-y.Head), max(x.Head-x.Base, x.Base-x.Head)), strings.Compare(x.Service, y.Service))
	})
}

// receiver is how many proxies have a service's clusters, and the bytes of its
// load assignments over all of them.
type receiver struct {
	proxies int
	bytes   int64
}

func receivers(s *side, about map[string]bool) map[string]receiver {
	proxies := map[string]int{}
	for i := range s.Groups {
		proxies[s.Groups[i].Scope] += s.Groups[i].Proxies
	}
	out := map[string]receiver{}
	for i := range s.Scopes {
		n := proxies[s.Scopes[i].ID]
		seen := map[string]bool{}
		for _, r := range s.Scopes[i].Resources.CDS {
			if cl, ok := parseCluster(r.Name); ok && about[cl.host] && !seen[cl.host] {
				seen[cl.host] = true
				was := out[cl.host]
				out[cl.host] = receiver{was.proxies + n, was.bytes}
			}
		}
		for _, r := range s.Scopes[i].Resources.EDS {
			if cl, ok := parseCluster(r.Name); ok && about[cl.host] {
				was := out[cl.host]
				out[cl.host] = receiver{was.proxies, was.bytes + r.Bytes*int64(n)}
			}
		}
	}
	return out
}
