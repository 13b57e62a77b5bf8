package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// DataOptions say how much a machine-readable report carries.
type DataOptions struct {
	Resources bool // names and bytes of every resource
	Details   bool // with their parts and reasons, and the input's objects; for use with Resources
}

// JSON writes the audit as one indented JSON document. It holds one element of
// the audit's lists at a time, so that the text of a large mesh is never in
// memory as a whole.
func JSON(w io.Writer, a *result.Audit, o DataOptions) error {
	s := newJSONStream(w)
	s.field("apiVersion", a.APIVersion)
	s.field("kind", a.Kind)
	s.field("mesh", a.Mesh)
	jsonList(s, "proxies", a.Proxies, keep[result.Proxy])
	jsonList(s, "groups", a.Groups, o.trimGroup)
	jsonList(s, "scopes", a.Scopes, o.trimScope)
	if len(a.Services) > 0 {
		jsonList(s, "services", a.Services, keep[result.Service])
	}
	if len(a.Remainder) > 0 {
		jsonList(s, "remainder", a.Remainder, keep[result.Remainder])
	}
	jsonList(s, "reasons", o.reasons(a), keep[result.Reason])
	jsonList(s, "gaps", a.Gaps, keep[result.Gap])
	if len(a.Diagnostics) > 0 {
		jsonList(s, "diagnostics", a.Diagnostics, keep[result.Diagnostic])
	}
	if objects := o.objects(a); len(objects) > 0 {
		jsonList(s, "objects", objects, keep[result.Object])
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

func (s *jsonStream) field(name string, v any) {
	s.name(name)
	s.value(v, indent)
}

// jsonList writes a list as the member of that name, element by element.
func jsonList[T any](s *jsonStream, name string, list []T, each func(*T) *T) {
	if len(list) == 0 {
		s.field(name, list)
		return
	}
	s.name(name)
	for i := range list {
		if s.err != nil {
			return
		}
		s.text(map[bool]string{true: "[", false: ","}[i == 0] + "\n" + indent + indent)
		s.value(each(&list[i]), indent+indent)
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

// YAML writes the same document as YAML.
func YAML(w io.Writer, a *result.Audit, o DataOptions) error {
	out, err := yaml.Marshal(trim(a, o))
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// trim returns a copy of the audit that carries what o asks for.
func trim(a *result.Audit, o DataOptions) *result.Audit {
	out := *a
	out.Reasons, out.Objects = o.reasons(a), o.objects(a)
	out.Groups = slices.Clone(a.Groups)
	for i := range out.Groups {
		out.Groups[i] = *o.trimGroup(&out.Groups[i])
	}
	out.Scopes = slices.Clone(a.Scopes)
	for i := range out.Scopes {
		out.Scopes[i] = *o.trimScope(&out.Scopes[i])
	}
	return &out
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
