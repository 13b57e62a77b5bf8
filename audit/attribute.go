package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// ledger adds up what the bytes of all connections are for. Each byte is
// counted once: to the one service that a resource, or its part, is sent for,
// else to the remainder.
type ledger struct {
	details   bool // also what only a comparison needs
	services  map[mesh.HostNamespace]*result.Service
	remainder map[string]*result.Remainder
}

func newLedger(details bool) *ledger {
	return &ledger{details: details, services: map[mesh.HostNamespace]*result.Service{}, remainder: map[string]*result.Remainder{}}
}

// account is what bytes are counted to: a service's host name, or where that
// is empty a name of the remainder.
type account struct{ host, rest string }

// entry is what the proxies of a scope have of the remainder under one name.
type entry struct {
	total   int64 // bytes over all proxies
	proxies int
	shared  bool // all proxies of the scope have it
}

type entries map[string]*entry

func (e entries) add(rest string, bytes int64) *entry {
	if e[rest] == nil {
		e[rest] = &entry{}
	}
	e[rest].total += bytes
	return e[rest]
}

// add counts a view's proxies: what those of a scope share, and what each group
// has beside it, is without, or has in other sizes.
func (l *ledger) add(view *mesh.View, p *xds.Projection) {
	services := make([]*result.Service, len(p.Services)) // nil: no scope has it yet
	counted := make([]int, len(services))                // the last scope of which the proxies were counted, from 1
	for i, s := range p.Scopes {
		proxies, kind := 0, ""
		for _, g := range s.Groups {
			proxies += g.Proxies
			kind = g.Kind
		}
		rest := entries{}
		for _, fan := range s.Fans {
			for j, id := range fan.Services {
				if services[id] == nil {
					services[id] = l.service(view, p.Services[id])
				}
				services[id].Total += fan.Bytes[j] * int64(proxies)
				if counted[id] != i+1 {
					counted[id] = i + 1
					services[id].Proxies += proxies
				}
			}
			if fan.Rest != 0 {
				e := rest.add(restOf(fan.Type, kind), fan.Rest*int64(proxies))
				e.shared, e.proxies = true, proxies
			}
		}
		for _, g := range s.Groups {
			rest.addOwn(g)
			l.adjust(view, rest, s, g)
		}
		for name, e := range rest {
			l.addRest(name, e)
		}
	}
}

// divide tells what the bytes of a shared resource are for, as its list's Fan does.
func divide(xdsType, kind string, r *result.Resource) map[account]int64 {
	if r.Service != "" {
		return map[account]int64{{host: r.Service}: r.Bytes}
	}
	out := map[account]int64{}
	left := r.Bytes
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Service != "" && p.Bytes > 0 {
			out[account{host: p.Service}] += p.Bytes
			left -= p.Bytes
		}
	}
	if left != 0 {
		out[account{rest: restOf(xdsType, kind)}] += left
	}
	return out
}

// restOf names the bytes of a type that no single service is the reason for.
func restOf(xdsType, kind string) string {
	switch xdsType {
	case "lds":
		if kind == result.Router {
			return result.RestGateway
		}
		return result.RestListeners
	case "rds":
		return result.RestRoutes
	case "nds":
		return result.RestNames
	case "ecds":
		return result.RestExtensions
	}
	return result.RestClusters
}

// addOwn counts what a group has beside its scope.
func (e entries) addOwn(g *xds.GroupResult) {
	own := map[string]int64{}
	for _, t := range result.Types {
		name := result.RestInbound
		if t == "ecds" {
			name = result.RestExtensions
		}
		for _, r := range *g.Resources.Of(t) {
			own[name] += r.Bytes
		}
	}
	for name, bytes := range own {
		if known := e.add(name, bytes*int64(g.Proxies)); !known.shared {
			known.proxies += g.Proxies
		}
	}
}

// adjust counts what a group is without and what weighs otherwise for it.
func (l *ledger) adjust(view *mesh.View, rest entries, s *xds.ScopeResult, g *xds.GroupResult) {
	n := int64(g.Proxies)
	count := func(to account, bytes int64) {
		if to.host == "" {
			rest.add(to.rest, bytes)
		} else {
			l.service(view, mesh.HostNamespace{Host: to.host, Namespace: s.NamespaceOf(to.host)}).Total += bytes
		}
	}
	for _, t := range result.Types {
		list := *s.Resources.Of(t)
		for _, name := range *g.Without.Of(t) {
			for to, bytes := range divide(t, g.Kind, named(list, name)) {
				count(to, -bytes*n)
			}
		}
		for _, resized := range *g.Resized.Of(t) {
			r := named(list, resized.Name)
			to := account{host: r.Service}
			if r.Service == "" {
				to.rest = restOf(t, g.Kind)
			}
			count(to, (resized.Bytes-r.Bytes)*n)
		}
	}
}

// named is the resource of that name in a list sorted by name, which has it.
func named(list []*result.Resource, name string) *result.Resource {
	i, _ := slices.BinarySearchFunc(list, name, func(r *result.Resource, n string) int { return strings.Compare(r.Name, n) })
	return list[i]
}

// service is the entry of a service; without namespace: of a host that is none.
func (l *ledger) service(view *mesh.View, name mesh.HostNamespace) *result.Service {
	f := l.services[name]
	if f == nil {
		f = &result.Service{Host: name.Host, Namespace: name.Namespace}
		if svc := view.Service(name.Host, name.Namespace); svc != nil {
			f.Ref, f.Headless, f.Istiod = svc.Ref, svc.Headless(), view.LeadsToIstiod(svc)
			rows := view.Endpoints.Of(name.Host, name.Namespace)
			f.Addresses, f.MTLS = distinctAddresses(rows), mtlsOf(view, rows)
			if l.details {
				f.HTTP, f.Accounts = !slices.ContainsFunc(svc.Ports, func(p mesh.Port) bool { return !p.Protocol.IsHTTP() }), accountsOf(rows)
			}
		}
		l.services[name] = f
	}
	return f
}

func (l *ledger) addRest(name string, e *entry) {
	if l.remainder[name] == nil {
		l.remainder[name] = &result.Remainder{Name: name}
	}
	l.remainder[name].Proxies += e.proxies
	l.remainder[name].Total += e.total
}

func distinctAddresses(rows []mesh.Endpoint) int {
	seen := make(map[string]bool, len(rows))
	for i := range rows {
		seen[rows[i].Address] = true
	}
	return len(seen)
}

// lists are the services and the remainder, heaviest first.
func (l *ledger) lists() ([]result.Service, []result.Remainder) {
	var services []result.Service
	for _, f := range l.services {
		f.Bytes = mean(f.Total, f.Proxies)
		services = append(services, *f)
	}
	slices.SortFunc(services, func(x, y result.Service) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Host, y.Host), cmp.Compare(x.Namespace, y.Namespace))
	})
	var rest []result.Remainder
	for _, r := range l.remainder {
		r.Bytes = mean(r.Total, r.Proxies)
		rest = append(rest, *r)
	}
	slices.SortFunc(rest, func(x, y result.Remainder) int {
		return cmp.Or(cmp.Compare(y.Total, x.Total), cmp.Compare(x.Name, y.Name))
	})
	return services, rest
}

func mean(total int64, n int) int64 {
	if n == 0 {
		return 0
	}
	return total / int64(n)
}
