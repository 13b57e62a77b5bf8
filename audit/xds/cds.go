package xds

import (
	"cmp"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// OutboundClusters are all clusters that the proxies of a scope share, sorted
// by name: those of the scope's services with their subsets, SNI-DNAT ones,
// the fixed ones and those that EnvoyFilters add (CDS-3 … CDS-16).
func (b *Builder) OutboundClusters(s *scope.Scope, p *mesh.Proxy) []*result.Resource {
	cb := b.clusterBuilder(p)
	shape := b.shapeOf(p, cb.patches)
	var out []*result.Resource
	for _, svc := range s.Services {
		out = append(out, cb.serviceClusters(s, svc, shape, false)...)
	}
	out = append(out, cb.otherClusters(s, shape)...)
	slices.SortStableFunc(out, func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

func (b *Builder) clusterBuilder(p *mesh.Proxy) *clusterBuilder {
	if b.memo == nil {
		b.memo = newClusterMemo()
	}
	cb := &clusterBuilder{Builder: b, proxy: p, patches: b.patchesFor(p), context: networking.EnvoyFilter_SIDECAR_OUTBOUND}
	if p.Kind == mesh.RouterProxy {
		cb.context = networking.EnvoyFilter_GATEWAY
	}
	return cb
}

// serviceClusters are the clusters of one service, port by port; sniDNAT asks
// for the SNI-DNAT ones.
func (cb *clusterBuilder) serviceClusters(s *scope.Scope, svc *scope.Service, shape proxyShape, sniDNAT bool) []*result.Resource {
	switch {
	case svc.Service == nil, sniDNAT && svc.External:
		return nil
	case svc.Resolution == mesh.Alias && !sniDNAT:
		cb.rec.Excluded(svc.Host, result.Reason{Rule: "CDS-3", Object: svc.Ref, Field: "spec.externalName",
			Text: "an ExternalName Service is an alias: it has no cluster of its own"})
		return nil
	}
	rule := s.DestinationRule(svc.Service, cb.proxy)
	var out []*result.Resource
	for _, port := range svc.Ports {
		if port.Protocol == mesh.UDP {
			cb.rec.Excluded(outboundName(port.Number, "", svc.Host), result.Reason{Rule: "CDS-3", Object: svc.Ref,
				Text: "UDP ports have no clusters"})
			continue
		}
		key := clusterKey{proxyShape: shape, service: svc.Service, port: port, sniDNAT: sniDNAT}
		reasons := resourceKey{service: svc.Because}
		if rule != nil {
			key.rule, key.from = rule.Spec, ruleName(rule)
			reasons.hasRule, reasons.rule = true, rule.Because
		}
		if resolvesByDNS(svc.Service) {
			key.at = cb.placeFor(svc.Service, ruleSpec(rule))
		}
		set := cb.memo.clusters[key]
		if set == nil {
			set = cb.buildSet(svc.Service, port, rule, sniDNAT)
			cb.memo.clusters[key] = set
		}
		out = append(out, cb.memo.withReasons(set, reasons)...)
	}
	return out
}

func resolvesByDNS(svc *mesh.Service) bool {
	return svc.Resolution == mesh.DNSLB || svc.Resolution == mesh.DNSRoundRobinLB
}

func ruleName(rule *scope.DestinationRule) string {
	if rule == nil || len(rule.From) == 0 {
		return ""
	}
	return rule.From[0].Namespace + "/" + rule.From[0].Name
}

// ruleRef names the DestinationRule that a cluster names; zero if none.
func ruleRef(rule *scope.DestinationRule) result.Ref {
	if rule == nil || len(rule.From) == 0 {
		return result.Ref{}
	}
	return rule.From[0].Ref()
}

func ruleSpec(rule *scope.DestinationRule) *networking.DestinationRule {
	if rule == nil {
		return nil
	}
	return rule.Spec
}

// buildSet builds the clusters of a service port and measures them.
func (cb *clusterBuilder) buildSet(svc *mesh.Service, port mesh.Port, rule *scope.DestinationRule, sniDNAT bool) *clusterSet {
	var clusters []*clusterv3.Cluster
	var hosts []string
	if mesh.IsWildcard(svc.Host) && svc.Resolution == mesh.DynamicDNS && !sniDNAT {
		clusters, hosts = cb.dynamicForwardClusters(svc, port, rule), []string{svc.Host}
	} else {
		clusters = cb.portClusters(svc, port, rule, sniDNAT)
	}
	set := &clusterSet{}
	for _, c := range clusters {
		patched := cb.clusterPatches(c, hosts)
		if c = cb.patch(c, hosts); c == nil {
			continue
		}
		set.patched = append(set.patched, patched)
		r, eds := clusterResource(c, svc.Host, rule)
		r.Digest, r.Parts[0].TLS = cb.digests.of(c), cb.digests.clusterTLS(c)
		set.resources = append(set.resources, r)
		set.edsNames = append(set.edsNames, eds)
	}
	return set
}

// portClusters are the default cluster and the subsets' of a service port.
func (cb *clusterBuilder) portClusters(svc *mesh.Service, port mesh.Port, rule *scope.DestinationRule, sniDNAT bool) []*clusterv3.Cluster {
	name := outboundName(port.Number, "", svc.Host)
	if sniDNAT {
		name = sniName(port.Number, "", svc.Host)
	}
	var source *endpointSource
	var endpoints []*endpointv3.LocalityLbEndpoints
	if resolvesByDNS(svc) {
		source = cb.endpointSource(name, svc, port, "", ruleSpec(rule))
		endpoints = messages(source.inline())
	}
	c := cb.base(name, cb.discoveryType(svc), endpoints, outbound, port, svc, nil, "")
	if c == nil {
		cb.rec.Excluded(name, result.Reason{Rule: "CDS-5", Object: svc.Ref,
			Text: "a cluster that resolves by DNS is not sent while the service has no endpoint for the port"})
		return nil
	}
	if len(endpoints) > 0 && !sniDNAT {
		c.dnsRows = source.rows()
	}
	if !sniDNAT && cb.drains(svc) {
		c.CommonLbConfig.OverrideHostStatus = drainingStatuses()
	}
	return append([]*clusterv3.Cluster{}, cb.applyRule(c, svc, port, rule, source, sniDNAT)...)
}

// applyRule applies the DestinationRule and what follows from the service, and
// returns the default cluster and the subsets' (Istio cluster_builder.go
// applyDestinationRule).
func (cb *clusterBuilder) applyRule(c *cluster, svc *mesh.Service, port mesh.Port, rule *scope.DestinationRule, source *endpointSource, sniDNAT bool) []*clusterv3.Cluster {
	spec := ruleSpec(rule)
	policy, _ := portPolicy(spec.GetTrafficPolicy(), port.Number)
	o := &policyOptions{
		policy: cb.withMeshPolicy(policy), port: port, direction: outbound, sniDNAT: sniDNAT, service: svc,
		selecting: spec.GetWorkloadSelector() != nil,
	}
	if !sniDNAT {
		if !c.dfp {
			o.accounts = cb.serviceAccounts(svc)
			o.sni = sniName(port.Number, "", svc.Host)
		}
		o.mtls = cb.clientMTLS(svc, port, spec.GetTrafficPolicy())
	}
	cb.applyPolicy(c, o)
	c.setEDS()
	cb.addExchange(c)
	if svc.External {
		c.istioMetadata()["external"] = structpb.NewBoolValue(true)
	}
	c.nameRule(rule, o.policy)
	if cb.dynamicWildcard(svc) || spec == nil { // such a host has no subsets (CDS-4)
		return []*clusterv3.Cluster{c.finish()}
	}
	// Subsets take the discovery type that the rule has left the default with.
	var subsets []*clusterv3.Cluster
	for _, subset := range spec.GetSubsets() {
		if sub := cb.subsetCluster(c, *o, rule, subset, source); sub != nil {
			subsets = append(subsets, sub)
		}
	}
	return append([]*clusterv3.Cluster{c.finish()}, subsets...)
}

func (cb *clusterBuilder) subsetCluster(parent *cluster, o policyOptions, rule *scope.DestinationRule, subset *networking.Subset, source *endpointSource) *clusterv3.Cluster {
	if subset == nil {
		return nil
	}
	svc := o.service
	name, sni := sniName(o.port.Number, subset.GetName(), svc.Host), ""
	if !o.sniDNAT {
		sni = name
		name = outboundName(o.port.Number, subset.GetName(), svc.Host)
	}
	o.mtls = cb.clientMTLS(svc, o.port, subset.GetTrafficPolicy())
	kind := parent.GetType()
	passthrough := subset.GetTrafficPolicy().GetLoadBalancer().GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH
	if passthrough {
		kind = clusterv3.Cluster_ORIGINAL_DST
	}
	var endpoints []*endpointv3.LocalityLbEndpoints
	if !passthrough && kind != clusterv3.Cluster_EDS {
		endpoints = messages(source.withSubset(subset.GetName()).inline())
	}
	c := cb.base(name, kind, endpoints, outbound, o.port, svc, nil, subset.GetName())
	if c == nil {
		cb.rec.Excluded(name, result.Reason{Rule: "CDS-5", Object: ruleRef(rule), Field: "spec.subsets",
			Text: "a cluster that resolves by DNS is not sent while no endpoint has the subset's labels"})
		return nil
	}
	o.sni = sni
	o.policy = subsetPolicy(o.policy, subset.GetTrafficPolicy(), o.port.Number)
	cb.applyPolicy(c, &o)
	c.setEDS()
	cb.addExchange(c)
	c.nameRule(rule, o.policy)
	c.istioMetadata()["subset"] = structpb.NewStringValue(subset.GetName())
	return c.finish()
}

// nameRule writes the DestinationRule into the metadata (SIZE-3).
func (c *cluster) nameRule(rule *scope.DestinationRule, policy *networking.TrafficPolicy) {
	if rule == nil || len(rule.From) == 0 {
		return
	}
	from := rule.From[0]
	c.istioMetadata()["config"] = structpb.NewStringValue("/apis/networking.istio.io/v1/namespaces/" + from.Namespace + "/destination-rule/" + from.Name)
	if mode := policy.GetTls().GetMode(); mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL {
		c.istioMetadata()["alpn_override"] = structpb.NewStringValue("false")
	}
}

// clusterResource measures a cluster. eds is the name under which it asks for
// endpoints where that is not its own.
func clusterResource(c *clusterv3.Cluster, host string, rule *scope.DestinationRule) (r result.Resource, eds string) {
	part := result.Part{Type: c.GetType().String()}
	if custom := c.GetClusterType(); custom != nil {
		part.Type = custom.GetName()
	}
	applied := appliedRule(c)
	part.Rule = &applied
	if applied != "" {
		part.By = ruleRef(rule)
	}
	r = result.Resource{Name: c.GetName(), Bytes: int64(proto.Size(c)), Service: host}
	if strings.Contains(strings.ToUpper(part.Type), "DNS") {
		n := endpointCount(c.GetLoadAssignment())
		part.Endpoints = &n
		r.Endpoints = n
	}
	r.Parts = []result.Part{part}
	if c.GetClusterType() == nil && c.GetType() == clusterv3.Cluster_EDS {
		if name := c.GetEdsClusterConfig().GetServiceName(); name != c.GetName() {
			eds = name
		}
	}
	return r, eds
}

// appliedRule is "ns/name" of the DestinationRule in the metadata; "": none.
func appliedRule(c *clusterv3.Cluster) string {
	path := c.GetMetadata().GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue()
	words := strings.Split(path, "/")
	if n := len(words); n >= 4 && words[n-2] == "destination-rule" {
		return words[n-3] + "/" + words[n-1]
	}
	return ""
}

func endpointCount(a *endpointv3.ClusterLoadAssignment) int {
	n := 0
	for _, l := range a.GetEndpoints() {
		n += len(l.GetLbEndpoints())
	}
	return n
}
