package mesh

import (
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/validation"
)

// yamlObject reads a text that holds one object; an empty text holds an empty
// one.
func yamlObject(text string) (raw map[string]any, refused []validation.Problem) {
	raw = map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil, []validation.Problem{{Text: "not an object of YAML: " + strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: ")}}
	}
	return raw, nil
}

// applyObject sets the fields that raw names on msg. A field that is named is
// replaced as a whole, null leaves it alone (Istio pkg/util/protomarshal
// ApplyYAML). The paths of fields that the message does not have are returned
// sorted, each after at, and otherwise left out, as istiod leaves them out. If a
// value is refused, msg stays as it was.
func applyObject(raw map[string]any, msg proto.Message, at string) (unknown []string, refused []validation.Problem) {
	target := msg.ProtoReflect()
	known, unknown := knownFields(target.Descriptor(), raw, at)
	sort.Strings(unknown)
	parsed := target.New()
	if !reads(known, parsed) {
		return unknown, unreadable(target.New(), known, at)
	}
	for key, value := range known {
		field := fieldByName(target.Descriptor(), key)
		if value == nil || field == nil {
			continue
		}
		if oneof := field.ContainingOneof(); oneof != nil && !parsed.Has(field) {
			continue
		}
		if parsed.Has(field) {
			target.Set(field, parsed.Get(field))
		} else {
			target.Clear(field)
		}
	}
	return unknown, nil
}

// reads sets the fields on an empty message, and reports whether it has them all.
func reads(fields map[string]any, into protoreflect.Message) bool {
	text, err := json.Marshal(fields)
	return err == nil && protojson.Unmarshal(text, into.Interface()) == nil
}

// unreadable names the innermost fields that an empty message does not take.
func unreadable(empty protoreflect.Message, fields map[string]any, at string) (out []validation.Problem) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		value, field := fields[key], fieldByName(empty.Descriptor(), key)
		if reads(map[string]any{key: value}, empty.New()) {
			continue
		}
		var inner []validation.Problem
		items, isList := value.([]any)
		object, isObject := value.(map[string]any)
		switch {
		case field.IsMap() && isObject:
			for _, name := range slices.Sorted(maps.Keys(object)) {
				if !reads(map[string]any{key: map[string]any{name: object[name]}}, empty.New()) {
					inner = append(inner, validation.Problem{Field: at + key + "." + name, Text: "is not of its type"})
				}
			}
		case field.Message() == nil || field.IsMap():
		case field.IsList() && isList:
			for i, item := range items {
				if element, isObject := item.(map[string]any); isObject {
					inner = append(inner, unreadable(empty.NewField(field).List().NewElement().Message(), element, at+key+"["+strconv.Itoa(i)+"].")...)
				}
			}
		case !field.IsList() && isObject:
			inner = unreadable(empty.NewField(field).Message(), object, at+key+".")
		}
		if len(inner) == 0 {
			inner = []validation.Problem{{Field: at + key, Text: misfit(field, value)}}
		}
		out = append(out, inner...)
	}
	return out
}

// misfit says what a field takes instead of a value.
func misfit(field protoreflect.FieldDescriptor, value any) string {
	text := jsonText(value)
	if field.Enum() == nil || field.IsList() {
		return text + " is not of its type"
	}
	names := make([]string, field.Enum().Values().Len())
	for i := range names {
		names[i] = string(field.Enum().Values().Get(i).Name())
	}
	return text + " is none of " + strings.Join(names, ", ")
}

// jsonText is a value of YAML as JSON.
func jsonText(value any) string {
	text, _ := json.Marshal(value) //nolint:errchkjson // what came of YAML is maps, lists and scalars
	return string(text)
}

func fieldByName(desc protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if field := desc.Fields().ByJSONName(key); field != nil {
		return field
	}
	return desc.Fields().ByTextName(key)
}

// knownFields copies raw without the fields that desc does not have, and with
// durations in the one form that protojson reads.
func knownFields(desc protoreflect.MessageDescriptor, raw map[string]any, path string) (known map[string]any, unknown []string) {
	known = make(map[string]any, len(raw))
	for key, value := range raw {
		field := fieldByName(desc, key)
		if field == nil {
			unknown = append(unknown, path+key)
			continue
		}
		clean, more := knownValue(field, value, path+key)
		known[key] = clean
		unknown = append(unknown, more...)
	}
	return known, unknown
}

func knownValue(field protoreflect.FieldDescriptor, value any, path string) (clean any, unknown []string) {
	switch {
	case field.IsMap():
		entries, isObject := value.(map[string]any)
		if !isObject || field.MapValue().Message() == nil {
			return value, nil
		}
		out := make(map[string]any, len(entries))
		for key, entry := range entries {
			cleanEntry, more := knownMessage(field.MapValue().Message(), entry, path+"."+key)
			out[key] = cleanEntry
			unknown = append(unknown, more...)
		}
		return out, unknown
	case field.Message() == nil:
		return value, nil
	case field.IsList():
		items, isList := value.([]any)
		if !isList {
			return value, nil
		}
		out := make([]any, len(items))
		for i, item := range items {
			cleanItem, more := knownMessage(field.Message(), item, path+"["+strconv.Itoa(i)+"]")
			out[i] = cleanItem
			unknown = append(unknown, more...)
		}
		return out, unknown
	}
	return knownMessage(field.Message(), value, path)
}

func knownMessage(desc protoreflect.MessageDescriptor, value any, path string) (clean any, unknown []string) {
	if desc.FullName() == "google.protobuf.Duration" {
		return goDuration(value), nil
	}
	object, isObject := value.(map[string]any)
	if !isObject || desc.ParentFile().Package() == "google.protobuf" {
		return value, nil
	}
	return knownFields(desc, object, path+".")
}

// goDuration rewrites "1m30s" to "90s": istiod's parser takes Go durations.
func goDuration(value any) any {
	text, isText := value.(string)
	if !isText {
		return value
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return value
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}
