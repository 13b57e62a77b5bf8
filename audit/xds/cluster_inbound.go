package xds

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

const (
	localhost4 = "127.0.0.1"
	localhost6 = "::1"
)

// inboundCluster is an inbound cluster to be: where it sends to, and for which
// services.
type inboundCluster struct {
	port    int    // that its name tells
	address string // empty: where the client sent it
	targets []mesh.ServiceTarget
	reason  result.Reason
}

// InboundClusters are the clusters of a sidecar's own ports, sorted by name,
// and what EnvoyFilters add inbound (IN-1 … IN-3). Routers have none.
func (b *Builder) InboundClusters(s *scope.Scope, p *mesh.Proxy) []*result.Resource {
	if p.Kind != mesh.SidecarProxy {
		return nil
	}
	cb := b.clusterBuilder(p)
	cb.context = networking.EnvoyFilter_SIDECAR_INBOUND
	taken := map[string]bool{}
	for _, r := range cb.insertedNames(networking.EnvoyFilter_SIDECAR_OUTBOUND) {
		taken[r] = true
	}
	var out []*result.Resource
	for _, in := range cb.inboundClusters(s) {
		var hosts []string
		for _, t := range in.targets {
			hosts = append(hosts, t.Service.Host)
		}
		built := cb.buildInbound(s, in)
		c := cb.patch(built, hosts)
		if c == nil || taken[c.GetName()] {
			continue
		}
		taken[c.GetName()] = true
		r := cb.ownResource(c, in.reason)
		r.Because = append(r.Because, cb.clusterPatches(built, hosts)...)
		if slices.Sort(hosts); len(slices.Compact(hosts)) == 1 {
			r.Service = hosts[0]
		}
		if *r.Parts[0].Rule != "" {
			r.Parts[0].By = ruleRef(s.InboundDestinationRule(in.targets[0].Service, p))
		}
		out = append(out, r)
	}
	for _, r := range cb.inserted(networking.EnvoyFilter_SIDECAR_INBOUND) {
		if !taken[r.Name] && r.Name != inboundPassthroughCluster {
			taken[r.Name] = true
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// inboundClusters lists a proxy's inbound clusters: from Sidecar.ingress if it
// has any, else one for each target port of the services that select it.
func (cb *clusterBuilder) inboundClusters(s *scope.Scope) []inboundCluster {
	ingress := s.Sidecar != nil && len(s.Sidecar.Spec.GetIngress()) > 0
	if !ingress {
		if cb.proxy.Metadata.Interception == "NONE" {
			return nil
		}
		return cb.targetClusters(nil)
	}
	var out []inboundCluster
	listeners := s.Sidecar.Spec.GetIngress()
	if cb.view.Flags.SidecarInboundMerge {
		declared := map[int]bool{}
		for _, l := range listeners {
			declared[int(l.GetPort().GetNumber())] = true
		}
		out = cb.targetClusters(declared)
	}
	for i, l := range listeners {
		if in, ok := cb.ingressCluster(s, i, l); ok {
			out = append(out, in)
		}
	}
	return out
}

// targetClusters are the clusters of the proxy's service targets, less those
// on a port that Sidecar.ingress declares.
func (cb *clusterBuilder) targetClusters(declared map[int]bool) []inboundCluster {
	byPort := map[int][]mesh.ServiceTarget{}
	for _, t := range cb.proxy.Targets {
		if t.Service != nil {
			byPort[t.TargetPort] = append(byPort[t.TargetPort], t)
		}
	}
	address := ""
	if cb.view.Config.GetInboundTrafficPolicy().GetMode() != meshconfig.MeshConfig_InboundTrafficPolicy_PASSTHROUGH {
		address = cb.localhosts()[0]
	}
	var out []inboundCluster
	for _, port := range slices.Sorted(maps.Keys(byPort)) {
		if declared[port] {
			continue
		}
		first := byPort[port][0].Service
		out = append(out, inboundCluster{port: port, address: address, targets: byPort[port], reason: result.Reason{
			Rule: "IN-3", Object: first.Ref, Text: "the service leads to this port of the pod",
		}})
	}
	return out
}

// ingressCluster is the cluster of one listener of Sidecar.ingress; none if
// its defaultEndpoint cannot be read.
func (cb *clusterBuilder) ingressCluster(s *scope.Scope, index int, l *networking.IstioIngressListener) (inboundCluster, bool) {
	number := int(l.GetPort().GetNumber())
	address, port, ok := cb.defaultEndpoint(l.GetDefaultEndpoint())
	if !ok {
		return inboundCluster{}, false
	}
	svc := cb.ingressService(s, number)
	return inboundCluster{
		port: number, address: address,
		targets: []mesh.ServiceTarget{{
			Service:    svc,
			Port:       mesh.Port{Name: l.GetPort().GetName(), Number: number, Protocol: mesh.ParseProtocol(l.GetPort().GetProtocol())},
			TargetPort: port,
		}},
		reason: result.Reason{Rule: "IN-1", Object: s.Sidecar.Ref(), Field: "spec.ingress[" + strconv.Itoa(index) + "]",
			Text: "the Sidecar declares this inbound port"},
	}, true
}

// ingressService is the service that leads to a port, or one in the Sidecar's name.
func (cb *clusterBuilder) ingressService(s *scope.Scope, port int) *mesh.Service {
	for _, t := range cb.proxy.Targets {
		if t.TargetPort == port && t.Service != nil {
			return t.Service
		}
	}
	return &mesh.Service{
		Ref: s.Sidecar.Ref(), Host: s.Sidecar.Name + "." + s.Sidecar.Namespace,
		Name: s.Sidecar.Name, Namespace: s.Sidecar.Namespace, External: true,
	}
}

// defaultEndpoint reads where an ingress listener sends to: a unix socket, or
// an address by which Istio means localhost or the pod's own; "" and 0: where
// the client sent it.
func (cb *clusterBuilder) defaultEndpoint(s string) (address string, port int, ok bool) {
	if s == "" || strings.HasPrefix(s, "unix://") {
		return s, 0, true
	}
	host, digits, err := net.SplitHostPort(s)
	if err != nil || digits == "" {
		return "", 0, false
	}
	if port, err = strconv.Atoi(digits); err != nil {
		return "", 0, false
	}
	switch host {
	case "0.0.0.0":
		return cmp.Or(firstOfFamily(cb.proxy.IPs, true), localhost4), port, true
	case "::":
		return cmp.Or(firstOfFamily(cb.proxy.IPs, false), localhost6), port, true
	case localhost4:
		return cmp.Or(firstOfFamily(cb.localhosts(), true), localhost6), port, true
	case localhost6:
		return cmp.Or(firstOfFamily(cb.localhosts(), false), localhost4), port, true
	}
	return "", port, true
}

func firstOfFamily(addresses []string, v4 bool) string {
	for _, s := range addresses {
		if ip, err := netip.ParseAddr(s); err == nil && ip.Unmap().Is4() == v4 {
			return s
		}
	}
	return ""
}

// localhosts are the loopback addresses of the proxy's families.
func (cb *clusterBuilder) localhosts() []string {
	switch {
	case cb.proxy.IPv4 && cb.proxy.IPv6:
		return []string{localhost4, localhost6}
	case cb.proxy.IPv6:
		return []string{localhost6}
	}
	return []string{localhost4}
}

// buildInbound makes an inbound cluster (Istio cluster_builder.go
// buildInboundCluster).
func (cb *clusterBuilder) buildInbound(s *scope.Scope, in inboundCluster) *clusterv3.Cluster {
	first := in.targets[0]
	kind := clusterv3.Cluster_ORIGINAL_DST
	var endpoints []*endpointv3.LocalityLbEndpoints
	if in.address != "" {
		kind = clusterv3.Cluster_STATIC
		endpoints = inlineEndpoint(socketAddress(in.address, first.TargetPort))
	}
	c := cb.base(inboundName(in.port), kind, endpoints, inbound, first.Port, first.Service, in.targets, "")
	if pattern := cb.view.Config.GetInboundClusterStatName(); pattern != "" {
		c.AltStatName = clusterStatName(pattern, first.Service, first.Service.Host, "", first.Port, in.port) + ";"
	}
	if kind == clusterv3.Cluster_ORIGINAL_DST {
		c.CleanupInterval = cleanupForever()
	}
	o := &policyOptions{port: first.Port, direction: inbound}
	if rule := s.InboundDestinationRule(first.Service, cb.proxy); rule != nil && rule.Spec.GetTrafficPolicy() != nil {
		o.policy, _ = portPolicy(rule.Spec.GetTrafficPolicy(), first.Port.Number)
		if c.Metadata != nil {
			c.nameRule(rule, nil)
		}
	}
	o.policy = cb.withMeshPolicy(o.policy)
	if pool := inboundPool(s, in.port); pool != nil {
		o.policy = copyPolicy(o.policy)
		o.policy.ConnectionPool = pool
	}
	cb.applyPolicy(c, o)
	if in.address != localhost4 && in.address != localhost6 {
		cb.bindSource(c.Cluster)
	}
	return c.finish()
}

// inboundPool is the connection pool that the Sidecar sets for a port.
func inboundPool(s *scope.Scope, port int) *networking.ConnectionPoolSettings {
	if s.Sidecar == nil {
		return nil
	}
	for _, l := range s.Sidecar.Spec.GetIngress() {
		if int(l.GetPort().GetNumber()) == port && l.GetConnectionPool() != nil {
			return l.GetConnectionPool()
		}
	}
	return s.Sidecar.Spec.GetInboundConnectionPool()
}

// bindSource makes the cluster connect from the addresses that iptables lets by.
func (cb *clusterBuilder) bindSource(c *clusterv3.Cluster) {
	sources := []string{passthroughSource4}
	switch {
	case cb.proxy.IPv4 && cb.proxy.IPv6 && cb.view.Flags.DualStack:
		sources = append(sources, passthroughSource6)
	case !cb.proxy.IPv4:
		sources = []string{passthroughSource6}
	}
	c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: anyPort(sources[0])}
	for _, extra := range sources[1:] {
		c.UpstreamBindConfig.ExtraSourceAddresses = append(c.UpstreamBindConfig.ExtraSourceAddresses, &corev3.ExtraSourceAddress{Address: anyPort(extra)})
	}
}
