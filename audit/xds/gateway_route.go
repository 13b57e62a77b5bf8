package xds

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// maxDirectResponseBytes is what istiod lets a direct response's body be long.
const maxDirectResponseBytes = 1 << 20

// routerVirtualHost is one virtual host of a router before collapsing.
type routerVirtualHost struct {
	host string // lower case; also its first domain
	*routev3.VirtualHost
	// from are the VirtualServices whose routes it has, in order, each by the
	// Gateway that it came through.
	from []boundVirtualService
	// redirect is the first server that made it redirect; nil: none did.
	redirect *scope.Server
}

// boundVirtualService is a VirtualService as one Gateway binds it: istiod
// translates it once for each.
type boundVirtualService struct {
	gateway string
	vs      *mesh.VirtualService
}

// GatewayRoute builds a route configuration of a router (RDS-2, RDS-9; Istio
// networking/core buildGatewayHTTPRouteConfig). One that no server has is
// empty (RDS-13).
func (b *Builder) GatewayRoute(s *scope.Scope, p *mesh.Proxy, name string) *result.Resource {
	merged := b.scoper.MergedGateway(p)
	servers := merged.RouteServers(name)
	rc := &routev3.RouteConfiguration{Name: name, ValidateClusters: wrapperspb.Bool(false)}
	r := &gatewayRoute{
		Builder: b, s: s, p: p, merged: merged,
		altSvc:       merged.AdvertisesHTTP3(name),
		attemptCount: b.proxyHeaders(p, gatewayClass).attemptCount,
		byHost:       map[string]*routerVirtualHost{},
		routes:       map[boundVirtualService][]*routev3.Route{},
	}
	if len(servers) == 0 {
		return r.resource(rc, nil, nil)
	}
	for _, server := range servers {
		r.server(server)
	}
	hosts := r.finish(servers[0])
	for _, h := range hosts {
		rc.VirtualHosts = append(rc.VirtualHosts, h.VirtualHost)
	}
	slices.SortStableFunc(rc.VirtualHosts, func(x, y *routev3.VirtualHost) int { return cmp.Compare(x.Name, y.Name) })
	rc.IgnorePortInHostMatching = true
	rc.MaxDirectResponseBodySizeBytes = wrapperspb.UInt32(maxDirectResponseBytes)
	return r.resource(rc, hosts, servers)
}

// gatewayRoute is a route configuration in the making.
type gatewayRoute struct {
	*Builder
	s      *scope.Scope
	p      *mesh.Proxy
	merged *scope.MergedGateway

	altSvc, attemptCount bool

	byHost map[string]*routerVirtualHost
	order  []*routerVirtualHost
	routes map[boundVirtualService][]*routev3.Route // those that have any
}

// server adds the virtual hosts of one server.
func (r *gatewayRoute) server(server *scope.Server) {
	for _, vs := range r.scoper.GatewayVirtualServices(r.p.Namespace, server.GatewayName()) {
		hosts := commonHosts(server.HostsFor(vs.Namespace), vs.Spec.GetHosts())
		if len(hosts) == 0 {
			r.noCommonHost(server, vs)
			continue
		}
		bound := boundVirtualService{server.GatewayName(), vs}
		services := r.servicesOf(vs)
		routes, ok := r.routes[bound]
		if !ok {
			routes = r.vsRoutes(vs, routeOptions{
				scope: r.s, proxy: r.p,
				port:    int(server.Spec.GetPort().GetNumber()),
				gateway: server.GatewayName(),
				tls:     server.Spec.GetTls() != nil,
				altSvc:  r.altSvc,
				service: services,
			})
			if len(routes) == 0 {
				continue
			}
			r.routes[bound] = routes
		}
		for _, host := range hosts {
			host = strings.ToLower(host)
			known := r.byHost[host] != nil
			h := r.host(host, server)
			if !known && r.view.Flags.PersistentSession && leadsTo(vs, host) {
				if session := r.persistentSession(services(host)); session != nil {
					h.TypedPerFilterConfig = map[string]*anypb.Any{sessionFilterName: sessionPerRoute(session)}
				}
			}
			h.Routes = append(h.Routes, routes...)
			h.from = append(h.from, bound)
			if server.HTTPSRedirect() {
				h.requireTLS(server)
			}
		}
	}
	if server.HTTPSRedirect() {
		for _, host := range server.Hosts {
			r.host(strings.ToLower(host), server).requireTLS(server)
		}
	}
}

// host finds or makes the virtual host of a host name; the server that makes
// it gives it its port.
func (r *gatewayRoute) host(host string, server *scope.Server) *routerVirtualHost {
	if h := r.byHost[host]; h != nil {
		return h
	}
	h := &routerVirtualHost{host: host, VirtualHost: &routev3.VirtualHost{
		Name:                       net.JoinHostPort(host, strconv.Itoa(int(server.Spec.GetPort().GetNumber()))),
		Domains:                    []string{host},
		IncludeRequestAttemptCount: r.attemptCount,
	}}
	r.byHost[host] = h
	r.order = append(r.order, h)
	return h
}

