package xds

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// patchesRoutes reports patches that may change a route configuration.
func patchesRoutes(e *envoyPatches, context networking.EnvoyFilter_PatchContext) bool {
	for _, kind := range []networking.EnvoyFilter_ApplyTo{
		networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE,
	} {
		if slices.ContainsFunc(e.of(kind), func(p *envoyPatch) bool { return p.in(context) }) {
			return true
		}
	}
	return false
}

// patchesRoute reports patches that look at the sidecar route configuration of a name.
func (b *Builder) patchesRoute(e *envoyPatches, context networking.EnvoyFilter_PatchContext, name string) bool {
	if !patchesRoutes(e, context) {
		return false
	}
	r := &routePatcher{Builder: b, rc: &routev3.RouteConfiguration{Name: name}, context: context}
	return slices.ContainsFunc(e.of(networking.EnvoyFilter_ROUTE_CONFIGURATION), r.matches) ||
		slices.ContainsFunc(e.of(networking.EnvoyFilter_VIRTUAL_HOST), r.matches) ||
		slices.ContainsFunc(e.of(networking.EnvoyFilter_HTTP_ROUTE), r.matches)
}

// routePatcher applies EnvoyFilter patches to one route configuration (Istio
// pilot/pkg/networking/core/envoyfilter/rc_patch.go).
type routePatcher struct {
	*Builder
	rc      *routev3.RouteConfiguration
	context networking.EnvoyFilter_PatchContext
	// servicePorts are the service ports of a router's port, for
	// match.portNumber; nil: the port itself counts.
	servicePorts func(port int) []int
	hosts, paths []*envoyPatch
	added        map[*routev3.VirtualHost]*envoyPatch
}

// patchRoutes applies the patches to a route configuration in place, and tells
// which patch added a virtual host. Routes are replaced and never changed: they
// may be shared. servicePorts is for routers; nil otherwise.
func (b *Builder) patchRoutes(rc *routev3.RouteConfiguration, e *envoyPatches, context networking.EnvoyFilter_PatchContext, servicePorts func(port int) []int) map[*routev3.VirtualHost]*envoyPatch {
	r := &routePatcher{Builder: b, rc: rc, context: context, servicePorts: servicePorts, added: map[*routev3.VirtualHost]*envoyPatch{}}
	for _, p := range e.of(networking.EnvoyFilter_ROUTE_CONFIGURATION) {
		if p.merges() && r.matches(p) {
			b.mergePatch(rc, p)
		}
	}
	r.hosts, r.paths = e.of(networking.EnvoyFilter_VIRTUAL_HOST), e.of(networking.EnvoyFilter_HTTP_ROUTE)
	removed := map[string]bool{}
	for i := range rc.VirtualHosts {
		if !r.patchHost(i) {
			removed[rc.VirtualHosts[i].GetName()] = true
		}
	}
	for _, p := range r.hosts {
		if p.Operation != networking.EnvoyFilter_Patch_ADD || !r.matches(p) {
			continue
		}
		vh, ok := b.patchValue(p).(*routev3.VirtualHost)
		if !ok {
			break // istiod gives up here
		}
		vh = proto.CloneOf(vh)
		rc.VirtualHosts = append(rc.VirtualHosts, vh)
		r.added[vh] = p
	}
	rc.VirtualHosts = slices.DeleteFunc(rc.VirtualHosts, func(vh *routev3.VirtualHost) bool { return removed[vh.GetName()] })
	return r.added
}

// matches tests a patch's context and match.routeConfiguration up to the
// virtual host.
func (r *routePatcher) matches(p *envoyPatch) bool {
	if !p.in(r.context) || p.Patch.GetValue() != nil && r.patchValue(p) == nil {
		return false
	}
	match := p.Match.GetRouteConfiguration()
	if match == nil {
		return true
	}
	if match.GetName() != "" && match.GetName() != r.rc.GetName() {
		return false
	}
	number := int(match.GetPortNumber())
	if r.context != networking.EnvoyFilter_GATEWAY {
		return number == 0 || number == sidecarRoutePort(r.rc.GetName())
	}
	port, portName, gateway := parseGatewayRoute(r.rc.GetName())
	if match.GetPortName() != "" && match.GetPortName() != portName || match.GetGateway() != "" && match.GetGateway() != gateway {
		return false
	}
	if number == 0 {
		return true
	}
	if r.servicePorts != nil {
		if ports := r.servicePorts(port); ports != nil {
			return slices.Contains(ports, number)
		}
	}
	return number == port
}

// sidecarRoutePort is the port that a sidecar's route name is, alone; 0 for any other name.
func sidecarRoutePort(name string) int {
	if fields := strings.Split(name, "|"); len(fields) == 4 && fields[0] == "inbound" {
		name = fields[1]
	}
	port, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return port
}

// parseGatewayRoute reads a router's route name back: "http.<port>" or
// "https.<port>.<port name>.<gateway>.<namespace>" (Istio
// pilot/pkg/model/gateway.go ParseGatewayRDSRouteName).
func parseGatewayRoute(name string) (port int, portName, gateway string) {
	if number, ok := strings.CutPrefix(name, "http."); ok {
		port, _ = strconv.Atoi(number)
		return port, "", ""
	}
	if fields := strings.Split(name, "."); fields[0] == "https" && len(fields) == 5 {
		port, _ = strconv.Atoi(fields[1])
		return port, fields[2], fields[4] + "/" + fields[3]
	}
	return 0, "", ""
}

