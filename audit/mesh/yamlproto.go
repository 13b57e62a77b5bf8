package mesh

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"sigs.k8s.io/yaml"
)

// applyYAML sets the fields that text names on msg. A field that is named is
// replaced as a whole, null leaves it alone (Istio pkg/util/protomarshal
// ApplyYAML). The paths of fields that the message does not have are returned
// sorted and otherwise left out, as istiod leaves them out.
func applyYAML(text string, msg proto.Message) (unknown []string, err error) {
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("parse YAML: %w", err)
	}
	return applyObject(raw, msg)
}

func applyObject(raw map[string]any, msg proto.Message) (unknown []string, err error) {
	target := msg.ProtoReflect()
	known, unknown := knownFields(target.Descriptor(), raw, "")
	sort.Strings(unknown)
	text, err := json.Marshal(known)
	if err != nil {
		return unknown, err
	}
	parsed := target.New()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, parsed.Interface()); err != nil {
		return unknown, err
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
