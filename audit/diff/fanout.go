package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// sentTo is what istiod sends a proxy of the pair for an event. The old scope
// counts as well as the new one.
func (c *comparer) sentTo(p *pair, e *event) sent {
	if e.forced {
		return everything
	}
	if p.head.Kind == result.Router {
		return c.sentToRouter(p, e)
	}
	return c.sentToSidecar(p, e)
}

func (c *comparer) sentToSidecar(p *pair, e *event) sent {
	switch e.kind {
	case "VirtualService", "DestinationRule":
		if !c.uses(p, e.object) {
			return sent{}
		}
		return c.routing(p, e)
	case "Sidecar":
		if c.baseScope(p).By.Kind == "" && c.headScope(p).By.Kind == "" || objectOf(c.baseScope(p).By) != e.object && objectOf(c.headScope(p).By) != e.object {
			return sent{}
		}
		return sent{lds: true, rds: true, nds: true, cds: extent{any: true, hosts: c.newHosts(p)}}
	case "ServiceEntry":
		if !c.imports(p, e.hosts) && !serves(p, e.hosts) {
			return sent{}
		}
		return sent{lds: true, rds: true, nds: true, cds: extent{any: true, hosts: e.hosts}, eds: extent{any: true, hosts: e.hosts}}
	case "Endpoints":
		if !c.imports(p, e.hosts) {
			return sent{}
		}
		if e.headless {
			return sent{lds: true, nds: true, eds: extent{any: true, hosts: e.hosts}}
		}
		return sent{eds: extent{any: true, hosts: e.hosts}}
	case "PeerAuthentication":
		return c.peers(p, e)
	case "Gateway":
		return sent{}
	}
	if !c.isRoot(e.object.namespace) && e.object.namespace != p.head.Namespace {
		return sent{}
	}
	return policyTypes(e.kind)
}

// policyTypes are the types that a namespaced policy makes istiod send.
func policyTypes(kind string) sent {
	switch kind {
	case "EnvoyFilter":
		return sent{lds: true, rds: true, ecds: true, cds: extent{any: true, all: true}, eds: extent{any: true, all: true}}
	case "WasmPlugin":
		return sent{lds: true, ecds: true}
	}
	return sent{lds: true}
}

// routing is what a VirtualService or DestinationRule makes istiod send.
func (c *comparer) routing(p *pair, e *event) sent {
	s := sent{lds: true, rds: true, cds: extent{any: true, hosts: c.newHosts(p)}}
	if e.kind == "DestinationRule" {
		hosts := c.ruleHosts(p, e.object)
		s.cds.hosts, s.eds = append(s.cds.hosts, hosts...), extent{any: true, hosts: hosts}
	}
	return s
}

func (c *comparer) sentToRouter(p *pair, e *event) sent {
	switch e.kind {
	case "Sidecar":
		return sent{}
	case "VirtualService", "DestinationRule":
		return c.routing(p, e)
	case "Gateway":
		return sent{lds: true, rds: true, cds: extent{any: true, all: true}}
	case "ServiceEntry":
		if !c.imports(p, e.hosts) {
			return sent{}
		}
		return sent{lds: true, rds: true, nds: true, cds: extent{any: true, hosts: e.hosts}, eds: extent{any: true, hosts: e.hosts}}
	case "Endpoints":
		return sent{eds: extent{any: true, hosts: e.hosts}}
	case "PeerAuthentication":
		s := c.peers(p, e)
		s.cds.any, s.eds.any = true, true
		return s
	}
	return policyTypes(e.kind)
}

// peers is what a PeerAuthentication makes istiod send: listeners to the proxies
// that it may be for, clusters and endpoints of services in its namespace.
func (c *comparer) peers(p *pair, e *event) sent {
	if c.isRoot(e.object.namespace) {
		return sent{lds: true, cds: extent{any: true, all: true}, eds: extent{any: true, all: true}}
	}
	var hosts []string
	for _, host := range c.namespaceHosts(e.object.namespace) {
		if c.imports(p, []string{host}) {
			hosts = append(hosts, host)
		}
	}
	own := e.object.namespace == p.head.Namespace
	if len(hosts) == 0 && !own {
		return sent{}
	}
	return sent{lds: own, cds: extent{any: true, hosts: hosts}, eds: extent{any: true, hosts: hosts}}
}

func (c *comparer) baseScope(p *pair) *result.Scope { return c.base.scopes[p.base.Scope] }
func (c *comparer) headScope(p *pair) *result.Scope { return c.head.scopes[p.head.Scope] }

// uses reports whether a scope of the pair depends on the object.
func (c *comparer) uses(p *pair, o object) bool {
	return c.factsOf(c.base, c.baseScope(p)).uses[o] || c.factsOf(c.head, c.headScope(p)).uses[o]
}

