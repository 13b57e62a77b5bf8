package xds

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// tagSite is one connection manager of a listener, whose tracing carries the
// proxy's own values: the sizes of the messages around them let the listener's
// bytes be told for other values without building it again (SIZE-15).
type tagSite struct {
	// sizes of the messages that enclose the tags, innermost first: tracing,
	// connection manager, its Any, the filter, the chain.
	sizes []int
	// provider are the sizes around the tracing provider's service name, up to
	// the provider; nil: it has none.
	provider []int
	tags     bool // whether the tags are there
}

// tagged is a listener's bytes with what they depend on; shared between scopes
// and never changed.
type tagged struct {
	bytes int64
	own   ownSizes // of the proxy that it was measured for
	sites []tagSite
	// conventional says that the tracing provider names proxies by
	// OpenTelemetry's conventions.
	conventional bool
}

// ownSizes are the sizes of the fields that carry a proxy's own values.
type ownSizes struct {
	tags                int // the custom tags in tracing
	named, conventional int // the tracing provider's service name, in either way
}

func ownSizesOf(p *mesh.Proxy) ownSizes {
	own := ownSizes{named: fieldSize(len(p.ServiceCluster())), conventional: fieldSize(len(p.OpenTelemetryName()))}
	for i, value := range serviceTagValues(p) {
		own.tags += tagFieldSize(serviceTags[i], value)
	}
	return own
}

// bytesFor is the listener's bytes with a proxy's own values.
func (t *tagged) bytesFor(own ownSizes) int64 {
	bytes := t.bytes
	tags, service := t.growth(own)
	if tags == 0 && service == 0 {
		return bytes
	}
	for i := range t.sites {
		bytes += int64(nestedGrowth(t.sites[i].growth(tags, service), t.sites[i].sizes))
	}
	return bytes
}

// growth is how much the tags' fields and the service name's grow.
func (t *tagged) growth(own ownSizes) (tags, service int) {
	service = own.named - t.own.named
	if t.conventional {
		service = own.conventional - t.own.conventional
	}
	return own.tags - t.own.tags, service
}

// listenerShape is what a scope's listeners were built with.
type listenerShape struct {
	b     *Builder
	s     *scope.Scope
	built *mesh.Proxy
	// key holds what the listeners depend on beside tags, of built.
	key string
	// others are the listeners by name of proxies with other keys.
	others map[string]map[string]*Listener
	last   struct {
		proxy *mesh.Proxy
		key   sizingKey
	}
}

// BytesFor is the listener's bytes for a proxy of the scope.
func (l *Listener) BytesFor(p *mesh.Proxy) int64 {
	if l.shape == nil || p == l.shape.built {
		return l.Bytes
	}
	of := l.shape.listener(l, p)
	if of == nil {
		return l.Bytes
	}
	return of.tags.bytesFor(l.shape.sizingKey(p).own)
}

// sizingKey is what the listeners' bytes for p depend on.
func (s *listenerShape) sizingKey(p *mesh.Proxy) sizingKey {
	if s.last.proxy != p {
		s.last.proxy, s.last.key = p, sizingKey{s.b.listenerKeyOf(s.s, p), ownSizesOf(p)}
	}
	return s.last.key
}

// listener is l as proxies like p get it; nil: they do not.
func (s *listenerShape) listener(l *Listener, p *mesh.Proxy) *Listener {
	key := s.sizingKey(p).shape
	if key == s.key {
		return l
	}
	if s.others[key] == nil {
		byName := map[string]*Listener{}
		for _, other := range s.b.OutboundListeners(s.s, p) {
			byName[other.Name] = other
		}
		if s.others == nil {
			s.others = map[string]map[string]*Listener{}
		}
		s.others[key] = byName
	}
	return s.others[key][l.Name]
}

