package xds

import (
	"cmp"
	"maps"
	"slices"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	tagsv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// tracingSpec is what Telemetry objects say of one side's tracing.
type tracingSpec struct {
	provider             *meshconfig.MeshConfig_ExtensionProvider // nil: not found
	disabled             bool
	sampling             *float64 // nil: the proxy config's
	tags                 map[string]*telemetry.Tracing_CustomTag
	requestID, istioTags bool
	noPropagation        bool
}

// tracing builds a connection manager's tracing (nil: off) and request id
// extension (SIZE-15; Istio pilot/pkg/networking/core/tracing.go).
func (b *Builder) tracing(p *mesh.Proxy, class listenerClass, applied []*telemetry.Telemetry) (*hcmv3.HttpConnectionManager_Tracing, *hcmv3.RequestIDExtension) {
	spec := b.tracingSpec(applied, class)
	set := p.Config.GetTracing()
	if spec == nil {
		if !b.view.Config.GetEnableTracing() {
			return nil, requestIDExtension(true)
		}
		t := &hcmv3.HttpConnectionManager_Tracing{}
		b.setSampling(t, b.proxySampling(set))
		istioTags := set.GetEnableIstioTags() == nil || set.GetEnableIstioTags().GetValue()
		setTags(t, p, istioTags, nil, set)
		if n := set.GetMaxPathTagLength(); n != 0 {
			t.MaxPathTagLength = wrapperspb.UInt32(n)
		}
		return t, requestIDExtension(true)
	}
	if spec.disabled || spec.provider == nil {
		return nil, requestIDExtension(true)
	}
	t, sampler, ok := b.providerTracing(p, spec.provider)
	if !ok {
		return nil, requestIDExtension(true)
	}
	sampling := b.proxySampling(set)
	switch {
	case sampler:
		sampling = 100
	case spec.sampling != nil:
		sampling = *spec.sampling
	}
	b.setSampling(t, sampling)
	setTags(t, p, spec.istioTags, spec.tags, set)
	if n := set.GetMaxPathTagLength(); t.MaxPathTagLength == nil && n != 0 {
		t.MaxPathTagLength = wrapperspb.UInt32(n)
	}
	t.NoContextPropagation = spec.noPropagation && p.Version.AtLeast(1, 30, 0)
	return t, requestIDExtension(spec.requestID)
}

// tracingSpec merges what applies for a class; nil: neither a Telemetry nor a
// default provider, so the mesh config's legacy tracing counts.
func (b *Builder) tracingSpec(applied []*telemetry.Telemetry, class listenerClass) *tracingSpec {
	var tracings []*telemetry.Tracing
	for _, t := range applied {
		tracings = append(tracings, t.GetTracing()...)
	}
	defaults := b.view.Config.GetDefaultProviders().GetTracing()
	if len(tracings) == 0 && len(defaults) == 0 {
		return nil
	}
	spec := &tracingSpec{requestID: true, istioTags: true}
	if len(defaults) > 0 {
		spec.provider = b.provider(defaults[0])
	}
	for _, t := range tracings {
		mode := t.GetMatch().GetMode()
		if mode != telemetry.WorkloadMode_CLIENT_AND_SERVER && mode != workloadMode(class) {
			continue
		}
		if names := providerNames(t.GetProviders()); len(names) > 0 {
			spec.provider = b.provider(names[0])
		}
		if t.DisableSpanReporting != nil {
			spec.disabled = t.GetDisableSpanReporting().GetValue()
		}
		if t.CustomTags != nil {
			spec.tags = t.GetCustomTags()
		}
		if t.RandomSamplingPercentage != nil {
			sampling := t.GetRandomSamplingPercentage().GetValue()
			spec.sampling = &sampling
		}
		if t.UseRequestIdForTraceSampling != nil {
			spec.requestID = t.GetUseRequestIdForTraceSampling().GetValue()
		}
		if t.EnableIstioTags != nil {
			spec.istioTags = t.GetEnableIstioTags().GetValue()
		}
		if t.DisableContextPropagation != nil {
			spec.noPropagation = t.GetDisableContextPropagation().GetValue()
		}
	}
	return spec
}

func (b *Builder) proxySampling(set *meshconfig.Tracing) float64 {
	if s := set.GetSampling(); s > 100 {
		return 1
	} else if s != 0 {
		return s
	}
	return b.view.Flags.TraceSampling
}

func (b *Builder) setSampling(t *hcmv3.HttpConnectionManager_Tracing, random float64) {
	t.ClientSampling = &typev3.Percent{Value: 100}
	t.OverallSampling = &typev3.Percent{Value: 100}
	t.RandomSampling = &typev3.Percent{Value: random}
}

func requestIDExtension(useForSampling bool) *hcmv3.RequestIDExtension {
	return &hcmv3.RequestIDExtension{TypedConfig: toAny(&uuidv3.UuidRequestIdConfig{
		UseRequestIdForTraceSampling: wrapperspb.Bool(useForSampling),
	})}
}

// serviceTags are the tags whose values are the proxy's own, in the order of
// serviceTagValues.
var serviceTags = [...]string{
	"istio.canonical_revision", "istio.canonical_service", "istio.mesh_id", "istio.namespace", "istio.cluster_id",
}

// serviceTagValues are the proxy's values of serviceTags.
func serviceTagValues(p *mesh.Proxy) [len(serviceTags)]string {
	return [...]string{
		cmp.Or(p.Labels.Get(canonicalRevisionLabel), "latest"),
		cmp.Or(p.Labels.Get(canonicalNameLabel), "unknown"),
		cmp.Or(p.MeshID, "unknown"),
		cmp.Or(p.Namespace, "default"),
		cmp.Or(p.Cluster, "unknown"),
	}
}

// dryRunTags tell what AuthorizationPolicies on trial would have done.
var dryRunTags = func() []*tagsv3.CustomTag {
	var tags []*tagsv3.CustomTag
	for _, t := range [][2]string{
		{"istio.authorization.dry_run.allow_policy.name", shadowAllowPrefix + shadowPolicyID},
		{"istio.authorization.dry_run.allow_policy.result", shadowAllowPrefix + shadowResult},
		{"istio.authorization.dry_run.deny_policy.name", shadowDenyPrefix + shadowPolicyID},
		{"istio.authorization.dry_run.deny_policy.result", shadowDenyPrefix + shadowResult},
	} {
		tags = append(tags, &tagsv3.CustomTag{Tag: t[0], Type: &tagsv3.CustomTag_Metadata_{Metadata: &tagsv3.CustomTag_Metadata{
			Kind: &metadatav3.MetadataKind{Kind: &metadatav3.MetadataKind_Request_{Request: &metadatav3.MetadataKind_Request{}}},
			MetadataKey: &metadatav3.MetadataKey{
				Key:  httpRBACName,
				Path: []*metadatav3.MetadataKey_PathSegment{{Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: t[1]}}},
			},
		}}})
	}
	return tags
}()

