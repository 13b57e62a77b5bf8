package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Thing is an object of a mesh, or something that istiod sends, as fields: the
// path of keys, joined by dots and without places in lists, and its values.
//
// Beside the objects there are the kinds "mesh" (a mesh configuration), "env"
// (the variables of an istiod), "proxy" (the variables of a proxy without
// ISTIO_META_, with its kind and its pod's labels) and the xDS types (a
// resource, with the kind of its proxy).
type Thing struct {
	Kind   string
	fields map[string][]string
}

// newThing takes a value apart.
func newThing(kind string, v any) Thing {
	t := Thing{Kind: kind, fields: map[string][]string{}}
	t.add("", v)
	return t
}

// add records a value and all that is below it.
func (t *Thing) add(path string, v any) {
	switch x := v.(type) {
	case map[string]any:
		if path != "" {
			t.fields[path] = append(t.fields[path], "{}")
		}
		for k, e := range x {
			t.add(strings.TrimPrefix(path+"."+k, "."), e)
		}
	case []any:
		t.fields[path+"#"] = append(t.fields[path+"#"], fmt.Sprint(len(x)))
		for _, e := range x {
			t.add(path, e)
		}
	case nil:
	default:
		t.fields[path] = append(t.fields[path], fmt.Sprint(x))
	}
}

// has is whether the thing has a field with a value that matches.
func (t Thing) has(f field) bool {
	values, ok := t.fields[f.path]
	if f.value == nil {
		return ok
	}
	for _, v := range values {
		if f.value.MatchString(v) {
			return true
		}
	}
	return false
}

// Objects lists the things of a mesh in YAML.
func Objects(data []byte) ([]Thing, error) {
	var out []Thing
	for _, doc := range bytes.Split(append([]byte("\n"), data...), []byte("\n---")) {
		var o map[string]any
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return nil, err
		}
		kind, _ := o["kind"].(string)
		if kind == "" {
			continue
		}
		if group, _ := o["apiVersion"].(string); strings.HasPrefix(group, "gateway.networking") {
			kind = "api." + kind
		}
		out = append(out, newThing(kind, o))
		extra, err := within(kind, o)
		if err != nil {
			return nil, err
		}
		out = append(out, extra...)
	}
	return out, nil
}

// within lists what an object holds besides its own fields.
func within(kind string, o map[string]any) ([]Thing, error) {
	switch kind {
	case "ConfigMap":
		data, _ := o["data"].(map[string]any)
		text, ok := data["mesh"].(string)
		if !ok {
			return nil, nil
		}
		var m map[string]any
		if err := yaml.Unmarshal([]byte(text), &m); err != nil {
			return nil, err
		}
		if text, ok := data["meshNetworks"].(string); ok {
			var n map[string]any
			if err := yaml.Unmarshal([]byte(text), &n); err != nil {
				return nil, err
			}
			m["meshNetworks"] = n
		}
		return []Thing{newThing("mesh", m)}, nil
	case "Deployment":
		return containers("env", "discovery", o, "spec", "template", "spec"), nil
	case "Pod":
		return containers("proxy", "istio-proxy", o, "spec"), nil
	}
	return nil, nil
}

// containers makes a thing of the environment of each container of that name.
func containers(kind, name string, o map[string]any, path ...string) []Thing {
	spec := o
	for _, p := range path {
		spec, _ = spec[p].(map[string]any)
	}
	var out []Thing
	list, _ := spec["containers"].([]any)
	for _, c := range list {
		c, _ := c.(map[string]any)
		if c["name"] != name {
			continue
		}
		fields := map[string]any{"image": c["image"]}
		if args, _ := c["args"].([]any); len(args) > 1 {
			fields["kind"] = args[1]
		}
		if meta, ok := o["metadata"].(map[string]any); ok {
			fields["labels"] = meta["labels"]
		}
		env, _ := c["env"].([]any)
		for _, e := range env {
			if e, ok := e.(map[string]any); ok {
				n, _ := e["name"].(string)
				fields[strings.TrimPrefix(n, "ISTIO_META_")] = e["value"]
			}
		}
		out = append(out, newThing(kind, fields))
	}
	return out
}

// Answers lists what istiod sends as things.
func Answers(r *report.Report) []Thing {
	var out []Thing
	for _, p := range r.Proxies {
		for typ, list := range p.Resources {
			for _, res := range list {
				out = append(out, answer(p, typ, res))
			}
		}
	}
	return out
}

// answer is one resource.
func answer(p report.Proxy, typ string, res report.Resource) Thing {
	raw, _ := json.Marshal(res) // of plain fields: cannot fail
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields)
	fields["proxy"] = p.Kind
	return newThing(typ, fields)
}
