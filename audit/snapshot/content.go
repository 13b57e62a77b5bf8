package snapshot

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// contentOf is a configuration as a comparison of fields needs it: like its
// JSON, but an enum that has its zero value is named where that is a choice.
// (DISABLE is the zero of a DestinationRule's TLS mode.)
func contentOf(meta *Meta, spec proto.Message) (json.RawMessage, error) {
	return json.Marshal(struct {
		Labels, Annotations map[string]string `json:",omitempty"`
		Spec                any
	}{meta.Labels, meta.Annotations, messageContent(spec.ProtoReflect())})
}

func messageContent(m protoreflect.Message) any {
	if strings.HasPrefix(string(m.Descriptor().FullName()), "google.protobuf.") {
		text, err := protojson.Marshal(m.Interface())
		if err != nil {
			return nil
		}
		return json.RawMessage(text)
	}
	out := map[string]any{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case m.Has(f):
			out[f.JSONName()] = fieldContent(f, m.Get(f))
		case f.Enum() != nil && !f.HasPresence() && f.Cardinality() != protoreflect.Repeated:
			if zero := f.Enum().Values().ByNumber(0); zero != nil && isChoice(string(zero.Name())) {
				out[f.JSONName()] = string(zero.Name())
			}
		}
	}
	return out
}

func fieldContent(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsMap():
		out := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out[k.String()] = valueContent(f.MapValue(), v)
			return true
		})
		return out
	case f.IsList():
		out := make([]any, v.List().Len())
		for i := range out {
			out[i] = valueContent(f, v.List().Get(i))
		}
		return out
	}
	return valueContent(f, v)
}

func valueContent(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageContent(v.Message())
	case protoreflect.EnumKind:
		if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
			return string(known.Name())
		}
		return int32(v.Enum())
	}
	return v.Interface()
}

// isChoice reports whether an enum's zero says more than that nothing is set.
func isChoice(name string) bool {
	for _, word := range []string{"UNSET", "UNSPECIFIED", "UNDEFINED", "DEFAULT", "UNKNOWN"} {
		if strings.Contains(name, word) {
			return false
		}
	}
	return true
}
