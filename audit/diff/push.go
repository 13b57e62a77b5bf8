package diff

import (
	"cmp"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// push tells what istiod sends because of the change: whom each input alone,
// and whom all together, as istiod 1.31 decides.
func (c *comparer) push() {
	p := &c.out.Push
	var events []*event
	for i := range c.out.Inputs {
		e := c.eventOf(i)
		if e == nil {
			continue
		}
		if e.reconnect != "" && p.Reconnect == "" {
			p.Reconnect = e.reconnect
		}
		e.out.Input = c.out.Inputs[i].ID
		events = append(events, e)
	}
	c.setInterest(events)
	for i := range c.pairs {
		c.pushPair(&c.pairs[i], events)
	}
	for _, e := range events {
		p.Inputs = append(p.Inputs, e.out)
	}
	slices.SortStableFunc(p.Inputs, func(x, y result.InputPush) int { return cmp.Compare(y.Bytes, x.Bytes) })
	c.later()
}

// pushPair counts what the proxies of a pair are sent. A proxy whose own pod
// changed is sent everything, and then what the others are sent.
func (c *comparer) pushPair(p *pair, events []*event) {
	own := map[string]bool{}
	for _, e := range events {
		if e.own && e.object.namespace == p.head.Namespace && slices.Contains(p.names, e.object.name) {
			own[e.object.name] = true
		}
	}
	var all sent
	var routes deliveries // of any VirtualService: all make istiod generate the same
	for _, e := range events {
		s, n := c.sentTo(p, e), len(p.names)
		if e.own && own[e.object.name] {
			c.deliver(p, everything).with(c.deliver(p, s)).add(&e.out, 1)
			n--
		}
		if e.kind == "VirtualService" && s.lds {
			if routes == nil {
				routes = c.deliver(p, s)
				all = all.union(s)
			}
			routes.add(&e.out, n)
			continue
		}
		c.deliver(p, s).add(&e.out, n)
		all = all.union(s)
	}
	count := func(d deliveries, n int) {
		if n > 0 && d.any() {
			c.out.Push.Proxies += n
			c.out.Push.Bytes += d.bytes() * int64(n)
		}
	}
	count(c.deliver(p, everything).with(c.deliver(p, all)), len(own))
	count(c.deliver(p, all), len(p.names)-len(own))
}
