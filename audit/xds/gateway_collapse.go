package xds

import (
	"net"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// finish collapses the virtual hosts and sorts their routes; without any it
// makes the one that answers 404 (RDS-9).
func (r *gatewayRoute) finish(first *scope.Server) []*routerVirtualHost {
	if len(r.order) == 0 {
		return []*routerVirtualHost{{host: "*", VirtualHost: &routev3.VirtualHost{
			Name:    net.JoinHostPort("blackhole", strconv.Itoa(int(first.Spec.GetPort().GetNumber()))),
			Domains: []string{"*"},
		}}}
	}
	hosts := r.order
	if r.view.Flags.RouteCollapse {
		hosts = collapse(hosts)
	}
	for _, h := range hosts {
		h.Routes = catchAllLast(h.Routes)
	}
	return hosts
}

// collapse merges virtual hosts that share all their routes into the most
// specific of them (RDS-10; Istio collapseDuplicateRoutes).
func collapse(hosts []*routerVirtualHost) []*routerVirtualHost {
	hosts = slices.Clone(hosts)
	slices.SortFunc(hosts, func(x, y *routerVirtualHost) int {
		switch {
		case x.host == y.host:
			return 0
		case mesh.MoreSpecificHost(x.host, y.host):
			return -1
		}
		return 1
	})
	var out []*routerVirtualHost
	alike := map[string]*routerVirtualHost{} // the last one with these routes that stands alone
	for _, h := range hosts {
		key := h.routesKey()
		if known := alike[key]; known != nil && known.RequireTls == h.RequireTls {
			known.Domains = append(known.Domains, h.Domains...)
			continue
		}
		alike[key] = h
		out = append(out, h)
	}
	return out
}

// routesKey is equal for virtual hosts with the same routes.
func (h *routerVirtualHost) routesKey() string {
	var k strings.Builder
	for _, f := range h.from {
		k.WriteString(f.gateway + " " + f.vs.Namespace + "/" + f.vs.Name + "\n")
	}
	return k.String()
}

// catchAllLast moves routes that match everything to the end.
func catchAllLast(routes []*routev3.Route) []*routev3.Route {
	out := make([]*routev3.Route, 0, len(routes))
	var last []*routev3.Route
	for _, r := range routes {
		if matchesEverything(r) {
			last = append(last, r)
		} else {
			out = append(out, r)
		}
	}
	return append(out, last...)
}
