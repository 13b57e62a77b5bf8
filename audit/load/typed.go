package load

import (
	"encoding/json"
	"regexp"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// maxWarnings bounds the diagnostics about one object that is kept.
const maxWarnings = 20

// decodeKubernetes fills one of Kubernetes' own types.
func decodeKubernetes(it *item, obj runtime.Object) (warnings []problem, p *problem) {
	raw, p := it.json(nil)
	if p != nil {
		return nil, p
	}
	strict, err := kjson.UnmarshalStrict(raw, obj)
	if err != nil {
		return nil, it.typeError(err)
	}
	for _, err := range strict {
		w, fatal := it.strictError(err.Error())
		if fatal {
			return nil, w
		}
		if w != nil && len(warnings) < maxWarnings {
			warnings = append(warnings, *w)
		}
	}
	return warnings, nil
}

var (
	strictField = regexp.MustCompile(`^(unknown|duplicate) field "(.*)"$`)
	typeField   = regexp.MustCompile(`cannot unmarshal (.+) into Go struct field [^.\s]+\.(\S+) of type (\S+)`)
	typeValue   = regexp.MustCompile(`cannot unmarshal (.+) into Go value of type (\S+)`)
)

// strictError words an error about a field that is unknown, which is kept as
// the API server does, or given twice, which is fatal. Fields of the status are
// not the user's to correct.
func (it *item) strictError(text string) (p *problem, fatal bool) {
	m := strictField.FindStringSubmatch(text)
	if m == nil {
		return problemf(0, "%s", text), false
	}
	line := it.lineOf(m[2], "")
	if m[1] == "duplicate" {
		return problemf(line, "field %q is set twice", m[2]), true
	}
	if m[2] == "status" || strings.HasPrefix(m[2], "status.") {
		return nil, false
	}
	return problemf(line, "unknown field %q: it has no effect", m[2]), false
}

// typeError words an error of decoding.
func (it *item) typeError(err error) *problem {
	if ok, offset := kjson.SyntaxErrorOffset(err); ok && it.raw != nil {
		return problemf(it.line+lines(it.raw[:min(int(offset), len(it.raw))]), "not valid JSON: %s", err)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if m := typeField.FindStringSubmatch(text); m != nil {
		value, _, _ := strings.Cut(m[1], " ")
		return problemf(it.lineOf(m[2], value), "%s: %s belongs here, not %s", m[2], typeName(m[3]), valueName(m[1]))
	}
	if m := typeValue.FindStringSubmatch(text); m != nil {
		return problemf(0, "%s belongs where there is %s", typeName(m[2]), valueName(m[1]))
	}
	return problemf(0, "%s", text)
}

// typeName says what a Go type is in JSON.
func typeName(t string) string {
	switch t = strings.TrimLeft(t, "*"); {
	case strings.HasPrefix(t, "[]uint8"):
		return "base64 text"
	case strings.HasPrefix(t, "[]"):
		return "a list"
	case strings.HasPrefix(t, "map["):
		return "an object"
	case strings.HasPrefix(t, "int"), strings.HasPrefix(t, "uint"):
		return "a whole number (" + t + ")"
	case strings.HasPrefix(t, "float"):
		return "a number"
	case t == "bool":
		return "true or false"
	case t == "string":
		return "text"
	}
	_, short, _ := strings.Cut(t, ".")
	switch short {
	case "Protocol", "ServiceType", "DNSPolicy", "RestartPolicy", "AddressType", "PodPhase", "ServiceAffinity":
		return "text"
	}
	return "an object (" + short + ")"
}

// valueName says what Go's decoder found.
func valueName(v string) string {
	switch {
	case v == "object":
		return "an object"
	case v == "array":
		return "a list"
	case v == "string":
		return "text"
	case v == "bool":
		return "true or false"
	case strings.HasPrefix(v, "number "):
		return strings.TrimPrefix(v, "number ")
	}
	return "a " + v
}

// lineOf finds the line of a field: "spec.ports[0].name", or "spec.ports.name"
// with any element of the list whose value is of that JSON type. 0 if not found.
func (it *item) lineOf(field, value string) int {
	root, p := it.tree()
	if p != nil {
		return 0
	}
	return findLine(root, strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }), value)
}

// lineNear is lineOf for a field that may be missing: the line of what it is
// missing from.
func (it *item) lineNear(field string) int {
	for field != "" {
		if line := it.lineOf(field, ""); line > 0 {
			return line
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return 0
}

func findLine(n *yaml.Node, path []string, value string) int {
	n = dealias(n)
	if len(path) == 0 {
		if value == "" || jsonType(n) == value {
			return n.Line
		}
		return lineOfType(n, value)
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value != path[0] {
				continue
			}
			line := findLine(n.Content[i+1], path[1:], value)
			if line > 0 && len(path) == 1 {
				return n.Content[i].Line
			}
			return line
		}
	case yaml.SequenceNode:
		if path[0] != "" && path[0][0] >= '0' && path[0][0] <= '9' {
			for i, c := range n.Content {
				if path[0] == itoa(i) {
					return findLine(c, path[1:], value)
				}
			}
		}
		for _, c := range n.Content {
			if line := findLine(c, path, value); line > 0 {
				return line
			}
		}
	}
	return 0
}

// lineOfType finds the first element of a list, or value of a mapping, that is
// of a JSON type.
func lineOfType(n *yaml.Node, value string) int {
	for i, c := range n.Content {
		isKey := n.Kind == yaml.MappingNode && i%2 == 0
		if !isKey && jsonType(dealias(c)) == value {
			return c.Line
		}
	}
	return 0
}

// jsonType is the word of Go's decoder for a node's type.
func jsonType(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "object"
	case yaml.SequenceNode:
		return "array"
	}
	s, p := resolve(n)
	switch {
	case p != nil, s.kind == number:
		return "number"
	case s.kind == boolean:
		return "bool"
	case s.kind == text:
		return "string"
	}
	return "null"
}

func itoa(i int) string {
	data, _ := json.Marshal(i) //nolint:errchkjson // an int always marshals
	return string(data)
}

// settleMeta gives the object the type and namespace that it was read with, and
// drops what only the API server's bookkeeping needs.
func settleMeta(obj runtime.Object, h head) {
	obj.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(h.apiVersion, h.kind))
	if m, ok := obj.(metav1.Object); ok {
		m.SetNamespace(h.namespace)
		m.SetManagedFields(nil)
	}
}

// addUnmodelled keeps the metadata of an object, and its text for whoever
// writes the input out again.
func (out *parsed) addUnmodelled(it *item, gk groupKind, ref result.Ref) {
	var o metav1.PartialObjectMetadata
	raw, p := it.json(nil)
	if p != nil {
		out.fail(ref, it.line, p)
		return
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &o); err != nil {
		out.fail(ref, it.line, it.typeError(err))
		return
	}
	out.unmodelled = append(out.unmodelled, snapshot.Meta{
		Kind: kindName(gk), Namespace: ref.Namespace, Name: ref.Name,
		Labels: o.Labels, Annotations: o.Annotations, Created: seconds(o.CreationTimestamp), Source: ref.Source,
	})
	out.unmodelledJSON = append(out.unmodelledJSON, raw)
}
