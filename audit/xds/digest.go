package xds

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// digests says whether contents are digested: only a comparison needs it. Off,
// every digest is 0.
type digests bool

var deterministic = proto.MarshalOptions{Deterministic: true}

// of digests a message.
func (on digests) of(m proto.Message) result.Digest {
	if !on {
		return 0
	}
	encoded, err := deterministic.Marshal(m)
	if err != nil {
		return 0
	}
	return sum(encoded)
}

// join digests what is made of several digests and texts.
func (on digests) join(parts []result.Digest, texts ...string) result.Digest {
	if !on {
		return 0
	}
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(p))
	}
	for _, t := range texts {
		b = strconv.AppendQuote(b, t)
	}
	return sum(b)
}

func sum(b []byte) result.Digest {
	s := sha256.Sum256(b)
	return result.Digest(max(1, binary.BigEndian.Uint64(s[:])))
}

// listener digests a listener without its chains.
func (on digests) listener(l *listenerv3.Listener) result.Digest {
	if !on {
		return 0
	}
	chains, last := l.FilterChains, l.DefaultFilterChain
	l.FilterChains, l.DefaultFilterChain = nil, nil
	defer func() { l.FilterChains, l.DefaultFilterChain = chains, last }()
	return on.of(l)
}

// chain digests a filter chain without the values that each proxy has of its
// own in tracing: proxies of one scope share the rest.
func (on digests) chain(fc *listenerv3.FilterChain) result.Digest {
	content, operations := on.chainContent(fc)
	return on.join([]result.Digest{content}, operations...)
}

// chainContent also leaves out the operations of inline routes, which name the
// workload's hosts, and returns them.
func (on digests) chainContent(fc *listenerv3.FilterChain) (content result.Digest, operations []string) {
	if !on {
		return 0, nil
	}
	original := fc.Filters
	defer func() { fc.Filters = original }()
	fc.Filters = slices.Clone(original)
	for i, f := range original {
		fc.Filters[i], operations = withoutOwnValues(f, operations)
	}
	return on.of(fc), operations
}

// withoutOwnValues is the filter without the tags and the service name that
// name the proxy's workload, and without the operations of its inline routes,
// which it appends; the same filter if it has none.
func withoutOwnValues(f *listenerv3.Filter, operations []string) (*listenerv3.Filter, []string) {
	m := &hcmv3.HttpConnectionManager{}
	if !f.GetTypedConfig().MessageIs(m) || f.GetTypedConfig().UnmarshalTo(m) != nil {
		return f, operations
	}
	if m.Tracing != nil {
		m.Tracing.CustomTags = slices.DeleteFunc(m.Tracing.CustomTags, func(tag *tracingv3.CustomTag) bool {
			return slices.Contains(serviceTags[:], tag.Tag) && tag.GetLiteral() != nil
		})
		withoutServiceName(m.Tracing.Provider)
	}
	for _, host := range m.GetRouteConfig().GetVirtualHosts() {
		for _, r := range host.Routes {
			if r.Decorator != nil {
				operations = append(operations, r.Decorator.Operation)
				r.Decorator = nil
			}
		}
	}
	value, err := deterministic.Marshal(m)
	if err != nil {
		return f, operations
	}
	config := &anypb.Any{TypeUrl: f.GetTypedConfig().TypeUrl, Value: value}
	return &listenerv3.Filter{Name: f.Name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: config}}, operations
}

// withoutServiceName clears the name by which a tracing provider knows the workload.
func withoutServiceName(provider *tracev3.Tracing_Http) {
	config := provider.GetTypedConfig()
	if config == nil {
		return
	}
	telemetry, datadog := &tracev3.OpenTelemetryConfig{}, &tracev3.DatadogConfig{}
	var m proto.Message
	switch {
	case config.MessageIs(telemetry) && config.UnmarshalTo(telemetry) == nil:
		telemetry.ServiceName, m = "", telemetry
	case config.MessageIs(datadog) && config.UnmarshalTo(datadog) == nil:
		datadog.ServiceName, m = "", datadog
	default:
		return
	}
	if value, err := deterministic.Marshal(m); err == nil {
		config.Value = value
	}
}

// routes digests each route apart, so that a virtual host has one digest
// however it is put together.
func (on digests) routes(routes []*routev3.Route) result.Digest {
	if !on {
		return 0
	}
	each := make([]result.Digest, len(routes))
	for i, r := range routes {
		each[i] = on.of(r)
	}
	return on.join(each)
}

// host digests a virtual host from its routes' digest and the rest.
func (on digests) host(name string, domains []string, routes result.Digest, rest *routev3.VirtualHost) result.Digest {
	if !on {
		return 0
	}
	return on.join([]result.Digest{routes, on.of(rest)}, append([]string{name}, domains...)...)
}

// virtualHost digests a whole virtual host.
func (on digests) virtualHost(vh *routev3.VirtualHost) result.Digest {
	if !on {
		return 0
	}
	name, domains, routes := vh.Name, vh.Domains, vh.Routes
	vh.Name, vh.Domains, vh.Routes = "", nil, nil
	defer func() { vh.Name, vh.Domains, vh.Routes = name, domains, routes }()
	return on.host(name, sortedSet(domains), on.routes(routes), vh)
}

// configuration digests a route configuration without its virtual hosts.
func (on digests) configuration(rc *routev3.RouteConfiguration) result.Digest {
	if !on {
		return 0
	}
	hosts := rc.VirtualHosts
	rc.VirtualHosts = nil
	defer func() { rc.VirtualHosts = hosts }()
	return on.of(rc)
}

// names digests a name table.
func (on digests) names(table map[string]*nameInfo) result.Digest {
	if !on {
		return 0
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(table)) {
		info := table[name]
		texts = append(append(texts, name, info.registry, info.shortName, info.namespace), info.addresses...)
	}
	return on.join(nil, texts...)
}
