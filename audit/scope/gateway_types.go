package scope

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// MergedGateway is all Gateway servers that a router binds, merged as istiod
// does (digest GW; Istio pilot/pkg/model/gateway.go).
type MergedGateway struct {
	// Ports are the listeners, in istiod's order: by bind and port.
	Ports []*MergedPort
	// Names are the Gateways with at least one server looked at (CDS-14), "ns/name", in order.
	Names []string
	// AutoPassthrough reports a server with that TLS mode.
	AutoPassthrough bool
	// Skipped are servers that istiod leaves out, with the reason (GW-5).
	Skipped []SkippedServer
}

// MergedPort is one listener of a router: the servers that share port and bind.
type MergedPort struct {
	Port    int    // resolved: the target port (GW-3)
	Bind    string // "" : wildcard
	Servers []*Server
}

// Server is one Gateway server, resolved.
type Server struct {
	Gateway *snapshot.Config[*networking.Gateway]
	Index   int // in spec.servers
	Spec    *networking.Server
	Hosts   []string // as istiod sees them, "ns/host" or "host" (GW-4)
	Port    int      // resolved listener port
	Bind    string
	Route   string // RDS name (RDS-2); empty for TCP and passthrough
}

// SkippedServer is a server turned away.
type SkippedServer struct {
	Server *Server
	Reason string
}
