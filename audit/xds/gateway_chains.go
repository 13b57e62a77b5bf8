package xds

import (
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// meshALPNs are all that Istio's mTLS may offer (GW-14).
var meshALPNs = []string{"istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"}

// chains are the filter chains of a merged port (GW-9).
func (r *routerListeners) chains(port *scope.MergedPort, listener string) []*routerChain {
	extensions := r.networkExtensions(r.p, gatewayClass, port.Port)
	if port.Protocol.IsHTTP() {
		first := port.Servers[0]
		filters := append(extensions, r.connectionManager(hcmOptions{
			rds: port.Route, protocol: port.Protocol, port: port.Port, statPrefix: "outbound_" + listener + ";",
		}))
		return []*routerChain{{filters: filters, origin: chainOrigin{by: first.Gateway.Ref()}}}
	}
	var out []*routerChain
	for _, server := range port.Servers {
		if !server.TerminatesHTTPS() {
			out = append(out, r.networkChains(server)...)
			continue
		}
		chain := r.httpsChain(server, listener, false)
		chain.filters = append(slices.Clone(extensions), chain.filters...)
		extensions = nil // istiod gives them to the first chain of a port only
		out = append(out, chain)
	}
	return out
}

// httpsChain terminates the TLS of one HTTPS server.
func (r *routerListeners) httpsChain(server *scope.Server, listener string, quic bool) *routerChain {
	prefix := server.Spec.GetName()
	if prefix == "" {
		prefix = "outbound_" + listener + ";"
	}
	return &routerChain{
		sni: server.SNIHosts(),
		tls: r.serverTLS(server, quic).context(r.Builder, r.p),
		filters: []*listenerv3.Filter{r.connectionManager(hcmOptions{
			rds: server.Route, protocol: server.Protocol, port: server.Port, statPrefix: prefix, http3: quic,
		})},
		origin: chainOrigin{by: server.Gateway.Ref()},
	}
}

func (r *routerListeners) serverTLS(server *scope.Server, quic bool) serverTLS {
	return serverTLS{
		settings: server.Spec.GetTls(),
		quic:     quic,
		tcp:      !server.Protocol.IsHTTP() && server.Protocol != mesh.HTTPS,
	}
}

// connectionManager completes the options with what all of a router's HTTP
// chains share (Istio buildGatewayConnectionManager).
func (r *routerListeners) connectionManager(o hcmOptions) *listenerv3.Filter {
	headers := r.proxyHeaders(r.p, gatewayClass)
	o.class = gatewayClass
	o.useRemoteAddress = true
	o.suppressDebugHeaders, o.skipMXHeaders = headers.suppressDebugHeaders, headers.skipMXHeaders
	o.base = headers.base()
	o.base.HttpProtocolOptions = &corev3.Http1ProtocolOptions{
		AcceptHttp_10: r.view.Flags.HTTP10 || r.p.Metadata.HTTP10,
	}
	topology := r.p.Config.GetGatewayTopology()
	o.base.XffNumTrustedHops = topology.GetNumTrustedProxies()
	o.base.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
	if details := topology.GetForwardClientCertDetails(); details != meshconfig.ForwardClientCertDetails_UNDEFINED {
		o.base.ForwardClientCertDetails = hcmv3.HttpConnectionManager_ForwardClientCertDetails(details - 1)
	}
	switch o.base.ForwardClientCertDetails {
	case hcmv3.HttpConnectionManager_APPEND_FORWARD, hcmv3.HttpConnectionManager_SANITIZE_SET:
		o.base.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{
			Subject: wrapperspb.Bool(true), Cert: true, Dns: true, Uri: true,
		}
	}
	return networkFilter(hcmFilterName, toAny(r.httpConnectionManager(r.s, r.p, o)))
}

// networkChains are the chains of a server that is not routed as HTTP.
func (r *routerListeners) networkChains(server *scope.Server) []*routerChain {
	switch {
	case server.AutoPassthrough():
		return r.autoPassthroughChains(server)
	case server.Passthrough():
		return r.tlsRouteChains(server)
	}
	return r.tcpRouteChain(server)
}

// tcpRouteChain is the first tcp route that a VirtualService has for a server.
func (r *routerListeners) tcpRouteChain(server *scope.Server) []*routerChain {
	for _, vs := range r.attached(server) {
		for _, route := range vs.Spec.GetTcp() {
			if len(route.GetRoute()) == 0 || !anyL4Match(route.GetMatch(), server) {
				continue
			}
			return []*routerChain{r.routeChain(server, vs, route.GetRoute(), server.SNIHosts())}
		}
	}
	return nil
}

// tlsRouteChains are one for each tls match of the VirtualServices, but for
// those with a server name that the port has already.
func (r *routerListeners) tlsRouteChains(server *scope.Server) []*routerChain {
	var out []*routerChain
	for _, vs := range r.attached(server) {
		for i, route := range vs.Spec.GetTls() {
			if len(route.GetRoute()) == 0 {
				continue
			}
			for j, match := range route.GetMatch() {
				if !l4Match(match.GetPort(), match.GetGateways(), server) {
					continue
				}
				if r.sniHosts[server.Port] == nil {
					r.sniHosts[server.Port] = map[string]string{}
				}
				if twice := scope.ClaimHosts(r.sniHosts[server.Port], match.GetSniHosts(), server.Bind); len(twice) > 0 {
					r.sniTwice(vs, i, j, twice)
					continue
				}
				out = append(out, r.routeChain(server, vs, route.GetRoute(), match.GetSniHosts()))
			}
		}
	}
	return out
}

// routeChain leads to a VirtualService's destinations.
func (r *routerListeners) routeChain(server *scope.Server, vs *mesh.VirtualService, routes []*networking.RouteDestination, sni []string) *routerChain {
	chain := &routerChain{
		sni: sni,
		filters: r.tcpFiltersForRoutes(r.s, r.p, tcpRoutes{
			class:      gatewayClass,
			routes:     routes,
			from:       vs.Meta,
			port:       serverPort(server),
			exchange:   server.Spec.GetTls().GetMode() == networking.ServerTLSSettings_ISTIO_MUTUAL,
			authorized: true,
		}),
		origin: chainOrigin{by: vs.Ref()},
	}
	if len(routes) == 1 {
		chain.origin.service = routes[0].GetDestination().GetHost()
	}
	if server.Spec.GetTls() != nil && !server.Passthrough() {
		chain.tls = r.serverTLS(server, false).context(r.Builder, r.p)
	}
	return chain
}

// autoPassthroughChains lead each service port and subset that the server's
// hosts cover to its SNI-DNAT cluster (GW-14).
func (r *routerListeners) autoPassthroughChains(server *scope.Server) []*routerChain {
	hosts := server.SNIHosts()
	var out []*routerChain
	for _, svc := range r.s.Visible {
		if svc.External || !slices.ContainsFunc(hosts, func(h string) bool { return mesh.HostSubsetOf(svc.Host, h) }) {
			continue
		}
		rule := outboundRule(r.s, svc.Service, r.p)
		for _, port := range svc.Ports {
			if port.Protocol == mesh.UDP {
				continue
			}
			subsets := []string{""}
			for _, subset := range rule.GetSubsets() {
				subsets = append(subsets, subset.GetName())
			}
			for _, subset := range subsets {
				out = append(out, r.sniChain(server, svc, port, subset, rule))
			}
		}
	}
	return out
}

func (r *routerListeners) sniChain(server *scope.Server, svc *scope.Service, port mesh.Port, subset string, rule *networking.DestinationRule) *routerChain {
	target := tcpTarget{
		class:    gatewayClass,
		cluster:  sniName(port.Number, subset, svc.Host),
		subset:   subset,
		rule:     rule,
		port:     port,
		noTunnel: true,
	}
	if pattern := r.view.Config.GetOutboundClusterStatName(); pattern != "" {
		target.statPrefix = clusterStatName(pattern, svc.Service, svc.Host, subset, port, 0)
	}
	return &routerChain{
		sni:     []string{target.cluster},
		alpn:    meshALPNs,
		filters: r.tcpFiltersTo(r.p, target),
		origin:  chainOrigin{by: server.Gateway.Ref(), service: svc.Host},
	}
}

// attached are the VirtualServices whose hosts meet a server's (GW-12).
func (r *routerListeners) attached(server *scope.Server) []*mesh.VirtualService {
	var out []*mesh.VirtualService
	for _, vs := range r.scoper.GatewayVirtualServices(r.p.Namespace, server.GatewayName()) {
		if hostsMeet(server.HostsFor(vs.Namespace), vs.Spec.GetHosts()) {
			out = append(out, vs)
		}
	}
	return out
}

func hostsMeet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return mesh.HostMatches(x, y) })
	})
}

