package diff

import "github.com/mesh-audit/mesh-audit/audit/result"

// delivery is what a connection gets of one type.
type delivery struct {
	sent  bool
	bytes int64
}

type deliveries map[string]delivery

// with is two pushes, one after the other.
func (d deliveries) with(e deliveries) deliveries {
	for xdsType, more := range e {
		d[xdsType] = delivery{true, d[xdsType].bytes + more.bytes}
	}
	return d
}

func (d deliveries) any() bool {
	for _, t := range d {
		if t.sent {
			return true
		}
	}
	return false
}

func (d deliveries) bytes() int64 {
	total := int64(0)
	for _, t := range d {
		total += t.bytes
	}
	return total
}

// deliver is what a proxy of the pair gets when istiod generates s, of the types
// that it has asked for: what it holds of the head, and what it asks for because
// of new clusters and listeners.
func (c *comparer) deliver(p *pair, s sent) deliveries {
	out := deliveries{}
	whole := func(xdsType string, on bool) {
		if on && (*p.base.Counts.Of(xdsType) > 0 || *p.head.Counts.Of(xdsType) > 0) {
			out[xdsType] = delivery{true, *p.head.Bytes.Of(xdsType)}
		}
	}
	whole("rds", s.rds)
	whole("nds", s.nds)
	whole("ecds", s.ecds)
	if s.lds { // a proxy always asks for listeners, even if there are none
		out["lds"] = delivery{true, p.head.Bytes.LDS}
	}
	if s.cds.any {
		out["cds"] = delivery{true, c.clusterBytes(p, s.cds)}
	}
	if d := c.assignments(p, s); d.sent {
		out["eds"] = d
	}
	return out
}

// clusterBytes is all clusters, or the services' with those that belong to no
// service.
func (c *comparer) clusterBytes(p *pair, x extent) int64 {
	if x.all {
		return p.head.Bytes.CDS
	}
	facts := c.factsOf(c.head, c.headScope(p))
	total := facts.fixed
	for _, r := range p.head.Resources.CDS {
		total += r.Bytes
	}
	for _, host := range distinct(x.hosts) {
		if h := facts.hosts[host]; h != nil {
			total += h.clusters
		}
	}
	return total
}

// assignments is the load assignments that istiod sends: of those that the proxy
// holds, and of those that it asks for once it has their clusters. A cluster that
// goes is still asked for at that moment: istiod sends an empty assignment, whose
// bytes are not counted.
func (c *comparer) assignments(p *pair, s sent) delivery {
	var out delivery
	send := func(list ...int64) {
		for _, bytes := range list {
			out = delivery{true, out.bytes + bytes}
		}
	}
	g := c.gainsOf(p)
	switch {
	case s.eds.all && p.base.Counts.EDS > 0:
		send(p.head.Bytes.EDS)
		for _, bytes := range g.allAssignments {
			out.bytes -= bytes
		}
	case s.eds.any:
		before, after := c.factsOf(c.base, c.baseScope(p)), c.factsOf(c.head, c.headScope(p))
		for _, host := range distinct(s.eds.hosts) {
			if before.hosts[host] == nil {
				continue
			}
			for _, r := range before.hosts[host].eds {
				send(after.assignment(host, r.Name))
			}
		}
	}
	switch {
	case s.cds.any && s.cds.all:
		send(g.allAssignments...)
	case s.cds.any:
		for _, host := range distinct(s.cds.hosts) {
			send(g.assignments[host]...)
		}
	}
	return out
}

// assignment is the bytes of a load assignment; 0: the scope does not have it.
func (f *scopeFacts) assignment(host, name string) int64 {
	if h := f.hosts[host]; h != nil {
		for _, r := range h.eds {
			if r.Name == name {
				return r.Bytes
			}
		}
	}
	return 0
}

// add counts n proxies that are sent d.
func (d deliveries) add(out *result.InputPush, n int) {
	if n == 0 || !d.any() {
		return
	}
	out.Any += n
	out.Bytes += d.bytes() * int64(n)
	for xdsType := range d {
		*out.Proxies.Of(xdsType) += n
	}
}