// listenerKeyOf tells apart the proxies of a scope whose outbound listeners
// differ in more than tags.
func (b *Builder) listenerKeyOf(s *scope.Scope, p *mesh.Proxy) string {
	var k strings.Builder
	field := func(values ...string) {
		for _, v := range values {
			k.WriteString(strconv.Quote(v))
		}
	}
	text := func(m proto.Message) {
		value, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		field(string(value))
	}
	text(p.Config.GetTracing())
	text(p.Config.GetProxyHeaders())
	text(p.Config.GetConnectionSettings())
	meta := &p.Metadata
	field(meta.Interception, meta.HTTPProxyPort, meta.IdleTimeout, meta.Raw["OUTBOUND_LISTENER_EXACT_BALANCE"],
		strconv.FormatBool(meta.HTTP10), strconv.FormatBool(meta.DNSCapture), meta.Raw["DNS_PROXY_ADDR"],
		strconv.FormatBool(p.IPv4), strconv.FormatBool(p.IPv6), p.Version.String(), p.Cluster)
	for _, port := range ownPorts(p) {
		field(strconv.Itoa(port))
	}
	for _, t := range b.telemetries(p) {
		text(t)
	}
	if patches := b.patchesFor(p); patches != nil {
		for _, kind := range slices.Sorted(maps.Keys(patches.byApplyTo)) {
			for _, patch := range patches.of(kind) {
				field(patch.Filter.Namespace, patch.Filter.Name, strconv.Itoa(patch.Index))
			}
		}
	}
	for _, plugin := range b.wasmPlugins(p) {
		field(b.extensionName(plugin))
	}
	for _, svc := range s.Services {
		if !b.dynamicWildcard(svc.Service) {
			continue
		}
		policies := b.authorizationPolicies(p, svc.Namespace)
		for _, action := range slices.Sorted(maps.Keys(policies)) {
			for _, policy := range policies[action] {
				field(policy.Namespace, policy.Name)
			}
		}
	}
	return k.String()
}

// growth is how much the tracing message of a site grows when the tags' fields
// grow by tags and the provider's service name by service.
func (s *tagSite) growth(tags, service int) int {
	d := 0
	if s.tags {
		d = tags
	}
	if s.provider != nil {
		d += nestedGrowth(service, s.provider)
	}
	return d
}

// nestedGrowth is how much the outermost message grows when the innermost of
// the enclosing messages grows by d: each length before a message may need
// more or fewer bytes.
func nestedGrowth(d int, sizes []int) int {
	for _, size := range sizes {
		d += protowire.SizeVarint(uint64(size+d)) - protowire.SizeVarint(uint64(size))
	}
	return d
}

// fieldSize is the size of a field of a length, with a tag of one byte; 0 for
// an empty one.
func fieldSize(length int) int {
	if length == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(length)
}

// tagFieldSize is the size of a literal custom tag in its tracing message.
func tagFieldSize(name, value string) int {
	literal := fieldSize(len(value))
	return 1 + protowire.SizeBytes(fieldSize(len(name))+1+protowire.SizeBytes(literal))
}

// tagSites finds the connection managers with tracing in a listener.
func tagSites(l *listenerv3.Listener) []tagSite {
	var sites []tagSite
	chains := l.FilterChains
	if l.DefaultFilterChain != nil {
		chains = append(append([]*listenerv3.FilterChain(nil), chains...), l.DefaultFilterChain)
	}
	for _, fc := range chains {
		for _, f := range fc.Filters {
			m := &hcmv3.HttpConnectionManager{}
			if !f.GetTypedConfig().MessageIs(m) || f.GetTypedConfig().UnmarshalTo(m) != nil {
				continue
			}
			if site := tracingSite(m); site != nil {
				site.sizes = []int{
					proto.Size(m.Tracing), proto.Size(m), proto.Size(f.GetTypedConfig()), proto.Size(f), proto.Size(fc),
				}
				sites = append(sites, *site)
			}
		}
	}
	return sites
}

// tracingSite says what in a connection manager's tracing depends on the proxy,
// without sizes; nil: nothing.
func tracingSite(m *hcmv3.HttpConnectionManager) *tagSite {
	if m.Tracing == nil {
		return nil
	}
	site := &tagSite{provider: providerSizes(m.Tracing.Provider)}
	for _, tag := range m.Tracing.CustomTags {
		site.tags = site.tags || tag.Tag == serviceTags[0] && tag.GetLiteral() != nil
	}
	if !site.tags && site.provider == nil {
		return nil
	}
	return site
}

// providerSizes are the sizes of the messages around a tracing provider's
// service name; nil: it has none.
func providerSizes(provider *tracev3.Tracing_Http) []int {
	config := provider.GetTypedConfig()
	if config == nil {
		return nil
	}
	switch {
	case config.MessageIs(&tracev3.OpenTelemetryConfig{}), config.MessageIs(&tracev3.DatadogConfig{}):
		return []int{len(config.Value), proto.Size(config), proto.Size(provider)}
	}
	return nil
}
