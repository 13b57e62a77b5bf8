package xds

import (
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// list is resources of one type, added up. It is not changed once made, since
// scopes share it.
type list struct {
	resources []*result.Resource // sorted by name
	bytes     int64
	endpoints int
	fan       *Fan
}

// Fan divides a list's bytes: to each service that a resource, or a part of it,
// is sent for, and the rest. The services are indices into Projection.Services.
type Fan struct {
	Services []int32
	Bytes    []int64 // by position in Services
	Rest     int64
}

// TypeFan is the Fan of a list of one xDS type.
type TypeFan struct {
	Type string
	*Fan
}

// fanIndex numbers services, and adds up what is sent for each.
type fanIndex struct {
	names   []mesh.HostNamespace
	ids     map[mesh.HostNamespace]int32
	byIndex []int32 // by mesh.Service.Index: id + 1; 0: not numbered yet
	at      []int32 // by id: position + 1 in the Fan that is being made
}

func (x *fanIndex) id(name mesh.HostNamespace) int32 {
	id, ok := x.ids[name]
	if !ok {
		if x.ids == nil {
			x.ids = map[mesh.HostNamespace]int32{}
		}
		id = int32(len(x.names)) //nolint:gosec // far fewer services
		x.ids[name] = id
		x.names = append(x.names, name)
		x.at = append(x.at, 0)
	}
	return id
}

// idOf is the number of the service that the scope knows by a host name.
func (b *Builder) idOf(s *scope.Scope, host string) int32 {
	x := &b.fans
	svc := s.Service(host)
	if svc == nil || svc.Service == nil {
		return x.id(mesh.HostNamespace{Host: host})
	}
	if x.byIndex == nil {
		x.byIndex = make([]int32, len(b.view.Services))
	}
	if i := svc.Index; i < len(x.byIndex) && b.view.Services[i] == svc.Service {
		if x.byIndex[i] == 0 {
			x.byIndex[i] = x.id(mesh.HostNamespace{Host: host, Namespace: svc.Namespace}) + 1
		}
		return x.byIndex[i] - 1
	}
	return x.id(mesh.HostNamespace{Host: host, Namespace: svc.Namespace})
}

func (x *fanIndex) add(f *Fan, id int32, bytes int64) {
	if x.at[id] == 0 {
		f.Services, f.Bytes = append(f.Services, id), append(f.Bytes, 0)
		x.at[id] = int32(len(f.Services)) //nolint:gosec // far fewer services
	}
	f.Bytes[x.at[id]-1] += bytes
}

// done ends the making of f.
func (x *fanIndex) done(f *Fan) *Fan {
	for _, id := range f.Services {
		x.at[id] = 0
	}
	return f
}

// listOf adds resources up.
func (b *Builder) listOf(s *scope.Scope, resources []*result.Resource) *list {
	l := &list{resources: resources}
	fan := &Fan{}
	for _, r := range resources {
		l.bytes += r.Bytes
		l.endpoints += r.Endpoints
		if r.Service != "" {
			b.fans.add(fan, b.idOf(s, r.Service), r.Bytes)
			continue
		}
		fan.Rest += r.Bytes
		for i := range r.Parts {
			if p := &r.Parts[i]; p.Service != "" && p.Bytes > 0 {
				b.fans.add(fan, b.idOf(s, p.Service), p.Bytes)
				fan.Rest -= p.Bytes
			}
		}
	}
	l.fan = b.fans.done(fan)
	return l
}

// listeners are the outbound listeners of a scope's sidecars, with what is
// needed to tell a single proxy's difference.
type listeners struct {
	*list
	all       []*Listener            // in the order of list
	names     []string               // of route configurations that they refer to, sorted
	byAddress map[string][]*Listener // those that the proxy with the address does not get
	routeUses map[string]int         // by route configuration
	sizings   map[sizingKey]*sizing
}

func (b *Builder) listenersOf(s *scope.Scope, all []*Listener) *listeners {
	out := &listeners{all: all, byAddress: map[string][]*Listener{}, routeUses: map[string]int{}, sizings: map[sizingKey]*sizing{}}
	resources := make([]*result.Resource, 0, len(all))
	for _, l := range all {
		resources = append(resources, &l.Resource)
		if l.OwnAddress != "" {
			out.byAddress[l.OwnAddress] = append(out.byAddress[l.OwnAddress], l)
		}
		for _, r := range l.Routes {
			out.routeUses[r]++
		}
	}
	out.list = b.listOf(s, resources)
	out.names = sortedKeys(out.routeUses)
	return out
}

// commonKey is what decides the clusters and load assignments of scopes that
// are alike.
type commonKey struct {
	common  *scope.Common
	key     scope.Key // without namespace and domain, which only names in routes depend on
	shape   proxyShape
	patches *envoyPatches
}

// commonLists are lists that such scopes share; nil: not made yet.
type commonLists struct {
	clusters, endpoints *list
	listeners           map[listenersKey]*listeners
	routes              map[namespaceHostsKey]*namespaceHosts // nil: their hosts depend on each other
}

// listenersKey is what the outbound listeners of such scopes depend on beside.
type listenersKey struct {
	shape string // listenerKeyOf
	own   ownSizes
}

// common finds the lists that a scope shares with others; empty ones if it
// shares none.
func (b *Builder) common(s *scope.Scope, p *mesh.Proxy) *commonLists {
	key, alike := b.commonKeyOf(s, p)
	if !alike {
		return &commonLists{listeners: map[listenersKey]*listeners{}}
	}
	known := b.commons[key]
	if known == nil {
		known = &commonLists{listeners: map[listenersKey]*listeners{}}
		if b.commons == nil {
			b.commons = map[commonKey]*commonLists{}
		}
		b.commons[key] = known
	}
	return known
}

func (b *Builder) commonKeyOf(s *scope.Scope, p *mesh.Proxy) (key commonKey, alike bool) {
	common := s.Common()
	if common == nil || common.NamespaceMatters || s.Kind == mesh.RouterProxy && b.view.Flags.FilterGatewayClusterConfig {
		return key, false
	}
	patches := b.patchesFor(p)
	key = commonKey{common: common, key: s.Key, shape: b.shapeOf(p, patches), patches: patches}
	key.key.Namespace, key.key.Domain = "", ""
	return key, true
}