// patchHost applies what merges, replaces or removes a virtual host, then what
// changes its routes; false: removed.
func (r *routePatcher) patchHost(i int) bool {
	own := false
	for _, p := range r.hosts {
		vh := r.rc.VirtualHosts[i]
		if !r.matches(p) || !hostMatches(vh, p) {
			continue
		}
		switch {
		case p.Operation == networking.EnvoyFilter_Patch_REMOVE:
			return false
		case p.merges():
			if !own {
				vh = proto.CloneOf(vh)
				r.rc.VirtualHosts[i] = vh
				own = true
			}
			r.mergePatch(vh, p)
		case p.Operation == networking.EnvoyFilter_Patch_REPLACE:
			if value, ok := r.patchValue(p).(*routev3.VirtualHost); ok {
				r.rc.VirtualHosts[i] = proto.CloneOf(value)
				own = true
			}
		}
	}
	r.patchPaths(r.rc.VirtualHosts[i])
	return true
}

// patchPaths applies what concerns the routes of a virtual host.
func (r *routePatcher) patchPaths(vh *routev3.VirtualHost) {
	routes := slices.Clone(vh.Routes)
	for i := range routes {
		routes[i] = r.patchPath(vh, routes[i])
	}
	for _, p := range r.paths {
		if !r.matches(p) || !hostMatches(vh, p) {
			continue
		}
		value, ok := r.patchValue(p).(*routev3.Route)
		at := insertPosition(routes, p)
		if at < 0 {
			continue
		}
		if !ok {
			break // istiod gives up here
		}
		routes = insertAt(routes, at, value)
	}
	vh.Routes = slices.DeleteFunc(routes, func(route *routev3.Route) bool { return route == nil })
}

// insertPosition is where a patch inserts its route; negative: nowhere.
func insertPosition(routes []*routev3.Route, p *envoyPatch) int {
	anywhere := p.Match.GetRouteConfiguration().GetVhost().GetRoute() == nil
	first := slices.IndexFunc(routes, func(route *routev3.Route) bool { return pathMatches(route, p) })
	switch p.Operation {
	case networking.EnvoyFilter_Patch_ADD:
		return len(routes)
	case networking.EnvoyFilter_Patch_INSERT_AFTER:
		if anywhere {
			return len(routes)
		}
		if first >= 0 {
			return first + 1
		}
	case networking.EnvoyFilter_Patch_INSERT_BEFORE:
		if anywhere {
			return 0
		}
		return first
	case networking.EnvoyFilter_Patch_INSERT_FIRST:
		if anywhere || first >= 0 {
			return 0
		}
	}
	return -1
}

// patchPath applies what merges or removes one route; nil: removed.
func (r *routePatcher) patchPath(vh *routev3.VirtualHost, route *routev3.Route) *routev3.Route {
	own := false
	for _, p := range r.paths {
		if !r.matches(p) || !hostMatches(vh, p) || !pathMatches(route, p) {
			continue
		}
		switch {
		case p.Operation == networking.EnvoyFilter_Patch_REMOVE:
			return nil
		case p.merges():
			if !own {
				route, own = proto.CloneOf(route), true
			}
			r.mergePatch(route, p)
		}
	}
	return route
}

func hostMatches(vh *routev3.VirtualHost, p *envoyPatch) bool {
	match := p.Match.GetRouteConfiguration().GetVhost()
	if match == nil {
		return true
	}
	return (match.GetName() == "" || match.GetName() == vh.GetName()) &&
		(match.GetDomainName() == "" || slices.Contains(vh.GetDomains(), match.GetDomainName()))
}

func pathMatches(route *routev3.Route, p *envoyPatch) bool {
	match := p.Match.GetRouteConfiguration().GetVhost().GetRoute()
	if match == nil {
		return true
	}
	if route == nil || match.GetName() != "" && match.GetName() != route.GetName() {
		return false
	}
	if match.GetAction() == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ANY {
		return true
	}
	switch route.GetAction().(type) {
	case *routev3.Route_Route:
		return match.GetAction() == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ROUTE
	case *routev3.Route_Redirect:
		return match.GetAction() == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_REDIRECT
	case *routev3.Route_DirectResponse:
		return match.GetAction() == networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_DIRECT_RESPONSE
	}
	return true
}

// originParts are the parts of a patched route configuration, with the origin
// of the virtual hosts that were there before and of those that patches added.
func (on digests) originParts(rc *routev3.RouteConfiguration, hosts []virtualHost, added map[*routev3.VirtualHost]*envoyPatch) []result.Part {
	byName := make(map[string]*virtualHost, len(hosts))
	for i := range hosts {
		byName[hosts[i].name] = &hosts[i]
	}
	parts := make([]result.Part, 0, len(rc.GetVirtualHosts()))
	for _, message := range rc.GetVirtualHosts() {
		part := on.virtualHostPart(message)
		if p := added[message]; p != nil {
			part.By = p.Filter.Ref()
		} else if vh := byName[part.Name]; vh != nil {
			part.By = vh.by
			if vh.service != nil {
				part.Service = vh.service.Host
			}
		}
		parts = append(parts, part)
	}
	sortVirtualHostParts(parts)
	return parts
}
