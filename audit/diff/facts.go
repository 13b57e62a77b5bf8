package diff

import (
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

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
	}
	for _, entry := range c.entries {
		for _, name := range []string{entry.change.Resource, entry.change.To} {
			if cl, ok := parseCluster(name); ok {
				in.hosts[cl.host] = true
			}
		}
	}
	c.interest = in
}

// scopeFacts is what the events need to know of a scope.
type scopeFacts struct {
	hosts map[string]*hostFacts // that are of interest and have clusters
	fixed int64                 // bytes of the clusters of no service
	rules map[object][]string   // hosts that a DestinationRule of interest is applied to
	uses  map[object]bool
}

// hostFacts is one service in a scope.
type hostFacts struct {
	clusters int64 // bytes
	whole    bool  // there are clusters other than subsets'
	eds      []*result.Resource
}

func (f *scopeFacts) host(name string) *hostFacts {
	if f.hosts[name] == nil {
		f.hosts[name] = &hostFacts{}
	}
	return f.hosts[name]
}

func (c *comparer) factsOf(s *side, scope *result.Scope) *scopeFacts {
	if known := c.facts[scope]; known != nil {
		return known
	}
	f := &scopeFacts{hosts: map[string]*hostFacts{}, rules: map[object][]string{}, uses: map[object]bool{}}
	c.facts[scope] = f
	for _, r := range scope.Resources.CDS {
		cl, ok := parseCluster(r.Name)
		if !ok {
			f.fixed += r.Bytes
			continue
		}
		relevant := c.interest.hosts[cl.host]
		for i := range r.Parts {
			if namespace, name, ok := strings.Cut(text(r.Parts[i].Rule), "/"); ok {
				if o := (object{"DestinationRule", namespace, name}); c.interest.objects[o] {
					f.rules[o] = append(f.rules[o], cl.host)
					relevant = true
				}
			}
		}
		if relevant {
			h := f.host(cl.host)
			h.clusters += r.Bytes
			h.whole = h.whole || cl.subset == ""
		}
	}
	for o, hosts := range f.rules {
		f.rules[o] = distinct(hosts)
	}
	for _, r := range scope.Resources.EDS {
		if cl, ok := parseCluster(r.Name); ok && f.hosts[cl.host] != nil {
			f.hosts[cl.host].eds = append(f.hosts[cl.host].eds, r)
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

// gains is what the head's scope of a pair has that the base's has not.
type gains struct {
	hosts []string // services without clusters before
	// assignments are the bytes of the load assignments, by service and in all.
	assignments    map[string][]int64
	allAssignments []int64
}

func (c *comparer) gainsOf(p *pair) *gains {
	key := scopePair{c.baseScope(p), c.headScope(p)}
	if known := c.gained[key]; known != nil {
		return known
	}
	g := &gains{assignments: map[string][]int64{}}
	c.gained[key] = g
	before := c.factsOf(c.base, key.base)
	for _, f := range c.scopes[key] {
		if f.head == nil || f.Part != nil || f.base != nil && f.To == "" {
			continue // not a whole resource, or had before
		}
		cl, ok := parseCluster(f.head.Name)
		switch {
		case !ok:
		case f.Type == "eds":
			g.assignments[cl.host] = append(g.assignments[cl.host], f.head.Bytes)
			g.allAssignments = append(g.allAssignments, f.head.Bytes)
		case f.Type == "cds" && (before.hosts[cl.host] == nil || !before.hosts[cl.host].whole):
			g.hosts = append(g.hosts, cl.host)
		}
	}
	g.hosts = distinct(g.hosts)
	return g
}
