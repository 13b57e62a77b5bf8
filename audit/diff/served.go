package diff

import (
	"maps"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// servedBy tells what of a sidecar takes, on the same port, what a lost
// listener, chain, route configuration or virtual host was for: false if
// nothing does, or not for all of its services.
func (c *comparer) servedBy(x *pairView, f *found, port string) (outcome, bool) {
	if x.head.isRouter() || f.Kind != result.Lost {
		return outcome{}, false
	}
	hosts := x.base.destinations(f.Before)
	if len(hosts) == 0 {
		return outcome{}, false
	}
	if f.Type == "rds" {
		if name := x.routesFor(f, hosts, port); name != "" {
			return outcome{"route configuration " + name + " instead", true}, true
		}
	}
	all := c.takersOf(x.head)
	tcp, http := listenerFor(all.tcp, hosts, port, f.Resource), listenerFor(all.http, hosts, port, f.Resource)
	wasHTTP, wasTCP := f.Type == "rds", false
	for i := range f.Before {
		for _, to := range f.Before[i].To {
			wasHTTP = wasHTTP || strings.HasPrefix(to, "rds ")
			_, isCluster := parseCluster(strings.TrimPrefix(to, "cluster "))
			wasTCP = wasTCP || f.Type == "lds" && isCluster
		}
	}
	switch {
	case http != "" && (tcp != "" || !wasTCP):
		return outcome{"listener " + http + " instead", true}, true
	case http != "":
		rest := c.passed(x, f, x.head.withoutChain(http)).sees
		return outcome{"listener " + http + " instead, as HTTP; what is not HTTP: " + rest, true}, true
	case tcp != "" && wasHTTP:
		return outcome{"listener " + tcp + " instead: as plain TCP, without HTTP routes", false}, true
	case tcp != "":
		return outcome{"listener " + tcp + " instead", true}, true
	}
	return outcome{}, false
}

// routesFor is another route configuration of the port that leads the domains
// of lost virtual hosts to the same services; empty: none does for all. Those of
// a sidecar are named after the port, or after the host where istiod sniffs.
func (x *pairView) routesFor(f *found, hosts map[string]bool, port string) string {
	names := []string{port}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		names = append(names, host+":"+port)
	}
	for _, name := range names {
		if name == f.Resource {
			continue
		}
		for _, r := range x.head.find("rds", name) {
			other := func(p result.Part) bool { return !catchAll(&p) && !x.leadsAlike(r, &p) }
			if !slices.ContainsFunc(f.Before, other) {
				return name
			}
		}
	}
	return ""
}

// leadsAlike reports whether a route configuration of the head leads a virtual
// host's domains to the services that it led to.
func (x *pairView) leadsAlike(r *result.Resource, p *result.Part) bool {
	to := x.base.destinations([]result.Part{*p})
	return slices.ContainsFunc(p.Domains, func(d string) bool {
		h := hostFor(r, d)
		return h != nil && !catchAll(h) && maps.Equal(to, x.head.destinations([]result.Part{*h}))
	})
}

// portHost is a service on a port of listeners.
type portHost struct{ port, host string }

// takers are a scope's listeners by the services that they take connections to,
// as TCP and by HTTP routes.
type takers struct{ tcp, http map[portHost][]string }

// takersOf collects them, once.
func (c *comparer) takersOf(v groupView) *takers {
	if known := c.takers[v.scope]; known != nil {
		return known
	}
	t := &takers{tcp: map[portHost][]string{}, http: map[portHost][]string{}}
	for _, l := range *v.shared("lds") {
		note := func(into map[portHost][]string, host string) {
			if key := (portHost{portOf(l.Name), host}); !slices.Contains(into[key], l.Name) {
				into[key] = append(into[key], l.Name)
			}
		}
		for i := range l.Parts {
			for _, to := range l.Parts[i].To {
				if cl, ok := parseCluster(strings.TrimPrefix(to, "cluster ")); ok {
					note(t.tcp, cl.host)
				} else if strings.HasPrefix(to, "rds ") {
					for host := range v.destinations([]result.Part{{To: []string{to}}}) {
						note(t.http, host)
					}
				}
			}
		}
	}
	c.takers[v.scope] = t
	return t
}

// listenerFor is a listener of the port, other than one of a name, that takes
// connections to all hosts; empty: none does.
func listenerFor(takers map[portHost][]string, hosts map[string]bool, port, but string) string {
	name := ""
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		list := slices.DeleteFunc(slices.Clone(takers[portHost{port, host}]), func(l string) bool { return l == but })
		if len(list) == 0 {
			return ""
		}
		if name == "" {
			name = list[0]
		}
	}
	return name
}
