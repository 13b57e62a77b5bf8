package mesh

import "strings"

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

// ParseProtocol reads a protocol's name in any case; Unsupported for any other
// (Istio pkg/config/protocol.Parse).
func ParseProtocol(name string) Protocol {
	name = strings.ToLower(name)
	for _, p := range []Protocol{TCP, UDP, GRPC, GRPCWeb, HTTP, HTTPProxy, HTTP2, HTTPS, TLS, Mongo, Redis, MySQL} {
		if strings.ToLower(string(p)) == name {
			return p
		}
	}
	return Unsupported
}
