package xds

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// patchValue is the Envoy object that a patch holds, decoded once; nil for a
// patch without one, or one that istiod cannot decode and so ignores. It must
// not be changed: clone or merge it.
func (b *Builder) patchValue(p *envoyPatch) proto.Message {
	if known, ok := b.patchValues[p]; ok {
		return known
	}
	value := b.decodePatch(p)
	if b.patchValues == nil {
		b.patchValues = map[*envoyPatch]proto.Message{}
	}
	b.patchValues[p] = value
	return value
}

func (b *Builder) decodePatch(p *envoyPatch) proto.Message {
	out := patchTarget(p.ApplyTo)
	if out == nil || p.Patch.GetValue() == nil {
		return nil
	}
	value := proto.CloneOf(p.Patch.GetValue())
	if types := replaceUnknown(value); len(types) > 0 {
		b.gaps = append(b.gaps, result.Gap{
			Kind: result.Unmodelled, Object: p.Filter.Ref(), All: true,
			Text: p.field() + ": bytes of " + types[0] + " are not counted: the type is not known here",
		})
	}
	text, err := protojson.Marshal(value)
	if err != nil {
		return nil
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, out); err != nil {
		b.gaps = append(b.gaps, result.Gap{
			Kind: result.Unmodelled, Object: p.Filter.Ref(), All: true,
			Text: p.field() + ": the value is no " + string(out.ProtoReflect().Descriptor().FullName()) + "; taken as ignored",
		})
		return nil
	}
	return out
}

// patchTarget is an empty object of the kind that patches apply to; nil for a
// kind that is not sent by istiod's generators.
func patchTarget(kind networking.EnvoyFilter_ApplyTo) proto.Message {
	switch kind {
	case networking.EnvoyFilter_CLUSTER:
		return &clusterv3.Cluster{}
	case networking.EnvoyFilter_LISTENER:
		return &listenerv3.Listener{}
	case networking.EnvoyFilter_FILTER_CHAIN:
		return &listenerv3.FilterChain{}
	case networking.EnvoyFilter_LISTENER_FILTER:
		return &listenerv3.ListenerFilter{}
	case networking.EnvoyFilter_NETWORK_FILTER:
		return &listenerv3.Filter{}
	case networking.EnvoyFilter_HTTP_FILTER:
		return &hcmv3.HttpFilter{}
	case networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return &routev3.RouteConfiguration{}
	case networking.EnvoyFilter_VIRTUAL_HOST:
		return &routev3.VirtualHost{}
	case networking.EnvoyFilter_HTTP_ROUTE:
		return &routev3.Route{}
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return &corev3.TypedExtensionConfig{}
	}
	return nil
}

// replaceUnknown empties each Any of a type that is not linked in, so that the
// rest decodes, and returns those types.
func replaceUnknown(s *structpb.Struct) []string {
	var types []string
	if url := s.GetFields()["@type"].GetStringValue(); url != "" {
		if _, err := protoregistry.GlobalTypes.FindMessageByURL(url); err != nil {
			types = append(types, url)
			s.Fields = map[string]*structpb.Value{"@type": structpb.NewStringValue("type.googleapis.com/google.protobuf.Struct"),
				"value": structpb.NewStructValue(&structpb.Struct{})}
			return types
		}
	}
	for _, key := range sortedKeys(s.GetFields()) {
		types = append(types, replaceUnknownIn(s.Fields[key])...)
	}
	return types
}

func replaceUnknownIn(v *structpb.Value) []string {
	if s := v.GetStructValue(); s != nil {
		return replaceUnknown(s)
	}
	var types []string
	for _, item := range v.GetListValue().GetValues() {
		types = append(types, replaceUnknownIn(item)...)
	}
	return types
}

// merges reports the operations that merge the value.
func (p *envoyPatch) merges() bool {
	return p.Operation == networking.EnvoyFilter_Patch_MERGE || p.Operation == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
}

// mergePatch merges a patch's value into an object as istiod does: as protobuf
// merges, but durations replace, and lists too with MERGE_AND_REPLACE_LIST
// (Istio pkg/proto/merge).
func (b *Builder) mergePatch(into proto.Message, p *envoyPatch) {
	value := b.patchValue(p)
	if value == nil || value.ProtoReflect().Descriptor() != into.ProtoReflect().Descriptor() {
		return
	}
	clearReplaced(into.ProtoReflect(), value.ProtoReflect(), p.Operation == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST)
	proto.Merge(into, value)
}

const durationName = protoreflect.FullName("google.protobuf.Duration")

// clearReplaced clears in dst what src replaces and would otherwise merge with.
func clearReplaced(dst, src protoreflect.Message, lists bool) {
	src.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case !dst.Has(field) || field.IsMap():
		case field.IsList():
			if lists {
				dst.Clear(field)
			}
		case field.Message() != nil && field.Message().FullName() == durationName:
			dst.Clear(field)
		case field.Message() != nil:
			clearReplaced(dst.Mutable(field).Message(), v.Message(), lists)
		}
		return true
	})
}

// insertAt is s with v before position i.
func insertAt[E any](s []E, i int, v E) []E { return slices.Insert(slices.Clone(s), i, v) }
