package xds

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// hostKey is a host name as routes compare it (RDS-14).
func (b *Builder) hostKey(host string) string {
	if b.view.Behaviours.LowercaseHosts {
		return strings.ToLower(host)
	}
	return host
}

// listenerIndex is an egress listener made ready for its route configurations.
type listenerIndex struct {
	*scope.EgressListener
	byPort map[int][]*scope.Service // one for each host: the last that has the port
	all    []*scope.Service         // one for each host: the last
	// exact and wildcards are the first VirtualService of each host.
	exact     map[string]*mesh.VirtualService
	wildcards map[string]*mesh.VirtualService
}

func indexListener(e *scope.EgressListener) *listenerIndex {
	x := &listenerIndex{
		EgressListener: e, byPort: map[int][]*scope.Service{},
		exact: map[string]*mesh.VirtualService{}, wildcards: map[string]*mesh.VirtualService{},
	}
	// By the names that their virtual hosts will have: istiod's order is random.
	services := slices.Clone(e.Services)
	slices.SortStableFunc(services, func(a, b *scope.Service) int { return compareVirtualHostNames(a.Host, b.Host) })
	for _, svc := range services {
		x.all = appendLast(x.all, svc)
		for i := range svc.Ports {
			number := svc.Ports[i].Number
			if svc.Port(number) == &svc.Ports[i] {
				x.byPort[number] = appendLast(x.byPort[number], svc)
			}
		}
	}
	for _, vs := range e.VirtualServices {
		for _, host := range vs.Spec.GetHosts() {
			index := x.exact
			if mesh.IsWildcard(host) {
				index = x.wildcards
			}
			if index[host] == nil {
				index[host] = vs
			}
		}
	}
	return x
}

// compareVirtualHostNames orders hosts as "<host>:<port>" would be.
func compareVirtualHostNames(a, b string) int {
	n := min(len(a), len(b))
	if c := cmp.Compare(a[:n], b[:n]); c != 0 || len(a) == len(b) {
		return c
	}
	if len(a) > n {
		return cmp.Compare(a[n], ':')
	}
	return cmp.Compare(':', b[n])
}

// appendLast appends svc in place of one with the same host.
func appendLast(services []*scope.Service, svc *scope.Service) []*scope.Service {
	if n := len(services); n > 0 && services[n-1].Host == svc.Host {
		services[n-1] = svc
		return services
	}
	return append(services, svc)
}

// mostSpecific is the VirtualService whose host is the closest to a service's:
// the same name, else the longest wildcard over it; nil if none (RDS-5; Istio
// pilot/pkg/model/sidecar.go computeWildcardHostVirtualServiceIndex).
func (x *listenerIndex) mostSpecific(host string) *mesh.VirtualService {
	if mesh.IsWildcard(host) {
		if vs := x.wildcards[host]; vs != nil {
			return vs
		}
		host = host[1:]
	} else if vs := x.exact[host]; vs != nil {
		return vs
	}
	best := ""
	for wildcard := range x.wildcards {
		if strings.HasSuffix(host, wildcard[1:]) && (best == "" || mesh.MoreSpecificHost(wildcard, best)) {
			best = wildcard
		}
	}
	return x.wildcards[best]
}

// portServices are the services that a route configuration is made from.
type portServices struct {
	list      []*scope.Service // by host
	byHost    map[string]*scope.Service
	wildcards []string // the hosts among them that are wildcards
	port      int      // 0: all ports
}

func (b *Builder) portServices(x *listenerIndex, port int) *portServices {
	out := &portServices{list: x.all, port: port}
	if port != 0 {
		out.list = x.byPort[port]
	}
	out.byHost = make(map[string]*scope.Service, len(out.list))
	for _, svc := range out.list {
		key := svc.Host
		if port != 0 {
			key = b.hostKey(key)
		}
		out.byHost[key] = svc
		if mesh.IsWildcard(key) {
			out.wildcards = append(out.wildcards, key)
		}
	}
	return out
}

