package xds

import (
	"math"
	"net/url"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// extensionPhase is where in a chain a WasmPlugin goes.
type extensionPhase = extensions.PluginPhase

// The phases.
const (
	phaseUnspecified = extensions.PluginPhase_UNSPECIFIED_PHASE
	phaseAuthn       = extensions.PluginPhase_AUTHN
	phaseAuthz       = extensions.PluginPhase_AUTHZ
	phaseStats       = extensions.PluginPhase_STATS
)

// chainExtensions are the WasmPlugins of one listener, by priority.
type chainExtensions struct {
	plugins []*snapshot.Config[*extensions.WasmPlugin]
	b       *Builder
}

// extensionsFor are the WasmPlugins that match a listener of the proxy (Istio
// pilot/pkg/model/push_context.go TrafficExtensionsByListenerInfo). also is as
// in authorizationPolicies.
func (b *Builder) extensionsFor(p *mesh.Proxy, class listenerClass, port int, network bool, also string) chainExtensions {
	out := chainExtensions{b: b}
	for _, plugin := range b.wasmPlugins(p, also) {
		if (plugin.Spec.GetType() == extensions.PluginType_NETWORK) == network && pluginMatches(plugin.Spec, class, port) {
			out.plugins = append(out.plugins, plugin)
		}
	}
	return out
}

// wasmPlugins are those that apply to a proxy, its namespace's first, each in
// istiod's order, then by priority.
func (b *Builder) wasmPlugins(p *mesh.Proxy, also ...string) []*snapshot.Config[*extensions.WasmPlugin] {
	if b.view.Policies == nil || len(b.view.Policies.WasmPlugins) == 0 {
		return nil
	}
	var out []*snapshot.Config[*extensions.WasmPlugin]
	for _, namespace := range lookedInto(append([]string{p.Namespace, b.view.RootNamespace}, also...)...) {
		for _, plugin := range b.view.Policies.WasmPlugins {
			if plugin.Namespace != namespace || plugin.Spec.GetUrl() == "" || !policyAttaches(p, namespace, plugin.Spec) {
				continue
			}
			if _, err := url.Parse(plugin.Spec.GetUrl()); err == nil {
				out = append(out, plugin)
			}
		}
	}
	priority := func(c *snapshot.Config[*extensions.WasmPlugin]) int64 {
		if c.Spec.GetPriority() == nil {
			return math.MinInt32
		}
		return int64(c.Spec.GetPriority().GetValue())
	}
	slices.SortStableFunc(out, func(x, y *snapshot.Config[*extensions.WasmPlugin]) int {
		return int(priority(y) - priority(x))
	})
	return out
}

func pluginMatches(spec *extensions.WasmPlugin, class listenerClass, port int) bool {
	if len(spec.GetMatch()) == 0 {
		return true
	}
	side := typev1beta1.WorkloadMode_CLIENT
	if class == inboundClass {
		side = typev1beta1.WorkloadMode_SERVER
	}
	return slices.ContainsFunc(spec.GetMatch(), func(m *extensions.WasmPlugin_TrafficSelector) bool {
		mode := m.GetMode()
		if mode != typev1beta1.WorkloadMode_CLIENT_AND_SERVER && mode != typev1beta1.WorkloadMode_UNDEFINED && mode != side {
			return false
		}
		return len(m.GetPorts()) == 0 || slices.ContainsFunc(m.GetPorts(), func(s *typev1beta1.PortSelector) bool {
			return s.GetNumber() != 0 && int(s.GetNumber()) == port
		})
	})
}

// extensionName is the ECDS resource of a WasmPlugin (SIZE-ECDS-1).
func (b *Builder) extensionName(plugin *snapshot.Config[*extensions.WasmPlugin]) string {
	name := plugin.Namespace + "." + plugin.Name
	switch v := b.view.Version; {
	case !v.AtLeast(1, 26, 0):
		return "extenstions.istio.io/wasmplugin/" + name
	case !v.AtLeast(1, 30, 0):
		return "extensions.istio.io/wasmplugin/" + name
	}
	return "extensions.istio.io/trafficextension/" + name + "~istio-translated-wasmplugin"
}

func (e chainExtensions) source(types ...string) *corev3.ExtensionConfigSource {
	source := &corev3.ExtensionConfigSource{ConfigSource: adsSource(true)}
	for _, t := range types {
		source.TypeUrls = append(source.TypeUrls, "type.googleapis.com/"+t)
	}
	return source
}

// http are the HTTP filters of a phase.
func (e chainExtensions) http(phase extensionPhase) []*hcmv3.HttpFilter {
	var out []*hcmv3.HttpFilter
	for _, plugin := range e.plugins {
		if plugin.Spec.GetPhase() == phase {
			out = append(out, &hcmv3.HttpFilter{
				Name: e.b.extensionName(plugin),
				ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{
					ConfigDiscovery: e.source("envoy.extensions.filters.http.wasm.v3.Wasm", "envoy.extensions.filters.http.rbac.v3.RBAC"),
				},
			})
		}
	}
	return out
}

// network are the network filters of a phase.
func (e chainExtensions) network(phase extensionPhase) []*listenerv3.Filter {
	var out []*listenerv3.Filter
	for _, plugin := range e.plugins {
		if plugin.Spec.GetPhase() == phase {
			out = append(out, &listenerv3.Filter{
				Name: e.b.extensionName(plugin),
				ConfigType: &listenerv3.Filter_ConfigDiscovery{
					ConfigDiscovery: e.source("envoy.extensions.filters.network.wasm.v3.Wasm", "envoy.extensions.filters.network.rbac.v3.RBAC"),
				},
			})
		}
	}
	return out
}
