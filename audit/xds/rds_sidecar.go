package xds

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

const (
	httpProxyRoute  = "http_proxy"
	unixRoutePrefix = "unix://"
)

// routeName is a sidecar's route name read back (RDS-1).
type routeName struct {
	name    string
	port    int  // 0: http_proxy or a unix socket
	sniffed bool // "<host>:<port>": of one service whose protocol is sniffed
}

// parseRouteName tells what a name stands for; ok is false for one that istiod
// does not know.
func parseRouteName(name string) (r routeName, ok bool) {
	r.name = name
	unix := strings.HasPrefix(name, unixRoutePrefix)
	colon := strings.IndexByte(name, ':')
	r.sniffed = !unix && colon >= 0
	port := name
	if !unix {
		port = name[colon+1:]
	}
	number, err := strconv.Atoi(port)
	if err == nil {
		r.port = number
	}
	return r, err == nil || unix || name == httpProxyRoute
}

// virtualHost is one virtual host of a sidecar's route configuration.
type virtualHost struct {
	name    string
	domains []string       // in istiod's order
	sorted  []string       // in byte order
	routes  *routeSet      // nil only for the last resort's
	service *scope.Service // nil: a host that is no service
	by      result.Ref
	message *routev3.VirtualHost // the last resort
}

// scopeRoutes is what the route configurations of one scope share.
type scopeRoutes struct {
	scope     *scope.Scope
	proxy     *mesh.Proxy
	listeners map[*scope.EgressListener]*listenerIndex
	byPort    map[int][]virtualHost
	byDomain  map[int]map[string]int // positions in byPort by domain
	attempts  bool
	reasons   map[*scope.EgressListener]result.ReasonID
}

// sniffedKey is all that a route configuration for one service depends on.
type sniffedKey struct {
	name     string
	svc      *mesh.Service
	routes   *routeSet
	attempts bool
	because  result.ReasonID
}

// SidecarRoute is the route configuration that a sidecar gets by a name that
// its listeners refer to (RDS-3 to RDS-8, RDS-13; Istio
// pilot/pkg/networking/core/httproute.go). The resource may be shared between
// scopes.
func (b *Builder) SidecarRoute(s *scope.Scope, p *mesh.Proxy, name string) *result.Resource {
	out := &result.Resource{Name: name}
	r, ok := parseRouteName(name)
	if !ok {
		empty := &routev3.RouteConfiguration{Name: name, ValidateClusters: wrapperspb.Bool(false)}
		out.Bytes = int64(proto.Size(empty))
		return out
	}
	b.enterScope(s, p)
	hosts := b.routeHosts(r)
	because := b.routeReason(s.EgressFor(r.port, name))
	out.Because = append(b.delegatesOf(hosts), because)
	if patches := b.patchesFor(p); patchesRoutes(patches, networking.EnvoyFilter_SIDECAR_OUTBOUND) {
		rc := b.routeConfiguration(name, hosts)
		added := b.patchRoutes(rc, patches, networking.EnvoyFilter_SIDECAR_OUTBOUND, nil)
		out.Name = rc.GetName()
		out.Bytes = int64(proto.Size(rc))
		out.Parts = originParts(rc, hosts, added)
		return out
	}
	if r.sniffed && len(hosts) == 1 && hosts[0].service != nil {
		key := sniffedKey{name, hosts[0].service.Service, hosts[0].routes, b.routes.current.attempts, because}
		if known := b.routes.sniffed[key]; known != nil {
			return known
		}
		b.routes.sniffed[key] = out
		out.Service = hosts[0].service.Host
	}
	out.Bytes = int64(proto.Size(sidecarConfiguration(name)))
	out.Parts = make([]result.Part, 0, len(hosts))
	for i := range hosts {
		part := b.virtualHostPart(&hosts[i])
		out.Bytes += part.Bytes
		out.Parts = append(out.Parts, part)
	}
	sortVirtualHostParts(out.Parts)
	return out
}

