package validation

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) gateway(at *path, s *networking.Gateway, name string) {
	made := c.annotations[gatewaySemantics] == "gateway"
	if !made {
		c.label(field("metadata").key("name"), name)
	}
	if len(s.GetServers()) == 0 {
		c.refuse(at.key("servers"), "empty")
	}
	names := map[string]bool{}
	for i, server := range s.GetServers() {
		at := at.key("servers").item(i)
		c.server(at, server, made)
		if port := server.GetPort(); port != nil {
			if names[port.GetName()] {
				c.refuse(at.key("port").key("name"), "%q is there twice", port.GetName())
			}
			names[port.GetName()] = true
		}
	}
}

func (c *checker) server(at *path, s *networking.Server, made bool) {
	if len(s.GetHosts()) == 0 {
		c.refuse(at.key("hosts"), "empty")
	}
	for i, host := range s.GetHosts() {
		c.gatewayHost(at.key("hosts").item(i), host, made)
	}
	c.serverPort(at.key("port"), s.GetPort(), s.GetBind())
	c.bind(at.key("bind"), s.GetBind(), s.GetPort().GetNumber())
	c.serverTLS(at.key("tls"), s.GetTls())
	t := s.GetTls()
	through := t.GetMode() == networking.ServerTLSSettings_PASSTHROUGH || t.GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH
	switch p := protocolOf(s.GetPort().GetProtocol()); {
	case p == unknownProtocol:
	case p == tlsProtocol && t == nil:
		c.refuse(at.key("tls"), "missing, which protocol %s needs", s.GetPort().GetProtocol())
	case p == tlsProtocol, t == nil:
	case p != httpProtocol, !through, t.GetCaCertificates()+t.GetPrivateKey()+t.GetServerCertificate() != "":
		c.refuse(at.key("tls"), "protocol %s has no TLS", s.GetPort().GetProtocol())
	}
}

func (c *checker) gatewayHost(at *path, host string, made bool) {
	namespace, name, found := strings.Cut(host, "/")
	if !found {
		namespace, name = "*", host
	}
	if namespace != "*" && namespace != "." && !domainLabel(namespace) && (namespace != "~" || !made) {
		c.refuse(at, "%q is not a namespace", namespace)
	}
	if isAddress(name) && strings.Contains(name, ".") {
		return
	}
	c.fullHost(at, name)
}

// fullHost checks a host name that is not relative to a namespace.
func (c *checker) fullHost(at *path, name string) {
	switch {
	case name != "*" && !strings.Contains(name, "."):
		c.refuse(at, "%q is a short name; a full one or a wildcard belongs here", name)
	case !c.wildcardDomain(at, name):
	case isWildcard(name) && name != "*" && !strings.HasPrefix(name, "*."):
		c.refuse(at, "%q: * stands for whole labels here", name)
	}
}

func (c *checker) serverPort(at *path, p *networking.Port, bind string) {
	if p == nil {
		c.refuse(at, "missing")
		return
	}
	if protocolOf(p.GetProtocol()) == unknownProtocol {
		c.refuse(at.key("protocol"), "%q is not a protocol that Istio knows", p.GetProtocol())
	}
	if p.GetNumber() > 0 || !strings.HasPrefix(bind, unixPrefix) {
		c.port(at.key("number"), int64(p.GetNumber()))
	}
	if p.GetTargetPort() > 0 { // still refused
		c.refuse(at.key("targetPort"), "has no effect on gateways")
	}
	if p.GetName() == "" {
		c.refuse(at.key("name"), "missing")
	}
}

func (c *checker) bind(at *path, bind string, port uint32) {
	switch {
	case strings.HasPrefix(bind, unixPrefix):
		c.unixSocket(at, bind)
		if port != 0 {
			c.refuse(at, "a Unix domain socket has no port, which is %d", port)
		}
	case bind != "":
		c.address(at, bind)
	}
}

// serverTLS checks which certificates go with which mode.
func (c *checker) serverTLS(at *path, t *networking.ServerTLSSettings) {
	if t == nil {
		return
	}
	named := t.GetCredentialName() != "" || len(t.GetCredentialNames()) > 0
	if t.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL {
		if named || len(t.GetTlsCertificates()) > 0 || t.GetServerCertificate()+t.GetPrivateKey()+t.GetCaCertificates() != "" {
			c.refuse(at.key("mode"), "ISTIO_MUTUAL has certificates of its own")
		}
		return
	}
	sources := 0
	for _, has := range []bool{
		t.GetServerCertificate() != "" && t.GetPrivateKey() != "", t.GetCredentialName() != "", len(t.GetCredentialNames()) > 0,
		len(t.GetTlsCertificates()) > 0,
	} {
		if has {
			sources++
		}
	}
	if sources > 1 {
		c.refuse(at, "only one of credentialName, credentialNames, serverCertificate with privateKey, and tlsCertificates can be set")
	}
	mutual := t.GetMode() == networking.ServerTLSSettings_MUTUAL || t.GetMode() == networking.ServerTLSSettings_OPTIONAL_MUTUAL
	simple := t.GetMode() == networking.ServerTLSSettings_SIMPLE
	if (simple || mutual) && named {
		return
	}
	if mutual && t.GetCaCertificates() == "" {
		c.refuse(at.key("caCertificates"), "missing, which mode %s needs", t.GetMode())
	}
	if simple || mutual {
		c.serverCertificates(at, t)
	}
	if simple && t.GetCaCrl() != "" {
		c.refuse(at.key("caCrl"), "not with mode SIMPLE")
	}
}

func (c *checker) serverCertificates(at *path, t *networking.ServerTLSSettings) {
	for i, pair := range t.GetTlsCertificates() {
		if pair.GetServerCertificate() == "" || pair.GetPrivateKey() == "" {
			c.refuse(at.key("tlsCertificates").item(i), "both serverCertificate and privateKey are needed")
		}
	}
	if len(t.GetTlsCertificates()) == 0 && (t.GetServerCertificate() == "" || t.GetPrivateKey() == "") {
		c.refuse(at, "mode %s needs a certificate: credentialName, or serverCertificate with privateKey", t.GetMode())
	}
}
