package complete

import (
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// writeNumbers turns the 64-bit numbers of a message's JSON, which protocol
// buffers write as text, into the numbers that the API server takes.
func writeNumbers(m protoreflect.MessageDescriptor, value any) {
	fields, ok := value.(map[string]any)
	if !ok {
		return
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		v, ok := fields[f.JSONName()]
		if !ok {
			continue
		}
		if f.IsMap() {
			for key, each := range asMap(v) {
				asMap(v)[key] = numberOf(f.MapValue(), each)
			}
			continue
		}
		if list, ok := v.([]any); ok && f.IsList() {
			for j := range list {
				list[j] = numberOf(f, list[j])
			}
			continue
		}
		fields[f.JSONName()] = numberOf(f, v)
	}
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func numberOf(f protoreflect.FieldDescriptor, v any) any {
	whole := false
	switch f.Kind() {
	case protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.Sint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		whole = true
	case protoreflect.MessageKind:
		name := f.Message().FullName()
		whole = name == "google.protobuf.Int64Value" || name == "google.protobuf.UInt64Value"
		if !whole {
			writeNumbers(f.Message(), v)
		}
	}
	if text, ok := v.(string); ok && whole {
		return json.Number(text)
	}
	return v
}
