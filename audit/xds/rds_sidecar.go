package xds

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
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

// scopeRoutes is what the route configurations of one scope share.
type scopeRoutes struct {
	scope     *scope.Scope
	proxy     *mesh.Proxy
	listeners map[*scope.EgressListener]*listenerIndex
	byPort    map[int][]virtualHost
	byDomain  map[int]map[string]int // positions in byPort by domain
	lost      map[int]bool           // by port: some host gave way to another
	attempts  bool
	common    *commonLists // nil: shared with no other scope
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
	because := b.routeReason(s.EgressFor(r.port, name))
	patches := b.patchesFor(p)
	patched := b.patchesRoute(patches, networking.EnvoyFilter_SIDECAR_OUTBOUND, name)
	if b.brief && !r.sniffed && !patched {
		out = b.briefRoute(s, p, r)
		out.Because = append(out.Because, because)
		return out
	}
	hosts := b.routeHosts(r)
	out.Because = append(b.delegatesOf(hosts), because)
	if patched {
		rc := b.routeConfiguration(name, hosts)
		out.Because = append(out.Because, b.routePatches(name, patches, networking.EnvoyFilter_SIDECAR_OUTBOUND, nil)...)
		added := b.patchRoutes(rc, patches, networking.EnvoyFilter_SIDECAR_OUTBOUND, nil)
		out.Name = rc.GetName()
		out.Bytes = int64(proto.Size(rc))
		out.Digest = b.digests.configuration(rc)
		out.Parts = b.digests.originParts(rc, hosts, added)
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
	empty := sidecarConfiguration(name)
	out.Bytes, out.Digest = int64(proto.Size(empty)), b.digests.of(empty)
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
		byPort: map[int][]virtualHost{}, lost: map[int]bool{}, byDomain: map[int]map[string]int{},
		attempts: b.proxyHeaders(p, outboundClass).attemptCount,
		reasons:  map[*scope.EgressListener]result.ReasonID{},
	}
	if _, alike := b.commonKeyOf(s, p); alike {
		current.common = b.common(s, p)
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
	current.lost[key] = b.routes.names.lost
	if key != 0 {
		current.byPort[key] = hosts
	}
	return hosts
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
