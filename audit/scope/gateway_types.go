package scope

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// MergedGateway is all Gateway servers that a router binds, merged as istiod
// does (digest GW; Istio pilot/pkg/model/gateway.go).
type MergedGateway struct {
	// Ports are the listeners' parts in istiod's order: that in which the
	// servers first asked for them. Several may share port and bind (HTTPS and
	// TLS), and then make one listener; the same one may be there twice.
	Ports []*MergedPort
	// Names are the Gateways with at least one server looked at (CDS-14),
	// "ns/name", in order.
	Names []string
	// AutoPassthrough reports a server with that TLS mode.
	AutoPassthrough bool
	// Skipped are servers that istiod leaves out, with the reason (GW-5, GW-7).
	Skipped []SkippedServer

	key    string
	routes map[string][]*Server
	http3  map[string]bool
}

// Key is the canonical form of which Gateways are bound and on which ports:
// equal keys merge to equal gateways. Empty: none is bound.
func (g *MergedGateway) Key() string {
	if g == nil {
		return ""
	}
	return g.key
}

// RouteServers returns the servers whose virtual hosts a route configuration
// holds, in istiod's order; nil if no server has the route.
func (g *MergedGateway) RouteServers(route string) []*Server {
	if g == nil {
		return nil
	}
	return g.routes[route]
}

// AdvertisesHTTP3 reports a route configuration whose responses carry an
// alt-svc header (PILOT_ENABLE_QUIC_LISTENERS).
func (g *MergedGateway) AdvertisesHTTP3(route string) bool { return g != nil && g.http3[route] }

// ServicePorts are the servers' ports that a route configuration's port stands
// for, sorted: what EnvoyFilters match a router's portNumber against; nil if no
// route configuration has the port. A route name that istiod does not read a
// port from counts as 0.
func (g *MergedGateway) ServicePorts(port int) []int {
	if g == nil {
		return nil
	}
	var ports []int
	for route, servers := range g.routes {
		if routePort(route) != port {
			continue
		}
		for _, s := range servers {
			ports = append(ports, int(s.Spec.GetPort().GetNumber()))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// routePort reads the port of a route name back (Istio ParseGatewayRDSRouteName).
func routePort(route string) int {
	number := ""
	if rest, ok := strings.CutPrefix(route, "http."); ok {
		number = rest
	} else if fields := strings.Split(route, "."); fields[0] == "https" && len(fields) == 5 {
		number = fields[1]
	}
	port, _ := strconv.Atoi(number)
	return port
}

// MergedPort is servers that share port, bind and protocol.
type MergedPort struct {
	Port     int    // resolved: the target port (GW-3)
	Bind     string // "" : wildcard
	Protocol mesh.Protocol
	Route    string // RDS name of the first server; what a plain HTTP port uses
	Servers  []*Server
	QUIC     []*Server // those mirrored on UDP (GW-6); nil without PILOT_ENABLE_QUIC_LISTENERS
}

// Server is one Gateway server, resolved to one listener port.
type Server struct {
	Gateway  *snapshot.Config[*networking.Gateway]
	Index    int                // in spec.servers
	Spec     *networking.Server // never nil, its port neither
	Hosts    []string           // as istiod sees them, "ns/host" or "host" (GW-4)
	Port     int                // resolved listener port
	Protocol mesh.Protocol
	Bind     string
	Route    string // RDS name (RDS-2); empty for TCP and passthrough
}

// GatewayName is "ns/name", as VirtualServices refer to it.
func (s *Server) GatewayName() string { return s.Gateway.Namespace + "/" + s.Gateway.Name }

// SkippedServer is a server turned away.
type SkippedServer struct {
	Server *Server
	Rule   string // GW-5, GW-7
	Reason string
}
