package xds

import (
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// routeMemo keeps what the route configurations of many scopes share: the
// routes of a VirtualService, a service's default route and its domains, each
// once for each distinct shape.
type routeMemo struct {
	ofVS       map[routeKey][]*routev3.Route
	sets       map[*routev3.Route]*routeSet // of VirtualServices, by their first route
	defaults   map[defaultKey]*routeSet
	hashes     map[*networking.LoadBalancerSettings_ConsistentHashLB]int
	expansions map[expansionKey]*expansion
	names      domainNames
	sniffed    map[sniffedKey]*result.Resource
	current    scopeRoutes
}

func newRouteMemo() *routeMemo {
	return &routeMemo{
		ofVS:       map[routeKey][]*routev3.Route{},
		sets:       map[*routev3.Route]*routeSet{},
		defaults:   map[defaultKey]*routeSet{},
		hashes:     map[*networking.LoadBalancerSettings_ConsistentHashLB]int{},
		expansions: map[expansionKey]*expansion{},
		names:      domainNames{ids: map[string]int32{}},
		sniffed:    map[sniffedKey]*result.Resource{},
	}
}

// hashID numbers consistent hashes, nil included, by identity.
func (m *routeMemo) hashID(hash *networking.LoadBalancerSettings_ConsistentHashLB) string {
	id, ok := m.hashes[hash]
	if !ok {
		id = len(m.hashes)
		m.hashes[hash] = id
	}
	return strconv.Itoa(id)
}

// routeSet is the routes of a virtual host, measured.
type routeSet struct {
	bytes   int64 // as the field of a virtual host
	to      []string
	matches []string
	digest  result.Digest
	fails   []string             // result.Part.Fails
	vs      *mesh.VirtualService // nil: a service's default route
	build   func() []*routev3.Route
}

func (on digests) measureRoutes(routes []*routev3.Route, build func() []*routev3.Route) *routeSet {
	set := &routeSet{to: routeTargets(routes), matches: routeMatches(routes), build: build, digest: on.routes(routes), fails: on.routeFails(routes)}
	for _, r := range routes {
		set.bytes += fieldBytes(int64(proto.Size(r)))
	}
	return set
}

// vsRouteSet measures the routes of a VirtualService; nil if it has none here.
func (b *Builder) vsRouteSet(vs *mesh.VirtualService, o routeOptions) *routeSet {
	routes := b.vsRoutes(vs, o)
	if len(routes) == 0 {
		return nil
	}
	set := b.routes.sets[routes[0]]
	if set == nil {
		set = b.digests.measureRoutes(routes, func() []*routev3.Route { return routes })
		set.vs = vs
		b.routes.sets[routes[0]] = set
	}
	return set
}

type defaultKey struct {
	host string
	port int
	hash *networking.LoadBalancerSettings_ConsistentHashLB
}

// defaultRouteSet measures the route of a service without a VirtualService.
func (b *Builder) defaultRouteSet(s *scope.Scope, p *mesh.Proxy, svc *scope.Service, port int) *routeSet {
	key := defaultKey{b.hostKey(svc.Host), port, serviceHash(s, p, svc, port)}
	set := b.routes.defaults[key]
	if set == nil {
		build := func() []*routev3.Route { return []*routev3.Route{b.defaultRoute(key)} }
		set = b.digests.measureRoutes(build(), build)
		b.routes.defaults[key] = set
	}
	return set
}

// defaultRoute leads everything to a service's port (SIZE-22). Retries avoid
// the hosts tried before even where the DestinationRule hashes.
func (b *Builder) defaultRoute(key defaultKey) *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "outbound|" + strconv.Itoa(key.port) + "||" + key.host},
		RetryPolicy:      b.retryPolicy(b.view.Config.GetDefaultHttpRetryPolicy(), false),
	}
	setTimeout(action, nil)
	if policy := hashPolicy(key.hash); policy != nil {
		action.HashPolicy = []*routev3.RouteAction_HashPolicy{policy}
	}
	return &routev3.Route{
		Name:      "default",
		Match:     routeMatch(nil, ""),
		Decorator: &routev3.Decorator{Operation: hostPort(key.host, key.port) + "/*"},
		Action:    &routev3.Route_Route{Route: action},
	}
}

// serviceHash is the consistent hash for a service's port; nil if none.
func serviceHash(s *scope.Scope, p *mesh.Proxy, svc *scope.Service, port int) *networking.LoadBalancerSettings_ConsistentHashLB {
	// istiod looks the rule up by the host name: the scope-wide service decides.
	known := s.Service(svc.Host)
	if known == nil {
		return nil
	}
	dr := s.DestinationRule(known.Service, p)
	if dr == nil {
		return nil
	}
	policy := dr.Spec.GetTrafficPolicy()
	for _, setting := range policy.GetPortLevelSettings() {
		if int(setting.GetPort().GetNumber()) == port {
			if hash := setting.GetLoadBalancer().GetConsistentHash(); hash != nil {
				return hash
			}
			break
		}
	}
	return policy.GetLoadBalancer().GetConsistentHash()
}
