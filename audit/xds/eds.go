package xds

import (
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// assignmentKey is what decides a load assignment (SIZE-30).
type assignmentKey struct {
	name    string
	service *mesh.Service // nil: the scope has no such service port
	port    mesh.Port
	rule    *networking.DestinationRule
	at      place
}

// assigned is what is told of a load assignment.
type assigned struct {
	bytes     int64
	endpoints int
	digest    result.Digest
}

// assignments are those built for one view. Several builders may use them at
// the same time.
type assignments struct {
	mu    sync.Mutex
	known map[assignmentKey]assigned
}

func (a *assignments) get(key assignmentKey) (assigned, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.known[key]
	return known, ok
}

func (a *assignments) set(key assignmentKey, made assigned) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[key] = made
}

// LoadAssignments are the load assignments that a proxy asks for, given its
// clusters: one for each EDS cluster, even if empty (EDS-1), sorted by name.
func (b *Builder) LoadAssignments(s *scope.Scope, p *mesh.Proxy, clusters []*result.Resource) []*result.Resource {
	cb := b.clusterBuilder(p)
	var out []*result.Resource
	last := ""
	for _, c := range clusters {
		if len(c.Parts) == 0 || c.Parts[0].Type != "EDS" {
			continue
		}
		name := c.Name
		if eds := b.memo.edsNames[c]; eds != "" {
			name = eds
		}
		if name != last || len(out) == 0 {
			out = append(out, cb.assignment(s, name))
		}
		last = name
	}
	slices.SortStableFunc(out, func(x, y *result.Resource) int { return strings.Compare(x.Name, y.Name) })
	return slices.CompactFunc(out, func(x, y *result.Resource) bool { return x.Name == y.Name })
}

// assignment is the load assignment of one EDS cluster; empty if the scope has
// no such service port.
func (cb *clusterBuilder) assignment(s *scope.Scope, name string) *result.Resource {
	parts := parseClusterName(name)
	svc := s.Service(parts.Host)
	key := assignmentResourceKey{assignmentKey: assignmentKey{name: name}}
	if svc != nil {
		key.host, key.because = svc.Host, svc.Because
		if port := svc.Port(parts.Port); port != nil {
			rule := ruleSpec(s.DestinationRule(svc.Service, cb.proxy))
			key.service, key.port, key.rule = svc.Service, *port, rule
			key.at = cb.placeFor(svc.Service, rule)
		}
	}
	if known := cb.memo.assignments[key]; known != nil {
		return known
	}
	made, ok := cb.assigned.get(key.assignmentKey)
	if !ok {
		made = cb.assign(key.assignmentKey, parts.Subset)
		cb.assigned.set(key.assignmentKey, made)
	}
	r := &result.Resource{
		Name: name, Bytes: made.bytes, Endpoints: made.endpoints, Parts: []result.Part{{Endpoints: &made.endpoints}}, Digest: made.digest,
	}
	if svc != nil {
		r.Service = svc.Host
		r.Because = []result.ReasonID{svc.Because}
	}
	cb.memo.assignments[key] = r
	return r
}

// assign builds a load assignment and measures it.
func (cb *clusterBuilder) assign(key assignmentKey, subset string) assigned {
	message := &endpointv3.ClusterLoadAssignment{ClusterName: key.name}
	if key.service != nil {
		message = cb.endpointSource(key.name, key.service, key.port, subset, key.rule).assignment()
	}
	made := assigned{bytes: int64(proto.Size(message)), endpoints: endpointCount(message)}
	message.ClusterName = "" // the same endpoints have the same digest under any name
	made.digest = cb.digests.of(message)
	return made
}

// endpointSource makes the endpoints of one cluster for one proxy (Istio
// pilot/pkg/xds/endpoints/endpoint_builder.go).
type endpointSource struct {
	*clusterBuilder
	name      string
	service   *mesh.Service
	port      mesh.Port
	subset    string
	labels    map[string]string // of the subset
	rule      *networking.DestinationRule
	unhealthy bool // unready endpoints are sent
	ruleTLS   *networking.ClientTLSSettings_TLSmode
}

func (cb *clusterBuilder) endpointSource(name string, svc *mesh.Service, port mesh.Port, subset string, rule *networking.DestinationRule) *endpointSource {
	e := &endpointSource{clusterBuilder: cb, name: name, service: svc, port: port, subset: subset, rule: rule}
	var chosen *networking.Subset
	if subset != "" {
		chosen = subsetNamed(rule, subset)
		e.labels = chosen.GetLabels()
	}
	policy := effectivePolicy(rule, port.Number, subset)
	e.unhealthy = cb.forcesUnhealthy(svc) || cb.takesUnhealthy(svc) && policy.GetOutlierDetection().GetMinHealthPercent() <= 0
	if subset == "" || chosen != nil {
		e.ruleTLS = tlsModeForPort(chosen.GetTrafficPolicy(), port.Number)
		if e.ruleTLS == nil && (subset == "" || cb.view.Behaviours.SubsetTLSFallback) {
			e.ruleTLS = tlsModeForPort(rule.GetTrafficPolicy(), port.Number)
		}
	}
	return e
}

func (e *endpointSource) withSubset(subset string) *endpointSource {
	if e == nil {
		return nil
	}
	return e.endpointSource(e.name, e.service, e.port, subset, e.rule)
}

func subsetNamed(rule *networking.DestinationRule, name string) *networking.Subset {
	for _, s := range rule.GetSubsets() {
		if s.GetName() == name {
			return s
		}
	}
	return nil
}

// effectivePolicy is the policy of a rule for a port and subset.
func effectivePolicy(rule *networking.DestinationRule, port int, subset string) *networking.TrafficPolicy {
	return subsetPolicy(rule.GetTrafficPolicy(), subsetNamed(rule, subset).GetTrafficPolicy(), port)
}

