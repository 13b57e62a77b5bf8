package load

import (
	"cmp"
	"path"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// maxListDepth bounds lists of lists.
const maxListDepth = 4

// parsed is what came of one document.
type parsed struct {
	file, namespace string
	at              *result.Source // that all of it is told to stand at; nil: where it does
	whole           bool           // keep all of each object

	objects        []Object
	unmodelled     []snapshot.Meta
	unmodelledJSON [][]byte // each one's object
	diagnostics    []result.Diagnostic
	ignored        []string // kind.group of each
}

// item is one object's text: raw JSON, or a node of YAML.
type item struct {
	line int
	raw  []byte     // nil if it is YAML
	node *yaml.Node // nil until needed if it is JSON
}

// tree returns the item's node.
func (it *item) tree() (*yaml.Node, *problem) {
	if it.node == nil {
		node, p := jsonNode(it.raw, it.line)
		if p != nil {
			return nil, p
		}
		it.node = node
	}
	return it.node, nil
}

func (out *parsed) document(d document) {
	d = d.skipBlank()
	if start, ok := d.isJSON(); ok || d.json {
		out.jsonDocument(d, start)
		return
	}
	if out.refuseText(d.text, d.line) {
		return
	}
	if out.skipUnread(d) {
		return
	}
	root, p := parseYAML(d)
	switch {
	case p != nil:
		out.fail(sniffRef(d), d.line, p)
	case root == nil, isNull(root):
	case d.element && root.Kind == yaml.SequenceNode:
		for _, n := range root.Content {
			out.object(item{line: n.Line, node: n}, d.listOf, 1)
		}
	default:
		out.object(item{line: root.Line, node: root}, typeMeta{}, 0)
	}
}

func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// refuseText reports, and notes, that a text is not UTF-8.
func (out *parsed) refuseText(text []byte, line int) bool {
	i := invalidUTF8(text)
	if i >= 0 {
		out.fail(result.Ref{}, line, problemf(line+lines(text[:i]), "not UTF-8 text"))
	}
	return i >= 0
}

// jsonDocument reads a run of JSON values, or of a list's elements.
func (out *parsed) jsonDocument(d document, start int) {
	line, pos, depth := d.line, 0, 0
	if d.element {
		depth = 1
	}
	for start < len(d.text) {
		line, pos = line+lines(d.text[pos:start]), start
		end := jsonEnd(d.text, start)
		if end < 0 || d.text[start] != '{' && !d.element {
			p := problemf(line, "not valid JSON: the value that starts here does not end")
			if end >= 0 {
				p = problemf(line, "not valid JSON: an object belongs here")
			}
			out.fail(result.Ref{}, line, p)
			return
		}
		if raw := d.text[start:end]; !out.refuseText(raw, line) {
			out.object(item{line: line, raw: raw}, d.listOf, depth)
		}
		start = skipSpace(d.text, end)
		if d.element && start < len(d.text) && d.text[start] == ',' {
			start = skipSpace(d.text, start+1)
		}
	}
}

// skipUnread passes over a document of a kind that is not read, unparsed.
func (out *parsed) skipUnread(d document) bool {
	if d.element {
		return false
	}
	apiVersion, ok := d.topLevel("apiVersion")
	if !ok {
		return false
	}
	name, ok := d.topLevel("kind")
	if !ok || strings.HasSuffix(name, "List") {
		return false
	}
	gk := typeMeta{apiVersion, name}.groupKind()
	if _, read := kinds[gk]; read {
		return false
	}
	if _, p := misspelt(gk); p != nil {
		return false
	}
	out.ignored = append(out.ignored, kindName(gk))
	return true
}

// sniffRef names the object of a document that cannot be parsed.
func sniffRef(d document) result.Ref {
	name, _ := d.topLevel("kind")
	return result.Ref{Kind: name}
}

// typeMeta is an object's apiVersion and kind.
type typeMeta struct{ apiVersion, kind string }

func (t typeMeta) groupKind() groupKind {
	gv, err := schema.ParseGroupVersion(t.apiVersion)
	if err != nil {
		return groupKind{Group: t.apiVersion, Kind: t.kind}
	}
	return groupKind{Group: gv.Group, Kind: t.kind}
}

// elements is the type of the elements of a list of the type; zero where they
// carry their own.
func (t typeMeta) elements() typeMeta {
	if t.kind == "List" {
		return typeMeta{}
	}
	return typeMeta{t.apiVersion, strings.TrimSuffix(t.kind, "List")}
}

func (t typeMeta) version() string {
	return path.Base(t.apiVersion)
}

// kindName is how kubectl writes a kind: kind.group.
func kindName(gk groupKind) string {
	if gk.Group == "" {
		return gk.Kind
	}
	return gk.Kind + "." + gk.Group
}

// object reads one object, or each object of a list. In a typed list (PodList)
// the items carry no type of their own: listOf is it.
func (out *parsed) object(it item, listOf typeMeta, depth int) {
	if it.node != nil && it.node.Kind == yaml.AliasNode {
		out.fail(result.Ref{}, it.line, problemf(0, "an alias cannot stand for an object"))
		return
	}
	h, p := headOf(&it)
	if p != nil {
		out.fail(h.ref(), it.line, p)
		return
	}
	if h.kind == "" && h.apiVersion == "" {
		h.typeMeta = listOf
	}
	switch {
	case h.kind == "" && out.isKustomization():
		out.ignored = append(out.ignored, "Kustomization.kustomize.config.k8s.io")
	case h.kind == "":
		out.fail(h.ref(), it.line, problemf(0, "kind is missing"))
	case h.apiVersion == "":
		out.fail(h.ref(), it.line, problemf(0, "apiVersion is missing"))
	case h.isList && strings.HasSuffix(h.kind, "List"):
		out.list(it, h, depth)
	case h.kind == "List":
		out.fail(h.ref(), it.line, problemf(0, "items: a list belongs here"))
	default:
		out.single(it, h)
	}
}

// isKustomization: kustomize wants no kind in its own file.
func (out *parsed) isKustomization() bool {
	switch path.Base(strings.ReplaceAll(out.file, `\`, "/")) {
	case "kustomization.yaml", "kustomization.yml":
		return true
	}
	return false
}

func (out *parsed) list(it item, h head, depth int) {
	if depth >= maxListDepth {
		out.fail(h.ref(), it.line, problemf(0, "lists nested more than %d deep", maxListDepth))
		return
	}
	of := h.elements()
	if it.raw == nil {
		for _, n := range h.items {
			out.object(item{line: n.Line, node: n}, of, depth+1)
		}
		return
	}
	list, bad := members(it.raw[h.itemsStart:h.itemsEnd])
	line, pos := it.line, 0
	for _, m := range list {
		start, end := h.itemsStart+m.start, h.itemsStart+m.end
		line, pos = line+lines(it.raw[pos:start]), start
		out.object(item{line: line, raw: it.raw[start:end]}, of, depth+1)
	}
	if bad >= 0 {
		at := min(h.itemsStart+bad, len(it.raw))
		out.fail(h.ref(), it.line, problemf(line+lines(it.raw[pos:at]), "not valid JSON in items"))
	}
}

// single decodes an object that is no list.
func (out *parsed) single(it item, h head) {
	gk := h.groupKind()
	ref := h.ref()
	ref.Source = out.source(it.line)
	k, read := kinds[gk]
	if !read {
		meant, p := misspelt(gk)
		if p == nil {
			out.ignored = append(out.ignored, kindName(gk))
			return
		}
		ref.Kind, ref.Namespace = meant, cmp.Or(ref.Namespace, out.namespace)
		out.fail(ref, it.line, p)
		return
	}
	if p := checkHead(&h, k); p != nil {
		out.fail(ref, it.line, p)
		return
	}
	switch {
	case k.cluster:
		h.namespace = ""
	case h.namespace == "":
		h.namespace = out.namespace
	}
	ref.Namespace = h.namespace
	switch {
	case k.unmodelled:
		out.addUnmodelled(&it, gk, ref)
	case k.versions[h.version()] == nil:
		out.fail(ref, it.line, problemf(0, "%s has no version %s that Kubernetes or Istio still serves", kindName(gk), h.version()))
	default:
		out.add(&it, h, k, ref)
	}
}

func (out *parsed) add(it *item, h head, k kind, ref result.Ref) {
	obj := k.versions[h.version()]()
	var warnings []problem
	var p *problem
	switch pod, isPod := obj.(*corev1.Pod); {
	case k.spec != nil:
		warnings, p = decodeIstio(it, k, obj)
	case isPod && !out.whole && decodeRunning(it, pod):
	default:
		warnings, p = decodeKubernetes(it, obj)
	}
	if p == nil {
		settleMeta(obj, h)
		if p = validate(obj); p != nil {
			field, _, _ := strings.Cut(p.text, " ")
			p.line = it.lineNear(strings.TrimSuffix(field, ":"))
		}
	}
	if p != nil {
		out.fail(ref, it.line, p)
		return
	}
	for i := range warnings {
		out.warn(ref, &warnings[i])
	}
	o := Object{Obj: obj, Source: ref.Source}
	if cm, ok := obj.(*corev1.ConfigMap); ok {
		o.TextLines = it.textLines(cm)
	}
	out.objects = append(out.objects, o)
}

// source is the place of a line.
func (out *parsed) source(line int) result.Source {
	if out.at != nil {
		return *out.at
	}
	return result.Source{File: out.file, Line: line}
}

// fail notes a document or an item that is left out.
func (out *parsed) fail(ref result.Ref, line int, p *problem) {
	out.note(ref, line, p, false)
}

// warn notes something of an object that is kept.
func (out *parsed) warn(ref result.Ref, p *problem) {
	out.note(ref, ref.Source.Line, p, true)
}

func (out *parsed) note(ref result.Ref, line int, p *problem, kept bool) {
	if p.line > 0 {
		line = p.line
	}
	out.diagnostics = append(out.diagnostics, result.Diagnostic{
		Source: out.source(line),
		Object: ref,
		Text:   p.text,
		Kept:   kept,
	})
}
