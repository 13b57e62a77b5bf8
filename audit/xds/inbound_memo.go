package xds

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// inboundShape is virtualInbound as it was built for one workload. Those of
// other workloads with the same key differ in the lengths of their names only,
// so their bytes are told by adding up (SIZE-15, SIZE-18).
type inboundShape struct {
	bytes      int64
	tags       *tagged // of the workload that it was built for, without sites
	operations []int   // sizes of its ports' operation fields
	chains     []inboundChain
	discovered []string // extension configs that it refers to
	digest     result.Digest
}

// inboundChain is a filter chain: a part of the listener.
type inboundChain struct {
	part  result.Part // without origin
	port  int         // index of the port that it belongs to; -1: passthrough
	sites []inboundSite
	size  int
	// content is the chain's, without the hosts in its routes' operations.
	content    result.Digest
	operations []string
}

// inboundSite is a connection manager in a chain.
type inboundSite struct {
	tag       tagSite // sizes: tracing alone; nil: no tracing
	operation []int   // sizes around the route's operation, up to the route configuration
	outer     []int   // connection manager, its Any, the filter
}

// sharedVirtual is virtualInbound by the shape that workloads share; false if
// it may depend on more than the key tells: EnvoyFilters, Sidecar ingress and
// patterns for the names of statistics.
func (in *inboundBuilder) sharedVirtual() (*result.Resource, bool) {
	ingress := in.s.Sidecar != nil && len(in.s.Sidecar.Spec.GetIngress()) > 0
	if in.patches != nil || ingress || in.p.Metadata.Interception == "NONE" || in.view.Config.GetInboundClusterStatName() != "" {
		return nil, false
	}
	key := in.shapeKey()
	shape := in.inboundShapes[key]
	if shape == nil {
		shape = in.buildShape()
		if in.inboundShapes == nil {
			in.inboundShapes = map[string]*inboundShape{}
		}
		in.inboundShapes[key] = shape
	}
	return in.ofShape(shape), true
}

// shapeKey holds all that virtualInbound is made from but for the lengths of
// names: the values of the service tags, the tracing service's name and the
// hosts in the routes' operations.
func (in *inboundBuilder) shapeKey() string {
	var k strings.Builder
	field := func(values ...string) {
		for _, v := range values {
			k.WriteString(strconv.Quote(v))
		}
		k.WriteByte(';')
	}
	p, meta := in.p, &in.p.Metadata
	field(in.configText(p.Config), meta.Interception, meta.IdleTimeout, p.Version.String())
	field(meta.Raw["INBOUND_LISTENER_EXACT_BALANCE"], meta.Raw[metadataFileSocket],
		meta.Raw["TLS_SERVER_ROOT_CERT"], meta.Raw["TLS_SERVER_CERT_CHAIN"], meta.Raw["TLS_SERVER_KEY"])
	fmt.Fprint(&k, meta.HTTP10, p.IPv4, p.IPv6, in.mtls)
	for _, port := range in.ports {
		fmt.Fprint(&k, ";", port.target, " ", port.port.Number, " ", port.port.Protocol, " ", port.toPort)
	}
	for _, target := range p.Targets {
		fmt.Fprint(&k, ";", target.TargetPort)
	}
	for _, t := range in.telemetries(p) {
		fmt.Fprintf(&k, ";%p", t)
	}
	policies := in.authorizationPolicies(p, "")
	for _, action := range slices.Sorted(maps.Keys(policies)) {
		for _, policy := range policies[action] {
			field("authorization", policy.Namespace, policy.Name)
		}
	}
	for _, rule := range in.jwtRules(p) {
		fmt.Fprintf(&k, ";%p", rule)
	}
	for _, plugin := range in.wasmPlugins(p, "") {
		field("wasm", plugin.Namespace, plugin.Name)
	}
	return k.String()
}

// configText is what listeners read of a proxy config, serialised.
func (b *Builder) configText(c *meshconfig.ProxyConfig) string {
	if c == nil {
		return ""
	}
	text, ok := b.configTexts[c]
	if !ok {
		raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(&meshconfig.ProxyConfig{
			Tracing: c.GetTracing(), ProxyHeaders: c.GetProxyHeaders(), ConnectionSettings: c.GetConnectionSettings(),
		})
		text = string(raw)
		if b.configTexts == nil {
			b.configTexts = map[*meshconfig.ProxyConfig]string{}
		}
		b.configTexts[c] = text
	}
	return text
}

