package snapshot

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"
)

var (
	meshConfigMessage   = (*meshconfig.MeshConfig)(nil).ProtoReflect().Descriptor()
	proxyConfigMessage  = (*meshconfig.ProxyConfig)(nil).ProtoReflect().Descriptor()
	meshNetworksMessage = (*meshconfig.MeshNetworks)(nil).ProtoReflect().Descriptor()
)

// AllowedMeshConfig is the text of a mesh config without what must not leave
// the cluster: of fields that Istio's API does not have only the names stay;
// access tokens, certificates and the values of headers become as many "x",
// since their length is in what istiod sends; of proxyMetadata only
// ISTIO_META_ variables stay, and the names of those that are no text, for which
// istiod refuses the whole config. A text without any of that, or that is no YAML
// object, comes back as it is.
func AllowedMeshConfig(text string) string { return allowedConfig(text, meshConfigMessage) }

func allowedConfig(text string, message protoreflect.MessageDescriptor) string {
	if text == "" {
		return ""
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(text), &fields); err != nil || fields == nil {
		return text
	}
	f := configFilter{}
	f.object(message, fields)
	if !f.changed {
		return text
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		out, _ := json.Marshal(fields) // what came of YAML is maps, lists and scalars
		return string(out)
	}
	out, _ := yaml.Marshal(fields)
	return string(out)
}

// configFilter changes the tree of a config in place.
type configFilter struct{ changed bool }

func (f *configFilter) object(d protoreflect.MessageDescriptor, fields map[string]any) {
	for key, value := range fields {
		fd := d.Fields().ByJSONName(key)
		if fd == nil {
			fd = d.Fields().ByTextName(key)
		}
		switch {
		case fd == nil:
			if value != nil {
				fields[key] = nil
				f.changed = true
			}
		case fd.Name() == "proxy_metadata":
			f.metadata(value)
		case secret(d, fd):
			fields[key] = f.masked(value)
		case fd.IsMap():
			f.entries(fd.MapValue(), value)
		case fd.Message() != nil:
			f.value(fd.Message(), value)
		}
	}
}

// secret: what a field holds is for the proxy's eyes alone.
func secret(d protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor) bool {
	switch fd.Name() {
	case "access_token", "pem", "ca_certificates_pem":
		return true
	}
	return d.Name() == "HttpHeader" && fd.Name() == "value"
}

func (f *configFilter) value(d protoreflect.MessageDescriptor, value any) {
	if d.ParentFile().Package() == "google.protobuf" {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		f.object(d, v)
	case []any:
		for _, e := range v {
			f.value(d, e)
		}
	}
}

func (f *configFilter) entries(fd protoreflect.FieldDescriptor, value any) {
	entries, ok := value.(map[string]any)
	if !ok || fd.Message() == nil {
		return
	}
	for _, e := range entries {
		f.value(fd.Message(), e)
	}
}

func (f *configFilter) metadata(value any) {
	entries, _ := value.(map[string]any)
	for name, value := range entries {
		if strings.HasPrefix(name, "ISTIO_META_") || strings.HasPrefix(name, "ISTIO_METAJSON_") {
			continue
		}
		switch value.(type) {
		case nil, string:
			delete(entries, name)
			f.changed = true
		default:
			f.changed = f.changed || value != false
			entries[name] = false
		}
	}
}

func (f *configFilter) masked(value any) any {
	switch v := value.(type) {
	case string:
		mask := strings.Repeat("x", len(v))
		f.changed = f.changed || v != mask
		return mask
	case []any:
		for i := range v {
			v[i] = f.masked(v[i])
		}
	}
	return value
}
