package scope

import (
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// serverPort is the key under which istiod merges servers. The protocol is as
// written: "HTTPS" and "https" are two.
type serverPort struct {
	port           int
	protocol, bind string
}

// gatewayMerger merges servers in order (GW-5; Istio model.mergeGateways).
type gatewayMerger struct {
	s   *Scoper
	out *MergedGateway

	order []serverPort
	ports map[serverPort]*MergedPort
	used  map[int]bool       // ports that have a server
	plain map[int]serverPort // of each port the last plaintext server with a bind of its own
	// tlsHosts are the hosts of servers with TLS settings, by port, with the
	// bind of the last server that has them.
	tlsHosts map[int]map[string]string
}

func (s *Scoper) mergeGateways(bound []*boundGateway, p *mesh.Proxy) *MergedGateway {
	m := &gatewayMerger{
		s:        s,
		out:      &MergedGateway{routes: map[string][]*Server{}, http3: map[string]bool{}},
		ports:    map[serverPort]*MergedPort{},
		used:     map[int]bool{},
		plain:    map[int]serverPort{},
		tlsHosts: map[int]map[string]string{},
	}
	for _, g := range bound {
		m.gateway(g)
	}
	for _, key := range m.order {
		port := m.ports[key]
		if p.Metadata.Unprivileged && port.Port < 1024 {
			for _, server := range port.Servers {
				m.skip(server, "GW-7", "an unprivileged pod cannot bind a port below 1024")
			}
			continue
		}
		m.out.Ports = append(m.out.Ports, port)
	}
	return m.out
}

func (m *gatewayMerger) gateway(g *boundGateway) {
	named := false
	for i, spec := range g.Spec.GetServers() {
		if spec.GetPort() == nil {
			if spec != nil {
				m.skip(&Server{Gateway: g.Config, Index: i, Spec: spec}, "GW-5", "the server has no port")
			}
			continue
		}
		if !named {
			m.out.Names, named = append(m.out.Names, g.Namespace+"/"+g.Name), true
		}
		for _, port := range g.ports[i] {
			server := &Server{
				Gateway:  g.Config,
				Index:    i,
				Spec:     spec,
				Hosts:    serverHosts(spec.GetHosts(), g.Namespace),
				Port:     port,
				Protocol: mesh.ParseProtocol(spec.GetPort().GetProtocol()),
				Bind:     spec.GetBind(),
			}
			server.Route = server.routeName()
			m.add(server, g)
		}
	}
}

// add merges one server, or skips it.
func (m *gatewayMerger) add(server *Server, g *boundGateway) {
	if server.Spec.GetTls() != nil {
		if twice := m.claimHosts(server); len(twice) > 0 {
			m.skip(server, "GW-5", "an earlier server on the port already has the host "+strings.Join(twice, ", "))
			return
		}
		m.out.AutoPassthrough = m.out.AutoPassthrough || server.AutoPassthrough()
	}
	key := serverPort{server.Port, server.Spec.GetPort().GetProtocol(), server.Bind}
	current, plain := m.plain[server.Port]
	switch {
	case !m.used[server.Port]:
		m.used[server.Port] = true
		m.create(server, key)
	case plain && current.bind == key.bind:
		m.joinPlain(server, current)
		return
	case plain && m.ports[key] == nil:
		m.create(server, key)
	case plain:
		m.ports[key].Route = server.Route
		m.join(server, key)
		m.out.routes[server.Route] = append(m.out.routes[server.Route], server)
	case !server.TLS():
		m.replaced(key, server)
		m.create(server, key)
		return
	default:
		if !m.joinTLS(server, key) {
			return
		}
	}
	m.quic(server, key, g)
}

// claimHosts takes a server's hosts on its port, or returns those that are
// taken under the same bind.
func (m *gatewayMerger) claimHosts(server *Server) []string {
	known := m.tlsHosts[server.Port]
	if known == nil {
		known = map[string]string{}
		m.tlsHosts[server.Port] = known
	}
	return ClaimHosts(known, server.Hosts, server.Bind)
}

// ClaimHosts enters hosts with their bind into known, unless some of them are
// there with the same bind: then it enters none and returns these (Istio
// model.CheckDuplicates).
func ClaimHosts(known map[string]string, hosts []string, bind string) []string {
	var twice []string
	for _, h := range hosts {
		if other, ok := known[h]; ok && other == bind {
			twice = append(twice, h)
		}
	}
	if len(twice) == 0 {
		for _, h := range hosts {
			known[h] = bind
		}
	}
	return twice
}

// create makes the server the first of its key, whatever was there.
func (m *gatewayMerger) create(server *Server, key serverPort) {
	if !server.TLS() {
		m.plain[server.Port] = key
	}
	if server.HTTP() {
		m.out.routes[server.Route] = []*Server{server}
	}
	m.ports[key] = &MergedPort{
		Port: server.Port, Bind: server.Bind, Protocol: server.Protocol,
		Route: server.Route, Servers: []*Server{server},
	}
	m.order = append(m.order, key)
}

func (m *gatewayMerger) join(server *Server, key serverPort) {
	m.ports[key].Servers = append(m.ports[key].Servers, server)
}

// joinPlain merges HTTP with HTTP of the same bind and nothing else.
func (m *gatewayMerger) joinPlain(server *Server, current serverPort) {
	if !mesh.ParseProtocol(current.protocol).IsHTTP() || !server.Protocol.IsHTTP() {
		m.skip(server, "GW-5", "an earlier server has the port, with the protocol "+current.protocol+" in plain text")
		return
	}
	m.join(server, current)
	m.out.routes[server.Route] = append(m.out.routes[server.Route], server)
}

// joinTLS adds a server with TLS settings to a port without plaintext servers.
func (m *gatewayMerger) joinTLS(server *Server, key serverPort) bool {
	if server.HTTP() {
		if m.out.routes[server.Route] != nil {
			m.skip(server, "GW-5", "an earlier server has the same port name in this Gateway: "+server.Route)
			return false
		}
		m.out.routes[server.Route] = []*Server{server}
	}
	if m.ports[key] != nil {
		m.join(server, key)
		return true
	}
	m.ports[key] = &MergedPort{
		Port: server.Port, Bind: server.Bind, Protocol: server.Protocol, Servers: []*Server{server},
	}
	m.order = append(m.order, key)
	return true
}

// replaced records what a plaintext server takes the place of: istiod enters
// it under the key of servers with TLS settings that are already there.
func (m *gatewayMerger) replaced(key serverPort, by *Server) {
	if m.ports[key] == nil {
		return
	}
	for _, server := range m.ports[key].Servers {
		m.skip(server, "GW-5", "the plaintext server "+by.GatewayName()+" "+by.field()+" takes its place")
	}
}

// quic mirrors a terminating HTTPS server on UDP (GW-6).
func (m *gatewayMerger) quic(server *Server, key serverPort, g *boundGateway) {
	if !m.s.view.Flags.QUICListeners || server.Protocol != mesh.HTTPS || server.Passthrough() || !g.udp(server.Spec.GetPort().GetNumber()) {
		return
	}
	m.ports[key].QUIC = append(m.ports[key].QUIC, server)
	m.out.http3[server.Route] = true
}

func (m *gatewayMerger) skip(server *Server, rule, text string) {
	m.out.Skipped = append(m.out.Skipped, SkippedServer{Server: server, Rule: rule, Reason: text})
	if !Explains(m.s.rec) {
		return
	}
	m.s.rec.Excluded(server.listenerName(), result.Reason{Rule: rule, Object: server.Gateway.Ref(), Field: server.field(), Text: text})
}
