package validation

import (
	"net"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) sidecar(at *path, s *networking.Sidecar) {
	c.matchLabels(at.key("workloadSelector").key("labels"), s.GetWorkloadSelector().GetLabels())
	if len(s.GetEgress())+len(s.GetIngress()) == 0 && s.GetOutboundTrafficPolicy() == nil && s.GetInboundConnectionPool() == nil {
		c.refuse(at, "one of egress, ingress, outboundTrafficPolicy, inboundConnectionPool is needed")
	}
	ports := map[uint32]bool{}
	for i, in := range s.GetIngress() {
		at := at.key("ingress").item(i)
		c.ingress(at, in)
		c.ownPort(at.key("port").key("number"), ports, in.GetPort().GetNumber())
	}
	c.connectionPool(at.key("inboundConnectionPool"), s.GetInboundConnectionPool())
	ports, sockets := map[uint32]bool{}, map[string]bool{}
	for i, e := range s.GetEgress() {
		at := at.key("egress").item(i)
		switch number := e.GetPort().GetNumber(); {
		case e.GetPort() == nil:
			if i < len(s.GetEgress())-1 {
				c.refuse(at, "only the last egress listener can be without a port")
			}
		case number > 0:
			c.ownPort(at.key("port").key("number"), ports, number)
		case sockets[e.GetBind()]:
			c.refuse(at.key("bind"), "another listener has %q", e.GetBind())
		default:
			sockets[e.GetBind()] = true
		}
		c.egress(at, e)
	}
	c.outboundPolicy(at.key("outboundTrafficPolicy"), s.GetOutboundTrafficPolicy())
}

func (c *checker) ownPort(at *path, ports map[uint32]bool, number uint32) {
	if ports[number] {
		c.refuse(at, "another listener has port %d", number)
	}
	ports[number] = true
}

func (c *checker) ingress(at *path, in *networking.IstioIngressListener) {
	if in.GetPort() == nil {
		c.refuse(at.key("port"), "missing")
		return
	}
	c.sidecarPort(at.key("port"), in.GetPort())
	c.port(at.key("port").key("number"), int64(in.GetPort().GetNumber()))
	if in.GetBind() != "" {
		c.address(at.key("bind"), in.GetBind())
	}
	c.defaultEndpoint(at.key("defaultEndpoint"), in.GetDefaultEndpoint())
	c.ingressTLS(at.key("tls"), in)
	c.connectionPool(at.key("connectionPool"), in.GetConnectionPool())
}

func (c *checker) sidecarPort(at *path, p *networking.SidecarPort) {
	if p.GetTargetPort() > 0 { // still refused
		c.refuse(at.key("targetPort"), "has no effect on sidecars")
	}
	if p.GetName() != "" {
		c.label(at.key("name"), p.GetName())
	}
	c.protocol(at.key("protocol"), p.GetProtocol())
}

func (c *checker) defaultEndpoint(at *path, endpoint string) {
	if endpoint == "" {
		return
	}
	if strings.HasPrefix(endpoint, unixPrefix) {
		c.unixSocket(at, endpoint)
		return
	}
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil || !slices.Contains([]string{"", "127.0.0.1", "0.0.0.0", "::1", "::"}, host) {
		c.refuse(at, "%q is none of 127.0.0.1:PORT, 0.0.0.0:PORT, [::1]:PORT, [::]:PORT, unix:///PATH", endpoint)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		c.refuse(at, "%q: the port is not between 1 and 65535", endpoint)
	}
}

func (c *checker) ingressTLS(at *path, in *networking.IstioIngressListener) {
	t := in.GetTls()
	if t == nil {
		return
	}
	switch {
	case len(t.GetSubjectAltNames()) > 0:
		c.refuse(at.key("subjectAltNames"), "not for sidecars")
	case t.GetHttpsRedirect():
		c.refuse(at.key("httpsRedirect"), "not for sidecars")
	case t.GetCredentialName() != "" || len(t.GetCredentialNames()) > 0:
		c.refuse(at.key("credentialName"), "not for sidecars")
	case len(t.GetTlsCertificates()) > 0:
		c.refuse(at.key("tlsCertificates"), "not for sidecars")
	case t.GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL || t.GetMode() == networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		c.refuse(at.key("mode"), "%s is not for sidecars", t.GetMode())
	case protocolOf(in.GetPort().GetProtocol()) != tlsProtocol:
		c.refuse(at, "protocol %s has no TLS", in.GetPort().GetProtocol())
	}
	c.serverTLS(at, t)
}

func (c *checker) egress(at *path, e *networking.IstioEgressListener) {
	if p := e.GetPort(); p != nil {
		c.sidecarPort(at.key("port"), p)
		switch {
		case p.GetNumber() > 0:
			c.port(at.key("port").key("number"), int64(p.GetNumber()))
			if e.GetBind() != "" {
				c.address(at.key("bind"), e.GetBind())
			}
		case !strings.HasPrefix(e.GetBind(), unixPrefix):
			c.port(at.key("port").key("number"), 0)
		default:
			c.unixSocket(at.key("bind"), e.GetBind())
			if m := e.GetCaptureMode(); m != networking.CaptureMode_DEFAULT && m != networking.CaptureMode_NONE {
				c.refuse(at.key("captureMode"), "%s is not for a Unix domain socket", m)
			}
		}
	}
	if len(e.GetHosts()) == 0 {
		c.refuse(at.key("hosts"), "empty")
	}
	for i, host := range e.GetHosts() {
		c.egressHost(at.key("hosts").item(i), host)
	}
}

func (c *checker) egressHost(at *path, host string) {
	namespace, name, found := strings.Cut(host, "/")
	if !found || namespace == "" {
		c.refuse(at, "%q is not of the form namespace/dnsName", host)
		return
	}
	namespace = strings.TrimPrefix(namespace, "~")
	if namespace != "" && namespace != "*" && namespace != "." && !domainLabel(namespace) {
		c.refuse(at, "%q is not a namespace", namespace)
	}
	c.fullHost(at, name)
}

func (c *checker) outboundPolicy(at *path, p *networking.OutboundTrafficPolicy) {
	proxy := p.GetEgressProxy()
	if proxy == nil {
		return
	}
	at = at.key("egressProxy")
	if p.GetMode() != networking.OutboundTrafficPolicy_ALLOW_ANY {
		c.refuse(at, "only with mode ALLOW_ANY")
		return
	}
	c.fqdn(at.key("host"), proxy.GetHost())
	if proxy.GetPort() == nil {
		c.refuse(at.key("port"), "missing")
		return
	}
	c.destination(at, proxy)
}
