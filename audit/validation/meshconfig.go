package validation

import (
	"strings"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// MeshConfig is what istiod refuses of a mesh config that stands on its
// defaults. Of an invalid mesh config istiod takes nothing.
func MeshConfig(m *meshconfig.MeshConfig) []Problem {
	c := &checker{}
	c.port(field("proxyListenPort"), int64(m.GetProxyListenPort()))
	if c.duration(field("connectTimeout"), m.GetConnectTimeout()) && m.GetConnectTimeout().AsDuration() > time.Hour {
		c.refuse(field("connectTimeout"), "%s is more than an hour", m.GetConnectTimeout().AsDuration())
	}
	if d := m.GetProtocolDetectionTimeout().AsDuration(); d%time.Millisecond != 0 {
		c.refuse(field("protocolDetectionTimeout"), "%s is not a whole number of milliseconds", d)
	}
	c.proxyConfig(field("defaultConfig"), m.GetDefaultConfig())
	c.localityLB(field("localityLbSetting"), m.GetLocalityLbSetting())
	c.zoneAwareLB(field("zoneAwareLbSetting"), m.GetZoneAwareLbSetting())
	for i, s := range m.GetServiceSettings() {
		for j, host := range s.GetHosts() {
			c.wildcardDomain(field("serviceSettings").item(i).key("hosts").item(j), host)
		}
	}
	c.trustDomain(field("trustDomain"), m.GetTrustDomain())
	for _, domain := range m.GetTrustDomainAliases() { // sorted, so that their numbers are not those of the text
		c.trustDomain(field("trustDomainAliases"), domain)
	}
	if m.GetMeshMTLS() != nil && m.GetMeshMTLS().EcdhCurves != nil {
		c.refuse(field("meshMTLS").key("ecdhCurves"), "only tlsDefaults has curves")
	}
	policy := field("defaultTrafficPolicy")
	c.pool(policy.key("connectionPool"), m.GetDefaultTrafficPolicy().GetConnectionPool())
	c.outlierDetection(policy.key("outlierDetection"), m.GetDefaultTrafficPolicy().GetOutlierDetection())
	return c.problems
}

// ProxyConfig is what a proxy's agent refuses at its start.
func ProxyConfig(p *meshconfig.ProxyConfig) []Problem {
	c := &checker{}
	c.proxyConfig(nil, p)
	return c.problems
}

// trustDomain checks a name of labels, of which the last may be empty.
func (c *checker) trustDomain(at *path, domain string) {
	for label := range strings.SplitSeq(strings.TrimSuffix(domain, "."), ".") {
		if !domainLabel(label) {
			c.refuse(at, "%q is not the name of a trust domain", domain)
			return
		}
	}
}

func (c *checker) proxyConfig(at *path, p *meshconfig.ProxyConfig) {
	c.given(at.key("configPath"), p.GetConfigPath())
	c.given(at.key("binaryPath"), p.GetBinaryPath())
	switch name := p.GetClusterName().(type) {
	case *meshconfig.ProxyConfig_ServiceCluster:
		c.given(at.key("serviceCluster"), name.ServiceCluster)
	case nil:
		c.refuse(at, "one of serviceCluster, tracingServiceName is needed")
	}
	if d := p.GetDrainDuration(); c.duration(at.key("drainDuration"), d) && d.AsDuration()%time.Second != 0 {
		c.refuse(at.key("drainDuration"), "%s is not a whole number of seconds", d.AsDuration())
	}
	c.hostPort(at.key("discoveryAddress"), p.GetDiscoveryAddress())
	c.tracing(at.key("tracing"), p.GetTracing())
	c.optionalHostPort(at.key("statsdUdpAddress"), p.GetStatsdUdpAddress())
	c.optionalHostPort(at.key("envoyMetricsServiceAddress"), p.GetEnvoyMetricsServiceAddress()) // still read
	c.optionalHostPort(at.key("envoyMetricsService").key("address"), p.GetEnvoyMetricsService().GetAddress())
	c.optionalHostPort(at.key("envoyAccessLogService").key("address"), p.GetEnvoyAccessLogService().GetAddress())
	c.port(at.key("proxyAdminPort"), int64(p.GetProxyAdminPort()))
	if policy := p.GetControlPlaneAuthPolicy(); policy != meshconfig.AuthenticationPolicy_NONE && policy != meshconfig.AuthenticationPolicy_MUTUAL_TLS {
		c.refuse(at.key("controlPlaneAuthPolicy"), "%s is neither NONE nor MUTUAL_TLS", policy)
	}
	c.port(at.key("statusPort"), int64(p.GetStatusPort()))
	c.privateKeyProvider(at.key("privateKeyProvider"), p.GetPrivateKeyProvider())
	c.connectionSettings(at.key("connectionSettings"), p.GetConnectionSettings())
}

func (c *checker) given(at *path, text string) {
	if text == "" {
		c.refuse(at, "empty")
	}
}

func (c *checker) optionalHostPort(at *path, address string) {
	if address != "" {
		c.hostPort(at, address)
	}
}

func (c *checker) tracing(at *path, t *meshconfig.Tracing) {
	onNode := func(address string) string { return strings.Replace(address, "$(HOST_IP)", "127.0.0.1", 1) }
	switch tracer := t.GetTracer().(type) {
	case *meshconfig.Tracing_Lightstep_:
		c.hostPort(at.key("lightstep").key("address"), tracer.Lightstep.GetAddress())
		c.given(at.key("lightstep").key("accessToken"), tracer.Lightstep.GetAccessToken())
	case *meshconfig.Tracing_Zipkin_:
		c.hostPort(at.key("zipkin").key("address"), onNode(tracer.Zipkin.GetAddress()))
	case *meshconfig.Tracing_Datadog_:
		c.hostPort(at.key("datadog").key("address"), onNode(tracer.Datadog.GetAddress()))
	}
	c.clientTLS(at.key("tlsSettings"), t.GetTlsSettings())
	for _, name := range sorted(t.GetCustomTags()) {
		if t.GetCustomTags()[name] == nil {
			c.refuse(at.key("customTags").key(name), "missing")
		}
	}
}

func (c *checker) privateKeyProvider(at *path, p *meshconfig.PrivateKeyProvider) {
	var delay *durationpb.Duration
	switch provider := p.GetProvider().(type) {
	case *meshconfig.PrivateKeyProvider_Cryptomb:
		at, delay = at.key("cryptomb"), provider.Cryptomb.GetPollDelay()
	case *meshconfig.PrivateKeyProvider_Qat:
		at, delay = at.key("qat"), provider.Qat.GetPollDelay()
	default:
		if p != nil {
			c.refuse(at, "one of cryptomb, qat is needed")
		}
		return
	}
	if delay.AsDuration() == 0 {
		c.refuse(at.key("pollDelay"), "missing or 0")
	}
}

func (c *checker) connectionSettings(at *path, s *meshconfig.ProxyConfig_ConnectionSettings) {
	for _, d := range []struct {
		name  string
		value *durationpb.Duration
	}{
		{"httpIdleTimeout", s.GetHttpIdleTimeout()},
		{"httpMaxConnectionDuration", s.GetHttpMaxConnectionDuration()},
		{"httpDrainTimeout", s.GetHttpDrainTimeout()},
		{"httpRequestTimeout", s.GetHttpRequestTimeout()},
		{"httpRequestHeadersTimeout", s.GetHttpRequestHeadersTimeout()},
		{"httpStreamIdleTimeout", s.GetHttpStreamIdleTimeout()},
		{"httpMaxStreamDuration", s.GetHttpMaxStreamDuration()},
	} {
		if d.value.AsDuration() < 0 {
			c.refuse(at.key(d.name), "%s is negative", d.value.AsDuration())
		}
	}
	for _, n := range []struct {
		name  string
		value *wrapperspb.Int32Value
		least int32
	}{
		{"listenerPerConnectionBufferLimitBytes", s.GetListenerPerConnectionBufferLimitBytes(), 0},
		{"clusterPerConnectionBufferLimitBytes", s.GetClusterPerConnectionBufferLimitBytes(), 0},
		{"httpMaxConcurrentStreams", s.GetHttpMaxConcurrentStreams(), 1},
		{"http2InitialStreamWindowSize", s.GetHttp2InitialStreamWindowSize(), 65535},
		{"http2InitialConnectionWindowSize", s.GetHttp2InitialConnectionWindowSize(), 65535},
		{"listenerConnectionLimit", s.GetListenerConnectionLimit(), 1},
		{"globalDownstreamConnectionLimit", s.GetGlobalDownstreamConnectionLimit(), 1},
	} {
		if n.value != nil && n.value.GetValue() < n.least {
			c.refuse(at.key(n.name), "%d is less than %d", n.value.GetValue(), n.least)
		}
	}
}

// MeshNetworks is what istiod refuses of meshNetworks. Of invalid ones it takes
// nothing.
func MeshNetworks(n *meshconfig.MeshNetworks) []Problem {
	c := &checker{}
	for _, name := range sorted(n.GetNetworks()) {
		at := field("networks").key(name)
		for i, e := range n.GetNetworks()[name].GetEndpoints() {
			switch from := e.GetNe().(type) {
			case *meshconfig.Network_NetworkEndpoints_FromCidr:
				c.addressOrRange(at.key("endpoints").item(i).key("fromCidr"), from.FromCidr)
			case *meshconfig.Network_NetworkEndpoints_FromRegistry:
				c.label(at.key("endpoints").item(i).key("fromRegistry"), from.FromRegistry)
			}
		}
		for i, g := range n.GetNetworks()[name].GetGateways() {
			at := at.key("gateways").item(i)
			switch to := g.GetGw().(type) {
			case *meshconfig.Network_IstioNetworkGateway_RegistryServiceName:
				c.fqdn(at.key("registryServiceName"), to.RegistryServiceName)
			case *meshconfig.Network_IstioNetworkGateway_Address:
				c.fqdnOrAddress(at.key("address"), to.Address)
			}
			c.port(at.key("port"), int64(g.GetPort()))
		}
	}
	return c.problems
}