// setTags sets the custom tags: Istio's own, then the Telemetry's if it has
// any, else the proxy config's.
func setTags(t *hcmv3.HttpConnectionManager_Tracing, p *mesh.Proxy, istioTags bool, custom map[string]*telemetry.Tracing_CustomTag, set *meshconfig.Tracing) {
	var tags []*tagsv3.CustomTag
	if istioTags {
		for i, value := range serviceTagValues(p) {
			tags = append(tags, literalTag(serviceTags[i], value))
		}
		tags = append(tags, dryRunTags...)
	}
	if len(custom) > 0 {
		for _, name := range slices.Sorted(maps.Keys(custom)) {
			if tag := telemetryTag(name, custom[name], p.Version.AtLeast(1, 29, 0)); tag != nil {
				tags = append(tags, tag)
			}
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(set.GetCustomTags())) {
			if tag := proxyConfigTag(name, set.GetCustomTags()[name]); tag != nil {
				tags = append(tags, tag)
			}
		}
	}
	slices.SortStableFunc(tags, func(x, y *tagsv3.CustomTag) int { return cmp.Compare(x.Tag, y.Tag) })
	t.CustomTags = tags
}

func literalTag(name, value string) *tagsv3.CustomTag {
	return &tagsv3.CustomTag{Tag: name, Type: &tagsv3.CustomTag_Literal_{Literal: &tagsv3.CustomTag_Literal{Value: value}}}
}

func environmentTag(name, variable, value string) *tagsv3.CustomTag {
	return &tagsv3.CustomTag{Tag: name, Type: &tagsv3.CustomTag_Environment_{
		Environment: &tagsv3.CustomTag_Environment{Name: variable, DefaultValue: value},
	}}
}

func headerTag(name, header, value string) *tagsv3.CustomTag {
	return &tagsv3.CustomTag{Tag: name, Type: &tagsv3.CustomTag_RequestHeader{
		RequestHeader: &tagsv3.CustomTag_Header{Name: header, DefaultValue: value},
	}}
}

func telemetryTag(name string, tag *telemetry.Tracing_CustomTag, formatters bool) *tagsv3.CustomTag {
	if tag == nil {
		return nil
	}
	switch t := tag.GetType().(type) {
	case *telemetry.Tracing_CustomTag_Environment:
		return environmentTag(name, t.Environment.GetName(), t.Environment.GetDefaultValue())
	case *telemetry.Tracing_CustomTag_Header:
		return headerTag(name, t.Header.GetName(), t.Header.GetDefaultValue())
	case *telemetry.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	case *telemetry.Tracing_CustomTag_Formatter:
		if !formatters {
			return nil
		}
		return &tagsv3.CustomTag{Tag: name, Type: &tagsv3.CustomTag_Value{Value: t.Formatter.GetValue()}}
	}
	return &tagsv3.CustomTag{Tag: name}
}

func proxyConfigTag(name string, tag *meshconfig.Tracing_CustomTag) *tagsv3.CustomTag {
	switch t := tag.GetType().(type) {
	case *meshconfig.Tracing_CustomTag_Environment:
		return environmentTag(name, t.Environment.GetName(), t.Environment.GetDefaultValue())
	case *meshconfig.Tracing_CustomTag_Header:
		return headerTag(name, t.Header.GetName(), t.Header.GetDefaultValue())
	case *meshconfig.Tracing_CustomTag_Literal:
		return literalTag(name, t.Literal.GetValue())
	}
	return nil
}
