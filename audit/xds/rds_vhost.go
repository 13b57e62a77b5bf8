package xds

import (
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// virtualHost is one virtual host of a sidecar's route configuration.
type virtualHost struct {
	name    string
	domains []string       // in istiod's order
	sorted  []string       // in byte order
	routes  *routeSet      // nil only for the last resort's
	service *scope.Service // nil: a host that is no service
	by      result.Ref
	message *routev3.VirtualHost // the last resort
}

// buildHosts makes the virtual hosts of an egress listener for a port; 0 is
// all ports (RDS-4, RDS-5).
func (b *Builder) buildHosts(x *listenerIndex, port int) []virtualHost {
	current := &b.routes.current
	ps := b.portServices(x, port)
	b.tellHosts(x, ps)
	groups := make([]hostGroup, 0, len(ps.list))
	for _, vs := range x.VirtualServices {
		if port == 80 || b.matches(ps, vs) {
			groups = append(groups, b.hostGroups(current.scope, current.proxy, x, ps, vs)...)
		}
	}
	routed := map[*scope.Service]bool{}
	for i := range groups {
		for _, svc := range groups[i].services {
			routed[svc] = true
		}
	}
	for i, svc := range ps.list {
		if svc.Resolution == mesh.Alias || routed[svc] {
			continue
		}
		for _, sp := range ps.ports(svc) {
			if sp.Protocol.IsHTTP() || sp.Protocol.IsAuto() {
				groups = append(groups, hostGroup{
					port: sp.Number, services: ps.list[i : i+1 : i+1],
					routes: b.defaultRouteSet(current.scope, current.proxy, svc, sp.Number),
				})
			}
		}
	}
	hosts := b.nameHosts(groups, port)
	slices.SortStableFunc(hosts, func(x, y virtualHost) int { return strings.Compare(x.name, y.name) })
	return hosts
}

// nameHosts gives each virtual host its domains; a name or domain that is
// taken stays with the first (RDS-6).
func (b *Builder) nameHosts(groups []hostGroup, port int) []virtualHost {
	names := &b.routes.names
	names.next()
	for i := range groups {
		for _, svc := range groups[i].services {
			host := b.hostKey(svc.Host)
			names.know(host)
			if port == 0 {
				names.know(hostPort(host, groups[i].port))
			}
		}
	}
	out := make([]virtualHost, 0, len(groups))
	taken := make(map[string]bool, len(groups))
	add := func(g *hostGroup, host string, svc *scope.Service) {
		vh := virtualHost{name: hostPort(host, g.port), routes: g.routes, service: svc, by: g.by}
		if taken[vh.name] {
			names.lost = true
			b.tellTaken(g, host)
			return
		}
		taken[vh.name] = true
		var e *expansion
		if svc != nil {
			e = b.expand(b.routes.current.proxy, svc, port, g.port)
		} else {
			e = b.newExpansion([]string{domainHost(host)}, nil)
		}
		vh.domains, vh.sorted = names.take(e)
		if port == 0 && g.port != 80 {
			vh.keepWithPort()
		}
		if len(vh.domains) > 0 {
			out = append(out, vh)
		}
	}
	for i := range groups {
		g := &groups[i]
		for _, host := range g.names {
			add(g, b.hostKey(host), nil)
		}
		for _, svc := range g.services {
			add(g, b.hostKey(svc.Host), svc)
		}
	}
	return out
}

// know marks a name as some service's own.
func (n *domainNames) know(name string) { n.known[n.id(name)] = n.round }

// take returns the domains of e that are free, in istiod's order and in byte
// order, and marks them as taken.
func (n *domainNames) take(e *expansion) (domains, sorted []string) {
	free := func(i int) bool {
		exact := e.exact[i]
		return n.taken[e.lower[i]] != n.round && (exact < 0 || n.known[exact] != n.round)
	}
	kept := make([]bool, len(e.domains))
	all := true
	for i := range e.domains {
		kept[i] = free(i)
		all = all && kept[i]
		if kept[i] {
			n.taken[e.lower[i]] = n.round
		}
	}
	if all {
		return e.domains, e.sorted
	}
	n.lost = true
	for i, d := range e.domains {
		if kept[i] {
			domains = append(domains, d)
		}
	}
	return domains, sortedSet(domains)
}

// keepWithPort leaves only the domains that name a port: what a proxy for all
// ports may hold for a port other than 80.
func (vh *virtualHost) keepWithPort() {
	var domains []string
	for _, d := range vh.domains {
		if strings.Contains(d, ":") {
			domains = append(domains, d)
		}
	}
	vh.domains, vh.sorted = domains, sortedSet(domains)
}

// virtualHostPart counts a virtual host without building its routes again.
func (b *Builder) virtualHostPart(vh *virtualHost) result.Part {
	if vh.message != nil {
		part := b.digests.virtualHostPart(vh.message)
		part.By = vh.by
		return part
	}
	part := result.Part{
		Name: vh.name, Domains: vh.sorted, To: vh.routes.to, Matches: vh.routes.matches,
		By: vh.by, Bytes: fieldBytes(b.virtualHostBytes(vh)), Fails: vh.routes.fails,
	}
	if b.digests {
		part.Digest = b.digests.host(vh.name, vh.sorted, vh.routes.digest, &routev3.VirtualHost{
			IncludeRequestAttemptCount: b.routes.current.attempts, TypedPerFilterConfig: b.hostFilters(vh),
		})
	}
	if vh.service != nil {
		part.Service = vh.service.Host
	}
	return part
}

// virtualHostPartBytes is the virtual host's share of its configuration.
func (b *Builder) virtualHostPartBytes(vh *virtualHost) int64 {
	if vh.message != nil {
		return fieldBytes(int64(proto.Size(vh.message)))
	}
	return fieldBytes(b.virtualHostBytes(vh))
}

// virtualHostBytes adds up the length of virtualHostMessage.
func (b *Builder) virtualHostBytes(vh *virtualHost) int64 {
	bytes := fieldBytes(int64(len(vh.name))) + vh.routes.bytes
	for _, d := range vh.domains {
		bytes += fieldBytes(int64(len(d)))
	}
	if b.routes.current.attempts {
		bytes += 2
	}
	if filters := b.hostFilters(vh); filters != nil {
		bytes += int64(proto.Size(&routev3.VirtualHost{TypedPerFilterConfig: filters}))
	}
	return bytes
}

// hostFilters is what the filters of the listener read from a virtual host; nil for nothing.
func (b *Builder) hostFilters(vh *virtualHost) map[string]*anypb.Any {
	session := b.persistentSession(vh.service)
	if session == nil {
		return nil
	}
	return map[string]*anypb.Any{sessionFilterName: sessionPerRoute(session)}
}

// virtualHostMessage is the virtual host as istiod sends it.
func (b *Builder) virtualHostMessage(vh *virtualHost) *routev3.VirtualHost {
	if vh.message != nil {
		return vh.message
	}
	return &routev3.VirtualHost{
		Name: vh.name, Domains: vh.domains, Routes: vh.routes.build(),
		IncludeRequestAttemptCount: b.routes.current.attempts,
		TypedPerFilterConfig:       b.hostFilters(vh),
	}
}