// tlsModeForPort is the mode that a policy sets for a port; nil: none.
func tlsModeForPort(policy *networking.TrafficPolicy, port int) *networking.ClientTLSSettings_TLSmode {
	var mode *networking.ClientTLSSettings_TLSmode
	if policy.GetTls() != nil {
		mode = &policy.Tls.Mode
	}
	for _, s := range policy.GetPortLevelSettings() {
		if int(s.GetPort().GetNumber()) == port && s.GetTls() != nil {
			return &s.Tls.Mode
		}
	}
	return mode
}

// rows are the service port's endpoints as clusters see them: matched by port
// number for a ServiceEntry, whatever their address and health.
func (e *endpointSource) rows() []*mesh.Endpoint {
	if e == nil {
		return nil
	}
	var out []*mesh.Endpoint
	for _, row := range e.view.EndpointsByPort(e.service, e.port.Number) {
		if row.Labels.Include(e.labels) {
			out = append(out, row)
		}
	}
	return out
}

// inline are the endpoints that a cluster carries itself.
func (e *endpointSource) inline() []localityGroup {
	if e == nil {
		return nil
	}
	return e.generate(e.rows())
}

// assignment is the cluster's load assignment (EDS-2).
func (e *endpointSource) assignment() *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: e.name}
	if resolvesByDNS(e.service) {
		return out
	}
	var kept []*mesh.Endpoint
	rows := e.view.Endpoints.Of(e.service.Host, e.service.Namespace)
	for i := range rows {
		row := &rows[i]
		if row.PortName != e.port.Name || !row.Labels.Include(e.labels) {
			continue
		}
		if row.Address != "" && row.Port != 0 && !validIP(row.Address) {
			continue
		}
		kept = append(kept, row)
	}
	groups := e.generate(kept)
	if len(groups) == 0 {
		return out
	}
	out.Endpoints = messages(groups)
	policy := effectivePolicy(e.rule, e.port.Number, e.subset)
	e.localitySetting(policy.GetLoadBalancer(), e.service).apply(out, groups, e.proxy, policy.GetOutlierDetection() != nil)
	return out
}

func validIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func messages(groups []localityGroup) []*endpointv3.LocalityLbEndpoints {
	var out []*endpointv3.LocalityLbEndpoints
	for _, g := range groups {
		out = append(out, g.LocalityLbEndpoints)
	}
	return out
}

// generate drops what the proxy does not get (EDS-4, EDS-5), groups by
// locality, and puts gateways in the place of endpoints of other networks.
func (e *endpointSource) generate(rows []*mesh.Endpoint) []localityGroup {
	byLocality := map[string]*localityGroup{}
	local := e.clusterLocal(e.service)
	for _, row := range rows {
		if !e.sends(row, local) {
			continue
		}
		g := byLocality[row.Locality]
		if g == nil {
			g = &localityGroup{LocalityLbEndpoints: &endpointv3.LocalityLbEndpoints{Locality: localityOf(row.Locality)}}
			byLocality[row.Locality] = g
		}
		g.rows = append(g.rows, row)
		g.LbEndpoints = append(g.LbEndpoints, e.lbEndpoint(row))
	}
	var out []localityGroup
	for _, name := range sortedKeys(byLocality) {
		g := byLocality[name]
		g.setWeight()
		out = append(out, *g)
	}
	out = e.throughGateways(out)
	if strings.HasPrefix(e.name, "outbound_.") {
		out = onlyMTLS(out)
	}
	return out
}

// setWeight sums the endpoints' weights up; none for an empty group.
func (g *localityGroup) setWeight() {
	if len(g.LbEndpoints) == 0 {
		g.LoadBalancingWeight = nil
		return
	}
	var sum uint64
	for _, ep := range g.LbEndpoints {
		sum += uint64(ep.GetLoadBalancingWeight().GetValue())
	}
	g.LoadBalancingWeight = wrapperspb.UInt32(uint32(min(sum, 1<<32-1)))
}

// sends reports that the proxy gets an endpoint at all.
func (e *endpointSource) sends(row *mesh.Endpoint, clusterLocal bool) bool {
	p := e.proxy
	switch {
	case e.service.NodeLocal && (row.Node != p.Node || row.Cluster != p.Cluster):
		return false
	case len(p.Metadata.NetworkView) > 0 && row.Network != "" && !slices.Contains(p.Metadata.NetworkView, row.Network):
		return false
	case clusterLocal && row.Cluster != p.Cluster:
		return false
	case row.Address == "" && (!e.gateways().enabled() || sameOrEmpty(p.Network, row.Network)):
		return false
	case row.Health == mesh.Unhealthy && !e.unhealthy, row.Health == mesh.Terminating:
		return false
	case row.Health == mesh.Draining || row.Labels.Get(drainingLabel) != "":
		return e.service.Labels[persistentSessionLabel] != ""
	}
	return true
}

const (
	drainingLabel                = "istio.io/draining"
	persistentSessionLabel       = "istio.io/persistent-session"
	persistentSessionHeaderLabel = "istio.io/persistent-session-header"
)

func (b *Builder) drains(svc *mesh.Service) bool {
	return svc.Labels[persistentSessionLabel] != "" || svc.Labels[persistentSessionHeaderLabel] != ""
}

// drainingStatuses are the health states that keep endpoints of a service with
// persistent sessions.
func drainingStatuses() *corev3.HealthStatusSet {
	return &corev3.HealthStatusSet{Statuses: []corev3.HealthStatus{
		corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DRAINING, corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DEGRADED,
	}}
}

func sameOrEmpty(a, b string) bool { return a == "" || b == "" || a == b }
