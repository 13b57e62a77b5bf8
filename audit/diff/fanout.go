package diff

import (
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// sent is what istiod generates for a proxy because of an event, by Istio
// pilot/pkg/xds (proxy_dependencies.go, and needsPush of lds.go, rds.go, cds.go,
// eds.go, nds.go and ecds.go) of 1.31: listeners, routes, extensions and names
// whole, of clusters and endpoints how many.
type sent struct {
	lds, rds, nds, ecds bool
	cds, eds            extent
}

// extent is all of a type, or the services'. Without either, any is clusters
// that belong to no service, which istiod builds every time.
type extent struct {
	any, all bool
	hosts    []string
}

// union adds y; the hosts of x must be its own.
func (x extent) union(y extent) extent {
	return extent{any: x.any || y.any, all: x.all || y.all, hosts: append(x.hosts, y.hosts...)}
}

func (s sent) union(t sent) sent {
	return sent{
		lds: s.lds || t.lds, rds: s.rds || t.rds, nds: s.nds || t.nds, ecds: s.ecds || t.ecds,
		cds: s.cds.union(t.cds), eds: s.eds.union(t.eds),
	}
}

var everything = sent{lds: true, rds: true, nds: true, ecds: true, cds: extent{any: true, all: true}, eds: extent{any: true, all: true}}

// sentTo is what istiod generates for a proxy of the pair because of an event.
// The old scope counts as well as the new one.
func (c *comparer) sentTo(p *pair, e *event) sent {
	if e.forced {
		return everything
	}
	router := p.head.Kind == result.Router
	switch e.kind {
	case "VirtualService", "DestinationRule":
		if router || c.uses(p, e.object) {
			return c.routing(p, e)
		}
	case "Sidecar":
		if !router && (objectOf(c.baseScope(p).By) == e.object || objectOf(c.headScope(p).By) == e.object) {
			return sent{lds: true, rds: true, nds: true, cds: extent{any: true, hosts: c.newHosts(p)}}
		}
	case "ServiceEntry":
		if c.imports(p, e.hosts, e.object.namespace) || !router && serves(p, e.hosts) {
			return service(e.hosts)
		}
	case "Endpoints":
		return c.endpoints(p, e)
	case "PeerAuthentication":
		return c.peers(p, e)
	case "Gateway":
		if router {
			return sent{lds: true, rds: true, cds: extent{any: true, all: true}}
		}
	default:
		if router || c.isRoot(e.object.namespace) || e.object.namespace == p.head.Namespace {
			return policyTypes(e.kind)
		}
	}
	return sent{}
}

// service is what a changed service makes istiod generate.
func service(hosts []string) sent {
	return sent{lds: true, rds: true, nds: true, cds: extent{any: true, hosts: hosts}, eds: extent{any: true, hosts: hosts}}
}

// policyTypes are the types that a namespaced policy makes istiod generate.
func policyTypes(kind string) sent {
	switch kind {
	case "EnvoyFilter":
		return sent{lds: true, rds: true, ecds: true, cds: extent{any: true, all: true}, eds: extent{any: true, all: true}}
	case "WasmPlugin":
		return sent{lds: true, ecds: true}
	}
	return sent{lds: true}
}

// routing is what a VirtualService or DestinationRule makes istiod generate.
func (c *comparer) routing(p *pair, e *event) sent {
	s := sent{lds: true, rds: true, cds: extent{any: true}}
	if e.kind == "DestinationRule" {
		hosts := c.ruleHosts(p, e.object)
		s.cds.hosts, s.eds = hosts, extent{any: true, hosts: hosts}
	} else {
		s.cds.hosts = c.newHosts(p)
	}
	return s
}

// endpoints is what changed endpoints make istiod generate. With those of a
// headless service comes a change of the service, which is joined with them to
// one push.
func (c *comparer) endpoints(p *pair, e *event) sent {
	router := p.head.Kind == result.Router
	has := c.imports(p, e.hosts, e.object.namespace)
	switch {
	case e.headless == headlessTCP && (has || !router && serves(p, e.hosts)):
		return service(e.hosts)
	case e.headless == headlessHTTP:
		s := sent{nds: true}
		if has || router {
			s.eds = extent{any: true, all: true}
		}
		return s
	case has || router:
		return sent{eds: extent{any: true, hosts: e.hosts}}
	}
	return sent{}
}

// peers is what a PeerAuthentication makes istiod generate: listeners for the
// proxies that it may be for, clusters and endpoints of services in its
// namespace.
func (c *comparer) peers(p *pair, e *event) sent {
	if c.isRoot(e.object.namespace) {
		return sent{lds: true, cds: extent{any: true, all: true}, eds: extent{any: true, all: true}}
	}
	var hosts []string
	for _, host := range c.namespaceHosts(e.object.namespace) {
		if c.imports(p, []string{host}, e.object.namespace) {
			hosts = append(hosts, host)
		}
	}
	own := e.object.namespace == p.head.Namespace
	if len(hosts) == 0 && !own && p.head.Kind != result.Router {
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

// imports reports whether a scope of the pair has one of the hosts: clusters of
// it, whichever namespace's service they are of, or a service of the namespace
// that has none.
func (c *comparer) imports(p *pair, hosts []string, namespace string) bool {
	for _, s := range []*side{c.base, c.head} {
		scope := c.baseScope(p)
		if s == c.head {
			scope = c.headScope(p)
		}
		f := c.factsOf(s, scope)
		for _, host := range hosts {
			if f.hosts[host] != nil {
				return true
			}
			for _, svc := range s.services[host] {
				if svc.Namespace == namespace && f.uses[objectOf(svc.Ref)] {
					return true
				}
			}
		}
	}
	return false
}

// newHosts are the services that the pair's scope did not have clusters of.
func (c *comparer) newHosts(p *pair) []string { return c.gainsOf(p).hosts }

// serves reports whether the proxies themselves are endpoints of one of the hosts.
func serves(p *pair, hosts []string) bool {
	return slices.ContainsFunc(served(p.head), func(host string) bool { return slices.Contains(hosts, host) })
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

func distinct(list []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(list)))
}
