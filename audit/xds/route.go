package xds

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// routeOptions are what differs between the places where a VirtualService's
// http routes are used: a sidecar's route configuration or a router's.
type routeOptions struct {
	scope *scope.Scope
	proxy *mesh.Proxy
	// port is what match.port and the destinations without a port of their own
	// are taken against: a sidecar's route port (0: http_proxy, unix sockets),
	// a router's server port.
	port int
	// gateway is the name that the VirtualService is bound by: "mesh" or "ns/name".
	gateway string
	// tls says that the server terminates TLS (redirect ports).
	tls bool
	// altSvc adds the alt-svc header that advertises HTTP/3.
	altSvc bool
	// service finds a destination host's service, for its only port, its alias
	// and its labels (RDS-12); nil when it knows none.
	service func(host string) *scope.Service
}

// vsRoutes are the Envoy routes that a VirtualService's http routes become for
// a proxy, in order: those that the proxy's labels, namespace and gateway let
// through, up to the first that matches everything (RDS-11; Istio
// pilot/pkg/networking/core/route/route.go). Empty: the VirtualService says
// nothing here. The routes are shared and must not be changed.
func (b *Builder) vsRoutes(vs *mesh.VirtualService, o routeOptions) []*routev3.Route {
	return nil
}
