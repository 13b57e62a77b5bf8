package complete

import (
	"reflect"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/apimachinery/pkg/runtime"
)

// specMessage is the spec of one of Istio's kinds; nil for other objects.
func specMessage(obj runtime.Object) proto.Message {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	spec := v.Elem().FieldByName("Spec")
	if !spec.IsValid() || !spec.CanAddr() {
		return nil
	}
	m, _ := spec.Addr().Interface().(proto.Message)
	return m
}

// keepRequired writes the fields that Istio's CRDs require and that are empty
// in m into its JSON form, which leaves out what is empty.
func keepRequired(m protoreflect.Message, fields map[string]any) {
	for i := range m.Descriptor().Fields().Len() {
		fd := m.Descriptor().Fields().Get(i)
		if !m.Has(fd) {
			if required(fd) {
				fields[fd.JSONName()] = emptyValue(fd)
			}
			continue
		}
		value := fields[fd.JSONName()]
		switch {
		case fd.IsMap():
			entries, _ := value.(map[string]any)
			m.Get(fd).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if child, ok := entries[k.String()].(map[string]any); ok && fd.MapValue().Message() != nil {
					keepRequired(v.Message(), child)
				}
				return true
			})
		case fd.Message() == nil:
		case fd.IsList():
			items, _ := value.([]any)
			for j := range min(len(items), m.Get(fd).List().Len()) {
				if child, ok := items[j].(map[string]any); ok {
					keepRequired(m.Get(fd).List().Get(j).Message(), child)
				}
			}
		default:
			if child, ok := value.(map[string]any); ok {
				keepRequired(m.Get(fd).Message(), child)
			}
		}
	}
}

func required(fd protoreflect.FieldDescriptor) bool {
	behaviour, _ := proto.GetExtension(fd.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	for _, b := range behaviour {
		if b == annotations.FieldBehavior_REQUIRED {
			return true
		}
	}
	return false
}

// emptyValue is what an empty field is written as.
func emptyValue(fd protoreflect.FieldDescriptor) any {
	switch {
	case fd.IsList():
		return []any{}
	case fd.IsMap() || fd.Message() != nil:
		return map[string]any{}
	case fd.Kind() == protoreflect.EnumKind:
		return string(fd.DefaultEnumValue().Name())
	case fd.Kind() == protoreflect.StringKind:
		return ""
	case fd.Kind() == protoreflect.BoolKind:
		return false
	}
	return 0
}