// imports reports whether a scope of the pair has clusters of one of the hosts,
// or depends on a service of them that has none.
func (c *comparer) imports(p *pair, hosts []string) bool {
	before, after := c.factsOf(c.base, c.baseScope(p)), c.factsOf(c.head, c.headScope(p))
	for _, host := range hosts {
		if before.hosts[host] != nil || after.hosts[host] != nil {
			return true
		}
		for _, s := range []*side{c.base, c.head} {
			for _, svc := range s.services[host] {
				if c.uses(p, objectOf(svc.Ref)) {
					return true
				}
			}
		}
	}
	return false
}

// newHosts are the services of which the pair's scope gains clusters.
func (c *comparer) newHosts(p *pair) []string {
	var out []string
	for _, f := range c.scopes[scopePair{c.baseScope(p), c.headScope(p)}] {
		if cl, ok := parseCluster(f.Resource); ok && f.Type == "cds" && f.Kind == result.Gained {
			out = append(out, cl.host)
		}
	}
	return distinct(out)
}

// serves reports whether the proxies themselves are endpoints of one of the hosts.
func serves(p *pair, hosts []string) bool {
	for _, g := range []*result.Group{p.base, p.head} {
		for _, r := range g.Resources.CDS {
			if r.Service != "" && slices.Contains(hosts, r.Service) {
				return true
			}
		}
	}
	return false
}

// ruleHosts are the services that a DestinationRule is applied to in a scope of the pair.
func (c *comparer) ruleHosts(p *pair, o object) []string {
	return distinct(slices.Concat(c.factsOf(c.base, c.baseScope(p)).rules[o], c.factsOf(c.head, c.headScope(p)).rules[o]))
}

// namespaceHosts are the services of a namespace, on either side.
func (c *comparer) namespaceHosts(namespace string) []string {
	var out []string
	for _, s := range []*side{c.base, c.head} {
		for i := range s.Services {
			if s.Services[i].Namespace == namespace {
				out = append(out, s.Services[i].Host)
			}
		}
	}
	return distinct(out)
}

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

func distinct(list []string) []string {
	out := slices.Sorted(slices.Values(list))
	return slices.Compact(out)
}

// interest is which hosts and objects the events are about: only of these is
// anything collected of the scopes.
type interest struct {
	hosts   map[string]bool
	objects map[object]bool
}

func (c *comparer) setInterest(events []*event) {
	in := interest{hosts: map[string]bool{}, objects: map[object]bool{}}
	for _, e := range events {
		in.objects[e.object] = true
		hosts := e.hosts
		if e.kind == "PeerAuthentication" {
			hosts = c.namespaceHosts(e.object.namespace)
		}
		for _, host := range hosts {
			in.hosts[host] = true
			for _, s := range []*side{c.base, c.head} {
				for _, svc := range s.services[host] {
					in.objects[objectOf(svc.Ref)] = true
				}
			}
		}
		if e.kind != "VirtualService" && e.kind != "DestinationRule" && e.kind != "Sidecar" {
			continue
		}
		for _, entry := range c.entries {
			if cl, ok := parseCluster(entry.change.Resource); ok && entry.change.Type == "cds" {
				in.hosts[cl.host] = true
			}
		}
	}
	c.interest = in
}

// scopeFacts is what the events need to know of a scope.
type scopeFacts struct {
	hosts map[string]*result.XDS[int64] // bytes by type, of hosts that are of interest and have clusters
	fixed int64                         // bytes of the clusters of no service
	rules map[object][]string           // hosts that a DestinationRule of interest is applied to
	uses  map[object]bool
}

func (c *comparer) factsOf(s *side, scope *result.Scope) *scopeFacts {
	if known := c.facts[scope]; known != nil {
		return known
	}
	f := &scopeFacts{hosts: map[string]*result.XDS[int64]{}, rules: map[object][]string{}, uses: map[object]bool{}}
	c.facts[scope] = f
	for _, r := range scope.Resources.CDS {
		cl, ok := parseCluster(r.Name)
		if !ok {
			f.fixed += r.Bytes
			continue
		}
		if c.interest.hosts[cl.host] {
			if f.hosts[cl.host] == nil {
				f.hosts[cl.host] = &result.XDS[int64]{}
			}
			f.hosts[cl.host].CDS += r.Bytes
		}
		for i := range r.Parts {
			if namespace, name, ok := strings.Cut(text(r.Parts[i].Rule), "/"); ok {
				if o := (object{"DestinationRule", namespace, name}); c.interest.objects[o] {
					f.rules[o] = append(f.rules[o], cl.host)
				}
			}
		}
	}
	for o, hosts := range f.rules {
		f.rules[o] = distinct(hosts)
		for _, host := range f.rules[o] {
			if f.hosts[host] == nil {
				f.hosts[host] = &result.XDS[int64]{}
			}
		}
	}
	for _, r := range scope.Resources.EDS {
		if cl, ok := parseCluster(r.Name); ok && f.hosts[cl.host] != nil {
			f.hosts[cl.host].EDS += r.Bytes
		}
	}
	for _, i := range scope.Uses {
		if int(i) < len(s.Objects) {
			if o := objectOf(s.Objects[i].Ref); c.interest.objects[o] {
				f.uses[o] = true
			}
		}
	}
	return f
}