// anyL4Match reports that there is no match or that one fits the server.
func anyL4Match(matches []*networking.L4MatchAttributes, server *scope.Server) bool {
	return len(matches) == 0 || slices.ContainsFunc(matches, func(m *networking.L4MatchAttributes) bool {
		return l4Match(m.GetPort(), m.GetGateways(), server)
	})
}

// l4Match tests what istiod tests of a tcp or tls match on a router: the
// server's port as written, and the Gateway.
func l4Match(port uint32, gateways []string, server *scope.Server) bool {
	return (port == 0 || port == server.Spec.GetPort().GetNumber()) &&
		(len(gateways) == 0 || slices.Contains(gateways, server.GatewayName()))
}

// serverPort is a server's port as written.
func serverPort(server *scope.Server) mesh.Port {
	port := server.Spec.GetPort()
	return mesh.Port{Name: port.GetName(), Number: int(port.GetNumber()), Protocol: server.Protocol}
}

func (r *routerListeners) sniTwice(vs *mesh.VirtualService, route, match int, hosts []string) {
	r.rec.Excluded(strings.Join(hosts, ","), result.Reason{Rule: "GW-9", Object: vs.Ref(),
		Field: "spec.tls[" + strconv.Itoa(route) + "].match[" + strconv.Itoa(match) + "]",
		Text:  "an earlier match on the port already has the server name"})
}