// buildShape builds and measures the proxy's virtualInbound.
func (in *inboundBuilder) buildShape() *inboundShape {
	l, origins, ports := in.virtual()
	shape := &inboundShape{
		bytes: int64(proto.Size(l)), tags: &tagged{own: ownSizesOf(in.p)}, operations: in.operations(), digest: in.digests.listener(l),
	}
	if spec := in.tracingSpec(in.telemetries(in.p), inboundClass); spec != nil {
		shape.tags.conventional = spec.provider.GetOpentelemetry().GetServiceAttributeEnrichment() ==
			meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS
	}
	parts, chains := listenerChains(l, origins)
	for i, fc := range chains {
		c := inboundChain{part: parts[i], port: -1, size: proto.Size(fc)}
		c.content, c.operations = in.digests.chainContent(fc)
		c.part.Fails = in.digests.chainFails(fc)
		if port, ok := ports[fc]; ok {
			c.port = port
		}
		for _, f := range fc.Filters {
			m := &hcmv3.HttpConnectionManager{}
			if f.GetTypedConfig().MessageIs(m) && f.GetTypedConfig().UnmarshalTo(m) == nil {
				c.sites = append(c.sites, siteOf(m, f))
			}
		}
		shape.chains = append(shape.chains, c)
	}
	if in.mayDiscover() {
		shape.discovered = discoveredConfigs(l)
	}
	return shape
}

func siteOf(m *hcmv3.HttpConnectionManager, f *listenerv3.Filter) inboundSite {
	site := inboundSite{outer: []int{proto.Size(m), proto.Size(f.GetTypedConfig()), proto.Size(f)}}
	if t := tracingSite(m); t != nil {
		site.tag = tagSite{sizes: []int{proto.Size(m.Tracing)}, provider: t.provider, tags: t.tags}
	}
	routes := m.GetRouteConfig()
	host := routes.GetVirtualHosts()[0]
	route := host.GetRoutes()[0]
	site.operation = []int{proto.Size(route.GetDecorator()), proto.Size(route), proto.Size(host), proto.Size(routes)}
	return site
}

// operations are the sizes of the fields that name a port's host.
func (in *inboundBuilder) operations() []int {
	sizes := make([]int, len(in.ports))
	for i, port := range in.ports {
		sizes[i] = fieldSize(len(port.operation()))
	}
	return sizes
}

// operationsOf are the operations of a chain's routes, of the proxy's own hosts.
func (in *inboundBuilder) operationsOf(c *inboundChain) []string {
	if c.port < 0 || len(c.operations) == 0 {
		return c.operations
	}
	return slices.Repeat([]string{in.ports[c.port].operation()}, len(c.operations))
}

// ofShape is the proxy's virtualInbound.
func (in *inboundBuilder) ofShape(shape *inboundShape) *result.Resource {
	r := &result.Resource{
		Name: virtualInboundName, Bytes: shape.bytes, Because: in.reasons(), Parts: make([]result.Part, len(shape.chains)), Digest: shape.digest,
	}
	tags, service := shape.tags.growth(ownSizesOf(in.p))
	operations := in.operations()
	for i := range shape.chains {
		c := &shape.chains[i]
		grown := 0
		if c.port >= 0 {
			grown = operations[c.port] - shape.operations[c.port]
		}
		d := 0
		for j := range c.sites {
			site := &c.sites[j]
			inner := nestedGrowth(site.tag.growth(tags, service), site.tag.sizes) + nestedGrowth(grown, site.operation)
			d += nestedGrowth(inner, site.outer)
		}
		part := &r.Parts[i]
		*part = c.part
		part.Bytes += int64(d)
		part.Digest = in.digests.join([]result.Digest{c.content}, in.operationsOf(c)...)
		if c.port >= 0 {
			origin := &in.ports[c.port].origin
			part.By, part.Service = origin.by, origin.service
		}
		r.Bytes += int64(nestedGrowth(d, []int{c.size}))
	}
	in.bind(r)
	if len(shape.discovered) > 0 {
		in.noteDiscovered(r, shape.discovered)
	}
	return r
}