// ports are the ports of a service that the route configuration is for.
func (ps *portServices) ports(svc *scope.Service) []mesh.Port {
	if ps.port == 0 {
		return svc.Ports
	}
	return []mesh.Port{*svc.Port(ps.port)}
}

// matches reports that some service has one of the hosts of the VirtualService.
func (b *Builder) matches(ps *portServices, vs *mesh.VirtualService) bool {
	return slices.ContainsFunc(vs.Spec.GetHosts(), func(host string) bool {
		host = b.hostKey(host)
		if ps.byHost[host] != nil {
			return true
		}
		if !mesh.IsWildcard(host) {
			return slices.ContainsFunc(ps.wildcards, func(w string) bool { return mesh.HostMatches(host, w) })
		}
		return slices.ContainsFunc(ps.list, func(svc *scope.Service) bool { return mesh.HostMatches(host, b.hostKey(svc.Host)) })
	})
}

// splitHosts splits the hosts of a VirtualService into services, and names
// that are none (RDS-5; Istio separateVSHostsAndServices).
func (b *Builder) splitHosts(x *listenerIndex, ps *portServices, vs *mesh.VirtualService) (names []string, services []*scope.Service) {
	var wildcards []string
	for _, host := range vs.Spec.GetHosts() {
		key := b.hostKey(host)
		if mesh.IsWildcard(key) {
			wildcards = append(wildcards, key)
		} else if svc := ps.byHost[key]; svc != nil {
			services = append(services, svc)
		} else {
			names = append(names, host)
		}
	}
	for _, wildcard := range wildcards {
		if semanticsOf(vs) == gatewaySemantics {
			names = append(names, wildcard)
			continue
		}
		found := false
		for _, svc := range ps.list {
			host := b.hostKey(svc.Host)
			if !mesh.HostMatches(host, wildcard) {
				continue
			}
			found = true
			if x.mostSpecific(host) == vs {
				services = append(services, svc)
			}
		}
		if !found {
			names = append(names, wildcard)
		}
	}
	return names, services
}

// hostGroup is a set of virtual hosts with the same routes and port.
type hostGroup struct {
	port     int
	names    []string // hosts of a VirtualService that are no services
	services []*scope.Service
	routes   *routeSet
	by       result.Ref
}

// hostGroups are the groups of a VirtualService, by port; none if it says
// nothing of the services on the port.
func (b *Builder) hostGroups(s *scope.Scope, p *mesh.Proxy, x *listenerIndex, ps *portServices, vs *mesh.VirtualService) []hostGroup {
	names, services := b.splitHosts(x, ps, vs)
	if semanticsOf(vs) == gatewaySemantics {
		services = slices.DeleteFunc(services, func(svc *scope.Service) bool {
			return svc.Namespace != vs.Namespace && p.Namespace != vs.Namespace
		})
		if len(services) == 0 {
			return nil
		}
	}
	byPort := map[int][]*scope.Service{}
	for _, svc := range services {
		for _, port := range ps.ports(svc) {
			if port.Protocol.IsHTTP() || port.Protocol.IsAuto() {
				byPort[port.Number] = append(byPort[port.Number], svc)
			}
		}
	}
	if len(byPort) == 0 && ps.port == 80 {
		byPort[80] = nil
	}
	if len(byPort) == 0 {
		return nil
	}
	routes := b.vsRouteSet(vs, routeOptions{
		scope: s, proxy: p, port: ps.port, gateway: meshGateway, portFixed: ps.port != 0,
		service: func(host string) *scope.Service { return ps.byHost[host] },
	})
	if routes == nil {
		b.tellNoRoutes(ps, vs)
		return nil
	}
	var out []hostGroup
	for _, port := range sortedPorts(byPort) {
		out = append(out, hostGroup{port: port, names: names, services: byPort[port], routes: routes, by: vs.Ref()})
	}
	return out
}

func sortedPorts(byPort map[int][]*scope.Service) []int {
	ports := make([]int, 0, len(byPort))
	for port := range byPort {
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return ports
}
