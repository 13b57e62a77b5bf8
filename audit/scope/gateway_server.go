package scope

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// Passthrough reports a server that leaves TLS alone (Istio
// pkg/config/gateway/gateway.go).
func (s *Server) Passthrough() bool {
	if s.Spec.GetTls() == nil {
		return false
	}
	switch s.Spec.GetTls().GetMode() {
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return true
	}
	return false
}

// AutoPassthrough reports a server that routes by the SNI of SNI-DNAT clusters (GW-14).
func (s *Server) AutoPassthrough() bool {
	return s.Spec.GetTls().GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH
}

// HTTP reports a server whose requests are routed: HTTP, or HTTPS that is
// terminated or has no TLS settings.
func (s *Server) HTTP() bool {
	return s.Protocol.IsHTTP() || s.Protocol == mesh.HTTPS && !s.Passthrough()
}

// TerminatesHTTPS reports an HTTPS server with TLS settings other than passthrough.
func (s *Server) TerminatesHTTPS() bool {
	return s.Spec.GetTls() != nil && s.Protocol == mesh.HTTPS && !s.Passthrough()
}

// TLS reports a server that is not HTTP and has TLS settings, of any mode.
func (s *Server) TLS() bool { return s.Spec.GetTls() != nil && !s.Protocol.IsHTTP() }

// SNIHosts are the server names that its filter chain matches, sorted; nil
// without TLS settings.
func (s *Server) SNIHosts() []string {
	if s.Spec.GetTls() == nil {
		return nil
	}
	hosts := make([]string, 0, len(s.Hosts))
	for _, h := range s.Hosts {
		hosts = append(hosts, afterNamespace(h))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// HostsFor are the hosts that a VirtualService of the namespace may attach to,
// without their namespace (GW-12).
func (s *Server) HostsFor(namespace string) []string {
	hosts := make([]string, 0, len(s.Hosts))
	for _, h := range s.Hosts {
		ns, name, found := strings.Cut(h, "/")
		switch {
		case !found:
			hosts = append(hosts, h)
		case ns == namespace || ns == "*":
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// HTTPSRedirect reports that plain HTTP requests are redirected (GW-11).
func (s *Server) HTTPSRedirect() bool { return s.Spec.GetTls().GetHttpsRedirect() }

// field names the server in its Gateway.
func (s *Server) field() string { return "spec.servers[" + strconv.Itoa(s.Index) + "]" }

// listenerName is the TCP listener that the server asks for on an IPv4 router (GW-6).
func (s *Server) listenerName() string {
	bind := s.Bind
	if bind == "" {
		bind = "0.0.0.0"
	}
	return bind + "_" + strconv.Itoa(s.Port)
}

// afterNamespace is the second of a server host's parts.
func afterNamespace(host string) string {
	parts := strings.Split(host, "/")
	if len(parts) == 1 {
		return host
	}
	return parts[1]
}

// serverHosts is GW-4 (Istio sanitizeServerHostNamespace): "./h" is "<ns>/h",
// "*/h" is "h", and one "*/*" makes the whole list "*".
func serverHosts(hosts []string, namespace string) []string {
	out := make([]string, 0, len(hosts))
	for _, h := range hosts {
		ns, _, found := strings.Cut(h, "/")
		name := afterNamespace(h)
		switch {
		case found && ns == ".":
			h = namespace + "/" + name
		case found && ns == "*" && name == "*":
			return []string{"*"}
		case found && ns == "*":
			h = name
		}
		out = append(out, h)
	}
	return out
}

// routeName is the RDS name of a server (RDS-2; Istio gatewayRDSRouteName).
func (s *Server) routeName() string {
	bind := ""
	if s.Bind != "" {
		bind = "." + s.Bind
	}
	switch {
	case s.Protocol.IsHTTP():
		return "http." + strconv.Itoa(s.Port) + bind
	case s.Protocol == mesh.HTTPS && !s.Passthrough():
		port := s.Spec.GetPort()
		return strings.Join([]string{"https", strconv.Itoa(int(port.GetNumber())), port.GetName(), s.Gateway.Name, s.Gateway.Namespace}, ".") + bind
	}
	return ""
}
