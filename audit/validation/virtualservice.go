package validation

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) virtualService(at *path, s *networking.VirtualService) {
	delegate := len(s.GetHosts()) == 0
	if delegate && len(s.GetGateways())+len(s.GetTls())+len(s.GetTcp()) > 0 {
		c.refuse(at.key("hosts"), "empty; a delegate has neither gateways nor tls nor tcp routes")
	}
	c.gatewayNames(at.key("gateways"), s.GetGateways(), c.madeOfRoutes())
	outside := outsideMesh(s)
	c.virtualHosts(at.key("hosts"), s, outside)
	if len(s.GetHttp())+len(s.GetTls())+len(s.GetTcp()) == 0 {
		c.refuse(at, "one of http, tls, tcp is needed")
	}
	for i, route := range s.GetHttp() {
		c.httpRoute(at.key("http").item(i), route, delegate, outside)
	}
	for i, route := range s.GetTls() {
		c.tlsRoute(at.key("tls").item(i), route, s)
	}
	for i, route := range s.GetTcp() {
		c.tcpRoute(at.key("tcp").item(i), route)
	}
	c.exportTo(at.key("exportTo"), s.GetExportTo(), false)
}

// madeOfRoutes: the object is what istiod made of routes of the Gateway API.
func (c *checker) madeOfRoutes() bool { return c.annotations[routeSemantics] == "gateway" }

// outsideMesh: no proxy of the mesh has these routes, only gateways.
func outsideMesh(s *networking.VirtualService) bool {
	return len(s.GetGateways()) > 0 && !slices.Contains(s.GetGateways(), "mesh")
}

func (c *checker) virtualHosts(at *path, s *networking.VirtualService, outside bool) {
	bySNI := slices.ContainsFunc(s.GetTls(), func(r *networking.TLSRoute) bool {
		return slices.ContainsFunc(r.GetMatch(), func(m *networking.TLSMatchAttributes) bool { return len(m.GetSniHosts()) > 0 })
	})
	before := len(c.problems)
	for i, host := range s.GetHosts() {
		switch {
		case isAddress(host), outside && bySNI && strings.HasPrefix(host, "outbound_."):
		case !c.wildcardDomain(at.item(i), host):
		case host == "*" && !outside:
			c.refuse(at.item(i), "routes of the mesh cannot be for every host")
		}
	}
	if len(c.problems) > before {
		return
	}
	for i, host := range s.GetHosts() {
		for _, other := range s.GetHosts()[:i] {
			if within(host, other) || within(other, host) {
				c.refuse(at.item(i), "%q overlaps with %q", host, other)
				return
			}
		}
	}
}

// gatewayNames checks references to Gateways, and looks no further than the
// first that names no namespace, as Istio does.
func (c *checker) gatewayNames(at *path, names []string, anyName bool) {
	for i, full := range names {
		namespace, name, found := strings.Cut(full, "/")
		if !found {
			c.fqdn(at.item(i), full)
			return
		}
		if !domainLabel(namespace) || name == "" || !anyName && !domainLabel(name) {
			c.refuse(at.item(i), "%q is not of the form namespace/name", full)
		}
	}
}

func (c *checker) tlsRoute(at *path, r *networking.TLSRoute, s *networking.VirtualService) {
	if len(r.GetMatch()) == 0 {
		c.refuse(at.key("match"), "empty")
	}
	for i, m := range r.GetMatch() {
		at := at.key("match").item(i)
		if len(m.GetSniHosts()) == 0 {
			c.refuse(at.key("sniHosts"), "empty")
		}
		for j, host := range m.GetSniHosts() {
			c.sniHost(at.key("sniHosts").item(j), host, s)
		}
		c.addressesOrRanges(at.key("destinationSubnets"), m.GetDestinationSubnets())
		c.routePort(at.key("port"), m.GetPort())
		c.kubernetesLabels(at.key("sourceLabels"), m.GetSourceLabels())
		c.gatewayNames(at.key("gateways"), m.GetGateways(), false)
	}
	c.routeDestinations(at.key("route"), r.GetRoute())
}

func (c *checker) sniHost(at *path, host string, s *networking.VirtualService) {
	automatic := outsideMesh(s) && strings.HasPrefix(host, "outbound_.")
	switch {
	case isAddress(host):
	case !automatic && !c.wildcardDomain(at, host):
	case !slices.ContainsFunc(s.GetHosts(), func(h string) bool { return within(host, h) }):
		c.refuse(at, "%q is not among the hosts %s", host, strings.Join(s.GetHosts(), ", "))
	}
}

func (c *checker) tcpRoute(at *path, r *networking.TCPRoute) {
	for i, m := range r.GetMatch() {
		at := at.key("match").item(i)
		c.addressesOrRanges(at.key("destinationSubnets"), m.GetDestinationSubnets())
		c.routePort(at.key("port"), m.GetPort())
		c.kubernetesLabels(at.key("sourceLabels"), m.GetSourceLabels())
		c.gatewayNames(at.key("gateways"), m.GetGateways(), false)
	}
	c.routeDestinations(at.key("route"), r.GetRoute())
}

func (c *checker) routePort(at *path, port uint32) {
	if port != 0 {
		c.port(at, int64(port))
	}
}

func (c *checker) routeDestinations(at *path, routes []*networking.RouteDestination) {
	if len(routes) == 0 {
		c.refuse(at, "empty")
	}
	total := int32(0)
	for i, r := range routes {
		c.neededDestination(at.item(i).key("destination"), r.GetDestination())
		c.notNegative(at.item(i).key("weight"), r.GetWeight())
		total += r.GetWeight()
	}
	c.totalWeight(at, len(routes), total)
}

func (c *checker) totalWeight(at *path, n int, total int32) {
	if n > 1 && total == 0 {
		c.refuse(at, "the weights add up to 0")
	}
}

// neededDestination checks a destination that has to be there.
func (c *checker) neededDestination(at *path, d *networking.Destination) {
	switch {
	case d == nil:
		c.refuse(at, "missing")
	case !c.madeOfRoutes():
		c.destination(at, d)
	}
}

func (c *checker) destination(at *path, d *networking.Destination) {
	switch {
	case d == nil:
		return
	case d.GetHost() == "*":
		c.refuse(at.key("host"), "a route cannot lead to every host")
	default:
		c.wildcardDomain(at.key("host"), d.GetHost())
	}
	if d.GetSubset() != "" {
		c.label(at.key("subset"), d.GetSubset())
	}
	if d.GetPort() != nil {
		c.port(at.key("port").key("number"), int64(d.GetPort().GetNumber()))
	}
}