// leadsTo reports that a host is a destination or mirror of an http route.
func leadsTo(vs *mesh.VirtualService, host string) bool {
	return slices.ContainsFunc(vs.Spec.GetHttp(), func(http *networking.HTTPRoute) bool {
		return http.GetMirror().GetHost() == host ||
			slices.ContainsFunc(http.GetMirrors(), func(m *networking.HTTPMirrorPolicy) bool { return m.GetDestination().GetHost() == host }) ||
			slices.ContainsFunc(http.GetRoute(), func(d *networking.HTTPRouteDestination) bool { return d.GetDestination().GetHost() == host })
	})
}

func (h *routerVirtualHost) requireTLS(server *scope.Server) {
	h.RequireTls = routev3.VirtualHost_ALL
	if h.redirect == nil {
		h.redirect = server
	}
}

// commonHosts are the host names covered by both lists, those of a first
// (Istio host.Names.Intersection).
func commonHosts(a, b []string) []string {
	var out []string
	add := func(h string) {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	for _, x := range a {
		for _, y := range b {
			switch {
			case mesh.HostSubsetOf(x, y):
				add(x)
			case mesh.HostSubsetOf(y, x):
				add(y)
			}
		}
	}
	return out
}

// servicesOf finds the services of a VirtualService's destinations: that of
// its own namespace if the router sees it, else the scope's.
func (r *gatewayRoute) servicesOf(vs *mesh.VirtualService) func(host string) *scope.Service {
	return func(host string) *scope.Service {
		if svc := r.view.Service(host, vs.Namespace); svc != nil && r.scoper.Visible(svc, r.p.Namespace) {
			return &scope.Service{Service: svc, Ports: svc.Ports, Aliases: svc.Aliases}
		}
		return r.s.Service(host)
	}
}

func (r *gatewayRoute) noCommonHost(server *scope.Server, vs *mesh.VirtualService) {
	if !scope.Explains(r.rec) {
		return
	}
	for _, host := range vs.Spec.GetHosts() {
		r.rec.Excluded(host, result.Reason{Rule: "GW-12", Object: vs.Ref(), Field: "spec.hosts",
			Text: "no host of server " + strconv.Itoa(server.Index) + " of Gateway " + server.GatewayName() + " covers it"})
	}
}

// resource patches the route configuration and takes it apart.
func (r *gatewayRoute) resource(rc *routev3.RouteConfiguration, hosts []*routerVirtualHost, servers []*scope.Server) *result.Resource {
	by := map[string]result.Ref{}
	for _, h := range hosts {
		switch {
		case len(h.from) > 0:
			by[h.Name] = h.from[0].vs.Ref()
		case h.redirect != nil:
			by[h.Name] = h.redirect.Gateway.Ref()
		default:
			by[h.Name] = servers[0].Gateway.Ref()
		}
	}
	because := r.serverReasons("RDS-2", servers)
	if patches := r.patchesFor(r.p); patchesRoutes(patches, networking.EnvoyFilter_GATEWAY) {
		because = append(because, r.routePatches(rc.GetName(), patches, networking.EnvoyFilter_GATEWAY, r.merged.ServicePorts)...)
		added := r.patchRoutes(rc, patches, networking.EnvoyFilter_GATEWAY, r.merged.ServicePorts)
		for vh, patch := range added {
			if _, ok := by[vh.GetName()]; !ok {
				by[vh.GetName()] = patch.Filter.Ref()
			}
		}
	}
	out := &result.Resource{Name: rc.GetName(), Bytes: int64(proto.Size(rc)), Parts: r.digests.routeParts(rc), Digest: r.digests.configuration(rc)}
	for i := range out.Parts {
		part := &out.Parts[i]
		part.By, part.Service = by[part.Name], soleHost(part.To)
	}
	out.Because = because
	return out
}

// soleHost is the one service host that all clusters of a virtual host lead
// to; empty if there are several or none.
func soleHost(to []string) string {
	sole := ""
	for _, name := range to {
		host := parseClusterName(name).Host
		if host == "" {
			continue
		}
		if sole != "" && sole != host {
			return ""
		}
		sole = host
	}
	return sole
}

// serverReasons interns one reason for each Gateway of the servers.
func (b *Builder) serverReasons(rule string, servers []*scope.Server) []result.ReasonID {
	var ids []result.ReasonID
	for _, server := range servers {
		id := b.rec.Included(result.Reason{
			Rule: rule, Object: server.Gateway.Ref(), Field: "spec.servers[" + strconv.Itoa(server.Index) + "]",
			Text: "a server of a Gateway that selects the router",
		})
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
