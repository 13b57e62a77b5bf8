package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// DataOptions say how much a machine-readable report carries.
type DataOptions struct {
	Resources bool // names and bytes of every resource
	Details   bool // with their parts and reasons, and the input's objects; for use with Resources
}

// member is a member of the document: a value or, by its elements, a list.
type member struct {
	name    string
	value   any
	length  int
	element func(i int) any // nil: a value
}

func list[T any](name string, all []T, element func(*T) *T) member {
	if len(all) == 0 {
		return member{name: name, value: all}
	}
	return member{name: name, length: len(all), element: func(i int) any { return element(&all[i]) }}
}

// members are those of the audit, with what o asks for.
func (o DataOptions) members(a *result.Audit) []member {
	out := []member{
		{name: "apiVersion", value: a.APIVersion}, {name: "kind", value: a.Kind}, {name: "mesh", value: a.Mesh},
		list("proxies", a.Proxies, keep), list("groups", a.Groups, o.trimGroup), list("scopes", a.Scopes, o.trimScope),
	}
	if len(a.Services) > 0 {
		out = append(out, list("services", a.Services, keep))
	}
	if len(a.Remainder) > 0 {
		out = append(out, list("remainder", a.Remainder, keep))
	}
	out = append(out, list("reasons", o.reasons(a), keep), list("gaps", a.Gaps, keep))
	if len(a.Diagnostics) > 0 {
		out = append(out, list("diagnostics", a.Diagnostics, keep))
	}
	if objects := o.objects(a); len(objects) > 0 {
		out = append(out, list("objects", objects, keep))
	}
	return out
}

// JSON writes the audit as one indented JSON document. It holds one element of
// the audit's lists at a time, so that the text of a large mesh is never in
// memory as a whole.
func JSON(w io.Writer, a *result.Audit, o DataOptions) error {
	s := newJSONStream(w)
	for _, m := range o.members(a) {
		s.member(m)
	}
	return s.close()
}

// jsonStream writes one JSON object, indented as json.Encoder indents.
type jsonStream struct {
	w       *bufio.Writer
	buf     bytes.Buffer // the member or element that is being written
	encoder *json.Encoder
	any     bool // something was written
	err     error
}

const indent = "  "

func newJSONStream(w io.Writer) *jsonStream {
	s := &jsonStream{w: bufio.NewWriterSize(w, 1<<16)}
	s.encoder = json.NewEncoder(&s.buf)
	s.encoder.SetEscapeHTML(false)
	s.text("{")
	return s
}

func (s *jsonStream) text(text string) {
	if s.err == nil {
		_, s.err = s.w.WriteString(text)
	}
}

// value writes v, whose own line is indented by prefix.
func (s *jsonStream) value(v any, prefix string) {
	if s.err != nil {
		return
	}
	s.buf.Reset()
	s.encoder.SetIndent(prefix, indent)
	if s.err = s.encoder.Encode(v); s.err != nil {
		return
	}
	_, s.err = s.w.Write(bytes.TrimSuffix(s.buf.Bytes(), []byte("\n")))
}

func (s *jsonStream) name(name string) {
	if s.any {
		s.text(",")
	}
	s.any = true
	s.text("\n" + indent + `"` + name + `": `)
}

func (s *jsonStream) member(m member) {
	s.name(m.name)
	if m.element == nil {
		s.value(m.value, indent)
		return
	}
	for i := 0; i < m.length && s.err == nil; i++ {
		s.text(map[bool]string{true: "[", false: ","}[i == 0] + "\n" + indent + indent)
		s.value(m.element(i), indent+indent)
	}
	s.text("\n" + indent + "]")
}

func (s *jsonStream) close() error {
	s.text("\n}\n")
	if s.err != nil {
		return s.err
	}
	return s.w.Flush()
}

func keep[T any](v *T) *T { return v }

// YAML writes the same document as YAML, its keys sorted, an element at a time too.
func YAML(w io.Writer, a *result.Audit, o DataOptions) error {
	out := bufio.NewWriterSize(w, 1<<16)
	write := func(v any) error {
		text, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	members := o.members(a)
	slices.SortFunc(members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for _, m := range members {
		if m.element == nil {
			if err := write(map[string]any{m.name: m.value}); err != nil {
				return err
			}
			continue
		}
		if _, err := out.WriteString(m.name + ":\n"); err != nil {
			return err
		}
		for i := range m.length {
			if err := write([]any{m.element(i)}); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

func (o DataOptions) reasons(a *result.Audit) []result.Reason {
	if o.Details {
		return a.Reasons
	}
	return []result.Reason{}
}

func (o DataOptions) objects(a *result.Audit) []result.Object {
	if o.Details {
		return a.Objects
	}
	return nil
}

func (o DataOptions) trimGroup(g *result.Group) *result.Group {
	out := *g
	out.Resources = o.trimResources(g.Resources)
	if !o.Resources {
		out.Resized = result.Lists[result.Resized]{}
		out.Without = result.Lists[string]{}
	}
	return &out
}

func (o DataOptions) trimScope(s *result.Scope) *result.Scope {
	out := *s
	out.Resources = o.trimResources(s.Resources)
	if !o.Details {
		out.Uses = nil
	}
	return &out
}

func (o DataOptions) trimResources(r result.Resources) result.Resources {
	var out result.Resources
	switch {
	case !o.Resources:
		return out
	case o.Details:
		return r
	}
	for _, t := range result.Types {
		if *r.Of(t) == nil {
			continue
		}
		*out.Of(t) = make([]*result.Resource, 0, len(*r.Of(t)))
		for _, res := range *r.Of(t) {
			*out.Of(t) = append(*out.Of(t), &result.Resource{Name: res.Name, Bytes: res.Bytes})
		}
	}
	return out
}
