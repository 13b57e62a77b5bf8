package xds

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// noteExtensions keeps what extension configurations a listener refers to, for
// ExtensionConfigs. Nothing is looked at where nothing could be referred to.
func (b *Builder) noteExtensions(r *result.Resource, l *listenerv3.Listener) {
	if !b.mayDiscover() {
		return
	}
	if names := discoveredConfigs(l); len(names) > 0 {
		b.noteDiscovered(r, names)
	}
}

// mayDiscover reports that there is something that could be left to ECDS.
func (b *Builder) mayDiscover() bool {
	return len(b.view.EnvoyFilters) > 0 || b.view.Policies != nil && len(b.view.Policies.WasmPlugins) > 0
}

func (b *Builder) noteDiscovered(r *result.Resource, names []string) {
	if b.discovered == nil {
		b.discovered = map[*result.Resource][]string{}
	}
	b.discovered[r] = names
}

// discoveredConfigs are the names of the filters whose config a listener
// leaves to ECDS, sorted.
func discoveredConfigs(l *listenerv3.Listener) []string {
	var out []string
	for _, fc := range append(slices.Clip(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		for _, f := range fc.GetFilters() {
			if f.GetConfigDiscovery() != nil {
				out = append(out, f.GetName())
			}
			manager := &hcmv3.HttpConnectionManager{}
			if config := f.GetTypedConfig(); !config.MessageIs(manager) || config.UnmarshalTo(manager) != nil {
				continue
			}
			for _, h := range manager.GetHttpFilters() {
				if h.GetConfigDiscovery() != nil {
					out = append(out, h.GetName())
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ExtensionConfigs are the extension configurations that a proxy asks for,
// given its listeners: WasmPlugins and what EnvoyFilters add (SIZE-27; Istio
// pilot/pkg/networking/core/extension_config_builder.go), sorted by name.
func (b *Builder) ExtensionConfigs(p *mesh.Proxy, listeners []*result.Resource) []*result.Resource {
	if len(b.discovered) == 0 {
		return nil
	}
	var names []string
	for _, l := range listeners {
		names = append(names, b.discovered[l]...)
	}
	if len(names) == 0 {
		return nil
	}
	var out []*result.Resource
	add := func(config *corev3.TypedExtensionConfig, reason result.Reason) {
		out = append(out, &result.Resource{
			Name: config.GetName(), Bytes: int64(proto.Size(config)), Because: []result.ReasonID{b.rec.Included(reason)},
			Digest: b.digests.of(config),
		})
	}
	for _, patch := range b.patchesFor(p).of(networking.EnvoyFilter_EXTENSION_CONFIG) {
		config, ok := b.patchValue(patch).(*corev3.TypedExtensionConfig)
		if ok && patch.Operation == networking.EnvoyFilter_Patch_ADD && slices.Contains(names, config.GetName()) {
			add(config, result.Reason{Rule: "SIZE-27", Object: patch.Filter.Ref(), Field: patch.field(), Text: "an EnvoyFilter adds the extension's config"})
		}
	}
	for _, plugin := range b.wasmPlugins(p, "") {
		name := b.extensionName(plugin)
		if config := b.wasmConfig(p, plugin, name); config != nil && slices.Contains(names, name) {
			add(config, result.Reason{Rule: "SIZE-27", Object: plugin.Ref(), Text: "the WasmPlugin applies to the proxy"})
		}
	}
	slices.SortStableFunc(out, func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// wasmConfig is the config of a WasmPlugin (Istio pilot/pkg/model/extensions.go);
// nil if its URL cannot be read.
func (b *Builder) wasmConfig(p *mesh.Proxy, plugin *snapshot.Config[*extensions.WasmPlugin], name string) *corev3.TypedExtensionConfig {
	spec := plugin.Spec
	address, err := url.Parse(spec.GetUrl())
	if err != nil {
		return nil
	}
	if address.Scheme == "" {
		address.Scheme = "oci"
	}
	configuration := &anypb.Any{}
	if len(spec.GetPluginConfig().GetFields()) > 0 {
		text, err := json.Marshal(spec.GetPluginConfig().AsMap())
		if err != nil {
			return nil
		}
		configuration = toAny(wrapperspb.String(string(text)))
	}
	config := &wasmv3.PluginConfig{
		Name:          name[strings.LastIndexByte(name, '/')+1:],
		RootId:        spec.GetPluginName(),
		Configuration: configuration,
		Vm:            &wasmv3.PluginConfig_VmConfig{VmConfig: wasmVM(plugin, address)},
	}
	switch strategy := spec.GetFailStrategy(); {
	case !b.view.Behaviours.WasmFailurePolicyAll && !(b.view.Behaviours.WasmFailurePolicy && p.Version.AtLeast(1, 25, 0)):
		config.FailOpen = strategy == extensions.FailStrategy_FAIL_OPEN
	case strategy == extensions.FailStrategy_FAIL_OPEN:
		config.FailurePolicy = wasmv3.FailurePolicy_FAIL_OPEN
	case strategy == extensions.FailStrategy_FAIL_CLOSE:
		config.FailurePolicy = wasmv3.FailurePolicy_FAIL_CLOSED
	case strategy == extensions.FailStrategy_FAIL_RELOAD:
		config.FailurePolicy = wasmv3.FailurePolicy_FAIL_RELOAD
	}
	typed := toAny(&httpwasmv3.Wasm{Config: config})
	if spec.GetType() == extensions.PluginType_NETWORK {
		typed = toAny(&networkwasmv3.Wasm{Config: config})
	}
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: typed}
}

func wasmVM(plugin *snapshot.Config[*extensions.WasmPlugin], address *url.URL) *wasmv3.VmConfig {
	spec := plugin.Spec
	env := &wasmv3.EnvironmentVariables{KeyValues: map[string]string{"ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION": plugin.ResourceVersion}}
	if spec.GetImagePullSecret() != "" {
		env.KeyValues["ISTIO_META_WASM_IMAGE_PULL_SECRET"] = ""
	}
	if policy := spec.GetImagePullPolicy(); policy != extensions.PullPolicy_UNSPECIFIED_POLICY {
		env.KeyValues["ISTIO_META_WASM_IMAGE_PULL_POLICY"] = policy.String()
	}
	for _, e := range spec.GetVmConfig().GetEnv() {
		switch e.GetValueFrom() {
		case extensions.EnvValueSource_INLINE:
			env.KeyValues[e.GetName()] = e.GetValue()
		case extensions.EnvValueSource_HOST:
			env.HostEnvKeys = append(env.HostEnvKeys, e.GetName())
		}
	}
	return &wasmv3.VmConfig{Runtime: "envoy.wasm.runtime.v8", Code: wasmCode(address, spec), EnvironmentVariables: env}
}

func wasmCode(address *url.URL, spec *extensions.WasmPlugin) *corev3.AsyncDataSource {
	if address.Scheme == "file" {
		return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Local{Local: &corev3.DataSource{
			Specifier: &corev3.DataSource_Filename{Filename: strings.TrimPrefix(spec.GetUrl(), "file://")},
		}}}
	}
	return &corev3.AsyncDataSource{Specifier: &corev3.AsyncDataSource_Remote{Remote: &corev3.RemoteDataSource{
		HttpUri: &corev3.HttpUri{
			Uri: address.String(), Timeout: durationpb.New(30 * time.Second),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: "_"},
		},
		Sha256: spec.GetSha256(),
	}}}
}