// delegatesOf are the reasons of the delegates whose routes virtual hosts have.
func (b *Builder) delegatesOf(hosts []virtualHost) []result.ReasonID {
	var out []result.ReasonID
	seen := map[*routeSet]bool{}
	for i := range hosts {
		set := hosts[i].routes
		if set == nil || set.vs == nil || len(set.vs.Delegates) == 0 || seen[set] {
			continue
		}
		seen[set] = true
		out = append(out, b.delegateReasons(set.vs)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// sidecarConfiguration is a sidecar's route configuration without virtual hosts (SIZE-21).
func sidecarConfiguration(name string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:                           name,
		ValidateClusters:               wrapperspb.Bool(false),
		MaxDirectResponseBodySizeBytes: wrapperspb.UInt32(1 << 20),
		IgnorePortInHostMatching:       true,
	}
}

// routeConfiguration is the whole message.
func (b *Builder) routeConfiguration(name string, hosts []virtualHost) *routev3.RouteConfiguration {
	rc := sidecarConfiguration(name)
	for i := range hosts {
		rc.VirtualHosts = append(rc.VirtualHosts, b.virtualHostMessage(&hosts[i]))
	}
	return rc
}

func (b *Builder) enterScope(s *scope.Scope, p *mesh.Proxy) {
	current := &b.routes.current
	if current.scope == s && current.proxy == p {
		return
	}
	*current = scopeRoutes{
		scope: s, proxy: p, listeners: map[*scope.EgressListener]*listenerIndex{},
		byPort: map[int][]virtualHost{}, byDomain: map[int]map[string]int{},
		attempts: b.proxyHeaders(p, outboundClass).attemptCount,
		reasons:  map[*scope.EgressListener]result.ReasonID{},
	}
}

// routeHosts are the virtual hosts of a route configuration, by name, the last
// resort at the end.
func (b *Builder) routeHosts(r routeName) []virtualHost {
	current := &b.routes.current
	if r.sniffed && r.port != 0 {
		return b.sniffedHosts(r)
	}
	hosts := b.portHosts(r)
	if r.sniffed {
		return keepSniffed(hosts, r.name)
	}
	return append(slices.Clip(hosts), b.lastResort(current.scope, current.proxy))
}

// sniffedHosts are those of "<host>:<port>": the one with the domain, for every
// domain now (RDS-7).
func (b *Builder) sniffedHosts(r routeName) []virtualHost {
	current := &b.routes.current
	hosts := b.portHosts(r)
	positions := current.byDomain[r.port]
	if positions == nil {
		positions = map[string]int{}
		for i := range hosts {
			for _, d := range hosts[i].domains {
				positions[d] = i
			}
		}
		current.byDomain[r.port] = positions
	}
	host := r.name[:strings.LastIndexByte(r.name, ':')]
	var found []int
	for _, d := range []string{r.name, host} {
		if i, ok := positions[d]; ok && !slices.Contains(found, i) {
			found = append(found, i)
		}
	}
	var out []virtualHost
	for _, i := range found {
		out = append(out, hosts[i])
	}
	return takeAll(out)
}

func keepSniffed(hosts []virtualHost, name string) []virtualHost {
	host := name[:strings.LastIndexByte(name, ':')]
	return takeAll(slices.DeleteFunc(slices.Clone(hosts), func(vh virtualHost) bool {
		return !slices.Contains(vh.domains, name) && !slices.Contains(vh.domains, host)
	}))
}

// takeAll lets a virtual host that is the only one match every domain.
func takeAll(hosts []virtualHost) []virtualHost {
	if len(hosts) == 1 {
		hosts[0].domains = []string{"*"}
		hosts[0].sorted = hosts[0].domains
	}
	return hosts
}

// portHosts are the virtual hosts for a port by name, without the last resort.
func (b *Builder) portHosts(r routeName) []virtualHost {
	current := &b.routes.current
	key := r.port
	if key != 0 {
		if hosts, ok := current.byPort[key]; ok {
			return hosts
		}
	}
	e := current.scope.EgressFor(r.port, r.name)
	if e == nil {
		return nil
	}
	x := current.listeners[e]
	if x == nil {
		x = indexListener(e)
		current.listeners[e] = x
	}
	port := r.port
	if e.Spec.GetPort() != nil && mesh.ParseProtocol(e.Spec.GetPort().GetProtocol()) == mesh.HTTPProxy {
		port = 0
	}
	hosts := b.buildHosts(x, port)
	if key != 0 {
		current.byPort[key] = hosts
	}
	return hosts
}

// buildHosts makes the virtual hosts of an egress listener for a port; 0 is
// all ports (RDS-4, RDS-5).
func (b *Builder) buildHosts(x *listenerIndex, port int) []virtualHost {
	current := &b.routes.current
	ps := b.portServices(x, port)
	b.tellHosts(x, ps)
	groups := make([]hostGroup, 0, len(ps.list))
	for _, vs := range x.VirtualServices {
		if port == 80 || b.matches(ps, vs) {
			groups = append(groups, b.hostGroups(current.scope, current.proxy, x, ps, vs)...)
		}
	}
	routed := map[*scope.Service]bool{}
	for i := range groups {
		for _, svc := range groups[i].services {
			routed[svc] = true
		}
	}
	for i, svc := range ps.list {
		if svc.Resolution == mesh.Alias || routed[svc] {
			continue
		}
		for _, sp := range ps.ports(svc) {
			if sp.Protocol.IsHTTP() || sp.Protocol.IsAuto() {
				groups = append(groups, hostGroup{
					port: sp.Number, services: ps.list[i : i+1 : i+1],
					routes: b.defaultRouteSet(current.scope, current.proxy, svc, sp.Number),
				})
			}
		}
	}
	hosts := b.nameHosts(groups, port)
	slices.SortStableFunc(hosts, func(x, y virtualHost) int { return strings.Compare(x.name, y.name) })
	return hosts
}

// nameHosts gives each virtual host its domains; a name or domain that is
// taken stays with the first (RDS-6).
func (b *Builder) nameHosts(groups []hostGroup, port int) []virtualHost {
	names := &b.routes.names
	names.next()
	for i := range groups {
		for _, svc := range groups[i].services {
			host := b.hostKey(svc.Host)
			names.know(host)
			if port == 0 {
				names.know(hostPort(host, groups[i].port))
			}
		}
	}
	out := make([]virtualHost, 0, len(groups))
	taken := make(map[string]bool, len(groups))
	add := func(g *hostGroup, host string, svc *scope.Service) {
		vh := virtualHost{name: hostPort(host, g.port), routes: g.routes, service: svc, by: g.by}
		if taken[vh.name] {
			b.tellTaken(g, host)
			return
		}
		taken[vh.name] = true
		var e *expansion
		if svc != nil {
			e = b.expand(b.routes.current.proxy, svc, port, g.port)
		} else {
			e = b.newExpansion([]string{domainHost(host)}, nil)
		}
		vh.domains, vh.sorted = names.take(e)
		if port == 0 && g.port != 80 {
			vh.keepWithPort()
		}
		if len(vh.domains) > 0 {
			out = append(out, vh)
		}
	}
	for i := range groups {
		g := &groups[i]
		for _, host := range g.names {
			add(g, b.hostKey(host), nil)
		}
		for _, svc := range g.services {
			add(g, b.hostKey(svc.Host), svc)
		}
	}
	return out
}

// know marks a name as some service's own.
func (n *domainNames) know(name string) { n.known[n.id(name)] = n.round }

// take returns the domains of e that are free, in istiod's order and in byte
// order, and marks them as taken.
func (n *domainNames) take(e *expansion) (domains, sorted []string) {
	free := func(i int) bool {
		exact := e.exact[i]
		return n.taken[e.lower[i]] != n.round && (exact < 0 || n.known[exact] != n.round)
	}
	kept := make([]bool, len(e.domains))
	all := true
	for i := range e.domains {
		kept[i] = free(i)
		all = all && kept[i]
		if kept[i] {
			n.taken[e.lower[i]] = n.round
		}
	}
	if all {
		return e.domains, e.sorted
	}
	for i, d := range e.domains {
		if kept[i] {
			domains = append(domains, d)
		}
	}
	return domains, sortedSet(domains)
}

// keepWithPort leaves only the domains that name a port: what a proxy for all
// ports may hold for a port other than 80.
func (vh *virtualHost) keepWithPort() {
	var domains []string
	for _, d := range vh.domains {
		if strings.Contains(d, ":") {
			domains = append(domains, d)
		}
	}
	vh.domains, vh.sorted = domains, sortedSet(domains)
}

// virtualHostPart counts a virtual host without building its routes again.
func (b *Builder) virtualHostPart(vh *virtualHost) result.Part {
	if vh.message != nil {
		part := virtualHostPart(vh.message)
		part.By = vh.by
		return part
	}
	part := result.Part{
		Name: vh.name, Domains: vh.sorted, To: vh.routes.to, Matches: vh.routes.matches,
		By: vh.by, Bytes: fieldBytes(b.virtualHostBytes(vh)),
	}
	if vh.service != nil {
		part.Service = vh.service.Host
	}
	return part
}

// virtualHostBytes adds up the length of virtualHostMessage.
func (b *Builder) virtualHostBytes(vh *virtualHost) int64 {
	bytes := fieldBytes(int64(len(vh.name))) + vh.routes.bytes
	for _, d := range vh.domains {
		bytes += fieldBytes(int64(len(d)))
	}
	if b.routes.current.attempts {
		bytes += 2
	}
	if filters := b.hostFilters(vh); filters != nil {
		bytes += int64(proto.Size(&routev3.VirtualHost{TypedPerFilterConfig: filters}))
	}
	return bytes
}

// hostFilters is what the filters of the listener read from a virtual host; nil for nothing.
func (b *Builder) hostFilters(vh *virtualHost) map[string]*anypb.Any {
	session := b.persistentSession(vh.service)
	if session == nil {
		return nil
	}
	return map[string]*anypb.Any{sessionFilterName: sessionPerRoute(session)}
}

// virtualHostMessage is the virtual host as istiod sends it.
func (b *Builder) virtualHostMessage(vh *virtualHost) *routev3.VirtualHost {
	if vh.message != nil {
		return vh.message
	}
	return &routev3.VirtualHost{
		Name: vh.name, Domains: vh.domains, Routes: vh.routes.build(),
		IncludeRequestAttemptCount: b.routes.current.attempts,
		TypedPerFilterConfig:       b.hostFilters(vh),
	}
}

// lastResort is the virtual host for every other domain (RDS-8).
func (b *Builder) lastResort(s *scope.Scope, p *mesh.Proxy) virtualHost {
	headers := b.proxyHeaders(p, outboundClass)
	route := &routev3.Route{Match: routeMatch(nil, "")}
	mode := s.OutboundPolicy.GetMode()
	action := &routev3.RouteAction{AppendXForwardedHost: headers.xForwardedHost}
	setTimeout(action, nil)
	switch {
	case s.OutboundPolicy == nil || mode == networking.OutboundTrafficPolicy_REGISTRY_ONLY:
		route.Name = "block_all"
		route.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 502}}
	case meshconfig.MeshConfig_OutboundTrafficPolicy_Mode(mode) == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		route.Name = "allow_any_dynamic_dns"
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: "AllowAnyDynamicDNSCluster"}
		route.Action = &routev3.Route_Route{Route: action}
	default:
		route.Name = "allow_any"
		cluster := "PassthroughCluster"
		if proxy := s.OutboundPolicy.GetEgressProxy(); proxy != nil {
			cluster = destinationCluster(proxy, nil, 0, false)
		}
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: cluster}
		route.Action = &routev3.Route_Route{Route: action}
	}
	message := &routev3.VirtualHost{
		Name: route.Name, Domains: []string{"*"}, Routes: []*routev3.Route{route},
		IncludeRequestAttemptCount: headers.attemptCount,
	}
	vh := virtualHost{name: route.Name, domains: message.Domains, sorted: message.Domains, message: message}
	if s.Sidecar != nil && s.Sidecar.Spec.GetOutboundTrafficPolicy() != nil {
		vh.by = s.Sidecar.Ref()
	}
	return vh
}

// routeReason says why a route configuration is there: the egress listener.
func (b *Builder) routeReason(e *scope.EgressListener) result.ReasonID {
	current := &b.routes.current
	if known, ok := current.reasons[e]; ok {
		return known
	}
	reason := result.Reason{Rule: "RDS-1", Text: "a listener of the proxy refers to it"}
	if e != nil && e.Spec != nil && current.scope.Sidecar != nil {
		reason.Object = current.scope.Sidecar.Ref()
		reason.Field = "spec.egress[" + strconv.Itoa(e.Index) + "]"
	}
	id := b.rec.Included(reason)
	current.reasons[e] = id
	return id
}
