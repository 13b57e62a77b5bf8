package xds

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// tcpChains are what a service port that is not HTTP becomes: what
// VirtualServices' tls or tcp routes say, else one chain to the service
// (LDS-10; Istio pilot/pkg/networking/core/tls.go).
func (o *outboundBuilder) tcpChains(a addition) []*chain {
	var applying []*mesh.VirtualService
	for _, vs := range a.virtualServices {
		if slices.ContainsFunc(vs.Spec.GetHosts(), func(h string) bool { return mesh.HostMatches(h, a.service.Host) }) {
			applying = append(applying, vs)
		}
	}
	if a.port.Protocol.IsTLS() {
		return o.tlsChains(a, applying)
	}
	return o.plainChains(a, applying)
}

// l4match is what istiod tests of a tcp or tls match for a sidecar.
type l4match interface {
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetPort() uint32
	GetSourceNamespace() string
}

func (o *outboundBuilder) matches(m l4match, port int) bool {
	return (len(m.GetGateways()) == 0 || slices.Contains(m.GetGateways(), "mesh")) &&
		o.p.Labels.Include(m.GetSourceLabels()) &&
		(m.GetPort() == 0 || int(m.GetPort()) == port) &&
		(m.GetSourceNamespace() == "" || m.GetSourceNamespace() == o.p.Namespace)
}

// tlsChains are routed by server name.
func (o *outboundBuilder) tlsChains(a addition, applying []*mesh.VirtualService) []*chain {
	cidrs := a.cidrs
	handled := map[string]bool{}
	var out []*chain
	for _, vs := range applying {
		for _, route := range vs.Spec.GetTls() {
			if len(route.GetRoute()) == 0 {
				continue
			}
			for _, match := range route.GetMatch() {
				if match == nil || !o.matches(match, a.port.Number) {
					continue
				}
				// istiod keeps a match's subnets for the matches that follow.
				if len(match.GetDestinationSubnets()) > 0 && a.port.Number > 0 {
					cidrs = match.GetDestinationSubnets()
				}
				runtime := strings.Join(match.GetSniHosts(), ",") + "|" + strings.Join(match.GetDestinationSubnets(), ",")
				if !handled[runtime] {
					handled[runtime] = true
					c := o.routeChain(a, vs, route.GetRoute(), cidrs)
					c.sni, c.from = match.GetSniHosts(), vs.Meta
					out = append(out, c)
				}
			}
		}
	}
	if len(out) > 0 {
		return out
	}
	c := o.serviceChain(a, cidrs)
	if o.namedBySNI(a, cidrs) {
		c.sni = []string{a.service.Host}
		for _, alias := range a.service.Aliases {
			c.sni = append(c.sni, alias.Host)
			c.sni = append(c.sni, o.alternativeHosts(alias.Host, 0, o.p.Domain)...)
		}
	}
	return []*chain{c}
}

// namedBySNI reports that nothing but the server name tells the service from
// others on its listener.
func (o *outboundBuilder) namedBySNI(a addition, cidrs []string) bool {
	svc := a.service
	address := svc.AddressFor(o.p)
	if strings.Contains(address, "/") {
		address = ""
	}
	if !svc.Kubernetes && o.p.IPv6 && !o.p.IPv4 && address == unspecifiedIPv4 {
		address = unspecifiedIPv6
	}
	wildcard := unspecifiedIPv4
	if !o.p.IPv4 && o.p.IPv6 {
		wildcard = unspecifiedIPv6
	}
	return len(cidrs) > 0 || address == "" || address == wildcard && a.bind.primary() == wildcard || o.dynamicWildcard(svc.Service)
}

// plainChains are routed by address: the first route without destination
// subnets takes all the rest.
func (o *outboundBuilder) plainChains(a addition, applying []*mesh.VirtualService) []*chain {
	var out []*chain
	covered := false
	for _, vs := range applying {
		for _, route := range vs.Spec.GetTcp() {
			if len(route.GetRoute()) == 0 {
				continue
			}
			all, subnets := o.tcpMatch(route.GetMatch(), a.port.Number)
			if all {
				c := o.routeChain(a, vs, route.GetRoute(), a.cidrs)
				c.from = vs.Meta
				return append(out, c)
			}
			if len(subnets) == 0 {
				continue
			}
			out = append(out, o.routeChain(a, vs, route.GetRoute(), subnets))
			if slices.Equal(slices.Sorted(slices.Values(subnets)), slices.Sorted(slices.Values(a.cidrs))) {
				covered = true
			}
		}
	}
	if covered {
		return out
	}
	return append(out, o.serviceChain(a, a.cidrs))
}

// tcpMatch reports that a tcp route takes every address, else the subnets that
// its matches name.
func (o *outboundBuilder) tcpMatch(matches []*networking.L4MatchAttributes, port int) (all bool, subnets []string) {
	if len(matches) == 0 {
		return true, nil
	}
	for _, match := range matches {
		if match == nil || !o.matches(match, port) {
			continue
		}
		if len(match.GetDestinationSubnets()) == 0 || port == 0 {
			return true, nil
		}
		subnets = append(subnets, match.GetDestinationSubnets()...)
	}
	return false, subnets
}

// routeChain leads to the destinations of a VirtualService's route.
func (o *outboundBuilder) routeChain(a addition, vs *mesh.VirtualService, routes []*networking.RouteDestination, cidrs []string) *chain {
	return &chain{
		cidrs:  cidrs,
		origin: chainOrigin{by: vs.Ref(), service: a.service.Host},
		filters: func() []*listenerv3.Filter {
			return o.tcpFiltersForRoutes(o.s, o.p, tcpRoutes{class: outboundClass, routes: routes, from: vs.Meta, port: a.port})
		},
	}
}

// serviceChain leads to the service itself, by its only port if it has just one.
func (o *outboundBuilder) serviceChain(a addition, cidrs []string) *chain {
	svc := a.service
	port := a.port.Number
	if len(svc.Ports) == 1 {
		port = svc.Ports[0].Number
	}
	target := tcpTarget{
		class:   outboundClass,
		cluster: outboundName(port, "", svc.Host),
		port:    a.port,
	}
	if pattern := o.view.Config.GetOutboundClusterStatName(); pattern != "" {
		target.statPrefix = clusterStatName(pattern, svc.Service, svc.Host, "", mesh.Port{Number: port}, 0)
	}
	if o.dynamicWildcard(svc.Service) {
		target.service = svc.Service
	}
	target.rule = outboundRule(o.s, svc.Service, o.p)
	c := &chain{
		cidrs:      cidrs,
		dynamicSNI: target.service != nil,
		origin:     chainOrigin{service: svc.Host},
		filters:    func() []*listenerv3.Filter { return o.tcpFiltersTo(o.p, target) },
	}
	if target.service == nil {
		c.key = string(a.port.Protocol) + " " + target.cluster + " " + target.statPrefix + " " + o.listeners.ruleID(target.rule)
	}
	return c
}
