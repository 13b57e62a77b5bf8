package diff

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// pair is the proxies that were in one group and are in one group.
type pair struct {
	index      int
	base, head *result.Group
	names      []string // of head
	changed    bool
	lose       bool // something that callers notice
	loseUnused bool // anything
}

type proxyName struct{ kind, namespace, name string }

// match pairs the proxies of both sides: by namespace and name, else by
// workload, in order of name, since the pods of a changed template have other
// names. It returns pairs of groups by where the head has them, and the proxies
// that only base or only head has.
func match(base, head *result.Audit) (pairs []pair, gone, come []*result.Proxy) {
	m := matcher{index: map[[2]*result.Group]int{}, baseGroups: groupsByID(base), headGroups: groupsByID(head)}
	byName := map[proxyName]*result.Proxy{}
	for i := range base.Proxies {
		byName[nameOf(&base.Proxies[i])] = &base.Proxies[i]
	}
	var left []*result.Proxy
	for i := range head.Proxies {
		p := &head.Proxies[i]
		if q := byName[nameOf(p)]; q != nil {
			m.add(q, p)
			delete(byName, nameOf(p))
			continue
		}
		left = append(left, p)
	}
	byWorkload := map[proxyName][]*result.Proxy{}
	for i := range base.Proxies {
		if p := &base.Proxies[i]; byName[nameOf(p)] != nil {
			byWorkload[workloadOf(p)] = append(byWorkload[workloadOf(p)], p)
		}
	}
	for _, p := range left {
		key := workloadOf(p)
		if len(byWorkload[key]) == 0 || p.Workload == "" {
			come = append(come, p)
			continue
		}
		m.add(byWorkload[key][0], p)
		delete(byName, nameOf(byWorkload[key][0]))
		byWorkload[key] = byWorkload[key][1:]
	}
	for i := range base.Proxies {
		if byName[nameOf(&base.Proxies[i])] != nil {
			gone = append(gone, &base.Proxies[i])
		}
	}
	slices.SortFunc(m.pairs, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.head.Namespace, y.head.Namespace), cmp.Compare(x.head.Workload, y.head.Workload), slices.Compare(x.names, y.names))
	})
	for i := range m.pairs {
		m.pairs[i].index = i
	}
	return m.pairs, gone, come
}

type matcher struct {
	index                  map[[2]*result.Group]int
	pairs                  []pair
	baseGroups, headGroups map[string]*result.Group
}

func (m *matcher) add(base, head *result.Proxy) {
	key := [2]*result.Group{m.baseGroups[base.Group], m.headGroups[head.Group]}
	i, ok := m.index[key]
	if !ok {
		i = len(m.pairs)
		m.index[key] = i
		m.pairs = append(m.pairs, pair{base: key[0], head: key[1]})
	}
	m.pairs[i].names = append(m.pairs[i].names, head.Name)
}

func groupsByID(a *result.Audit) map[string]*result.Group {
	out := map[string]*result.Group{}
	for i := range a.Groups {
		out[a.Groups[i].ID] = &a.Groups[i]
	}
	return out
}

func nameOf(p *result.Proxy) proxyName { return proxyName{p.Kind, p.Namespace, p.Name} }

func workloadOf(p *result.Proxy) proxyName { return proxyName{p.Kind, p.Namespace, p.Workload} }

func id(prefix string, index int) string { return prefix + strconv.Itoa(index+1) }
