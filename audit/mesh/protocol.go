package mesh

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Protocol is the protocol that istiod takes a port to speak (REG-4, REG-5;
// Istio pkg/config/protocol/instance.go).
type Protocol string

// The protocols. Unsupported ("auto") is sniffed.
const (
	Unsupported Protocol = "UnsupportedProtocol"
	TCP         Protocol = "TCP"
	UDP         Protocol = "UDP"
	GRPC        Protocol = "GRPC"
	GRPCWeb     Protocol = "GRPC-Web"
	HTTP        Protocol = "HTTP"
	HTTPProxy   Protocol = "HTTP_PROXY"
	HTTP2       Protocol = "HTTP2"
	HTTPS       Protocol = "HTTPS"
	TLS         Protocol = "TLS"
	Mongo       Protocol = "Mongo"
	Redis       Protocol = "Redis"
	MySQL       Protocol = "MySQL"
	HBONE       Protocol = "HBONE"
)

// IsHTTP reports the HTTP class.
func (p Protocol) IsHTTP() bool {
	switch p {
	case HTTP, HTTP2, HTTPProxy, GRPC, GRPCWeb:
		return true
	}
	return false
}

// IsHTTP2 reports the protocols that run over HTTP/2.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS reports the protocols routed by SNI.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }

// IsTCP reports the TCP class.
func (p Protocol) IsTCP() bool {
	switch p {
	case TCP, HTTPS, TLS, Mongo, Redis, MySQL:
		return true
	}
	return false
}

// IsAuto reports a protocol that istiod sniffs.
func (p Protocol) IsAuto() bool { return p == Unsupported }

// ParseProtocol reads the protocol field of a ServiceEntry or Gateway port; what
// istiod does not know is Unsupported (Istio pkg/config/protocol/instance.go).
func ParseProtocol(s string) Protocol {
	switch strings.ToLower(s) {
	case "tcp":
		return TCP
	case "udp":
		return UDP
	case "grpc":
		return GRPC
	case "grpc-web":
		return GRPCWeb
	case "http":
		return HTTP
	case "http_proxy":
		return HTTPProxy
	case "http2":
		return HTTP2
	case "https":
		return HTTPS
	case "tls":
		return TLS
	case "mongo":
		return Mongo
	case "redis":
		return Redis
	case "mysql":
		return MySQL
	}
	return Unsupported
}

// kubernetesProtocol is the protocol of a Kubernetes Service's port (REG-4;
// Istio pkg/config/kube/conversion.go).
func kubernetesProtocol(port *corev1.ServicePort) Protocol {
	if port.Protocol == corev1.ProtocolUDP {
		return UDP
	}
	name := port.Name
	if port.AppProtocol != nil {
		name = *port.AppProtocol
		switch name {
		case "kubernetes.io/h2c":
			return HTTP2
		case "kubernetes.io/ws":
			return HTTP
		case "kubernetes.io/wss":
			return HTTPS
		}
	}
	if len(name) >= len(GRPCWeb) && strings.EqualFold(name[:len(GRPCWeb)], string(GRPCWeb)) {
		return GRPCWeb
	}
	name, _, _ = strings.Cut(name, "-")
	protocol := ParseProtocol(name)
	if protocol == Unsupported {
		switch port.Port {
		case 25, 53, 3306, 27017: // SMTP, DNS, MySQL, MongoDB
			return TCP
		}
	}
	return protocol
}
