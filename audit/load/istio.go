package load

import (
	"encoding/json"
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// decodeIstio fills one of Istio's types. The spec is written out anew as the
// API server would store it, guided by the message's descriptor: fields that
// Istio does not have are dropped with a warning; a value of the wrong type, an
// unknown enum value or a missing required field is refused, as Istio's CRDs do.
func decodeIstio(it *item, k kind, obj runtime.Object) (warnings []problem, p *problem) {
	root, p := it.tree()
	if p != nil {
		return nil, p
	}
	var e encoder
	top, p := e.pairs(root)
	if p != nil {
		return nil, p
	}
	for _, f := range top {
		switch f.key {
		case "metadata":
			p = decodeMeta(&e, f, obj)
		case "spec":
			p = decodeMessage(&e, f, k.spec(obj))
		case "status":
			if k.status != nil {
				decodeStatus(f, k.status(obj))
			}
		case "apiVersion", "kind":
		default:
			e.unknownField(f, f.key)
		}
		if p != nil {
			return nil, p
		}
	}
	return e.unknown, nil
}

func decodeMeta(e *encoder, f pair, obj runtime.Object) *problem {
	m, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return problemf(f.line, "metadata cannot be decoded")
	}
	meta, ok := m.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return problemf(f.line, "metadata cannot be decoded")
	}
	e.buf = e.buf[:0]
	if p := e.value(f.value); p != nil {
		return p
	}
	it := item{line: f.line, node: f.value}
	strict, err := kjson.UnmarshalStrict(e.buf, meta)
	if err != nil {
		return it.typeError(err)
	}
	for _, err := range strict {
		if w, _ := it.strictError(err.Error()); w != nil && len(e.unknown) < maxWarnings {
			w.text = strings.Replace(w.text, `field "`, `field "metadata.`, 1)
			e.unknown = append(e.unknown, *w)
		}
	}
	return nil
}

func decodeMessage(e *encoder, f pair, m proto.Message) *problem {
	if isNull(f.value) {
		return nil
	}
	e.buf = e.buf[:0]
	if p := e.message(f.value, m.ProtoReflect().Descriptor(), f.key); p != nil {
		return p
	}
	if err := json.Unmarshal(e.buf, m); err != nil {
		return problemf(f.line, "%s: %s", f.key, strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return nil
}

func decodeStatus(f pair, m proto.Message) {
	var e encoder
	if p := e.value(f.value); p == nil {
		readStatus(e.buf, m)
	}
}

// readStatus reads what istiod wrote there earlier. A status that cannot be read is
// none: istiod itself would write it anew.
func readStatus(text []byte, m proto.Message) {
	if err := json.Unmarshal(text, m); err != nil {
		proto.Reset(m)
	}
}

func isNull(n *yaml.Node) bool {
	n = dealias(n)
	if n.Kind != yaml.ScalarNode {
		return false
	}
	s, p := resolve(n)
	return p == nil && s.kind == null
}

func (e *encoder) unknownField(f pair, path string) {
	if len(e.unknown) < maxWarnings {
		e.unknown = append(e.unknown, *problemf(f.line, "unknown field %q: the API server drops it", path))
	}
}

// altNames are the fields that Istio's CRDs also know by their proto name.
var altNames = map[string]bool{"mirror_percent": true, "jwks_uri": true}

func fieldOf(d protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if altNames[key] {
		return d.Fields().ByName(protoreflect.Name(key))
	}
	return d.Fields().ByJSONName(key)
}

// message writes a mapping as a message of that type.
func (e *encoder) message(node *yaml.Node, d protoreflect.MessageDescriptor, path string) *problem {
	if done, p := e.wellKnown(node, d, path); done {
		return p
	}
	n, p := e.enter(node)
	if p != nil {
		return p
	}
	defer e.leave(node)
	if n.Kind != yaml.MappingNode {
		return problemf(node.Line, "%s: an object belongs here, not %s", path, nodeName(n))
	}
	pairs, p := e.pairs(n)
	if p != nil {
		return p
	}
	set := map[protoreflect.FullName]pair{}
	present := map[protoreflect.FieldNumber]bool{}
	e.buf = append(e.buf, '{')
	for _, f := range pairs {
		fd := fieldOf(d, f.key)
		if fd == nil {
			e.unknownField(f, path+"."+f.key)
			continue
		}
		if isNull(f.value) && !takesNull(fd) {
			continue
		}
		if o := fd.ContainingOneof(); o != nil {
			if other, dup := set[o.FullName()]; dup {
				return problemf(f.line, "%s: only one of %s and %s can be set", path, other.key, f.key)
			}
			set[o.FullName()] = f
		}
		present[fd.Number()] = true
		if e.buf[len(e.buf)-1] != '{' {
			e.buf = append(e.buf, ',')
		}
		e.key(f.key)
		if p := e.field(f.value, fd, path+"."+f.key); p != nil {
			return p
		}
	}
	e.buf = append(e.buf, '}')
	return missing(d, present, n.Line, path)
}

// missing refuses a message without a field that Istio's API marks as required.
func missing(d protoreflect.MessageDescriptor, present map[protoreflect.FieldNumber]bool, line int, path string) *problem {
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		if present[fd.Number()] {
			continue
		}
		behaviour, _ := proto.GetExtension(fd.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		for _, b := range behaviour {
			if b == annotations.FieldBehavior_REQUIRED {
				return problemf(line, "%s.%s is missing", path, fd.JSONName())
			}
		}
	}
	return nil
}

func (e *encoder) field(node *yaml.Node, fd protoreflect.FieldDescriptor, path string) *problem {
	if !fd.IsMap() && !fd.IsList() {
		return e.single(node, fd, path)
	}
	n, p := e.enter(node)
	if p != nil {
		return p
	}
	defer e.leave(node)
	if fd.IsMap() {
		if n.Kind != yaml.MappingNode {
			return problemf(node.Line, "%s: an object belongs here, not %s", path, nodeName(n))
		}
		pairs, p := e.pairs(n)
		if p != nil {
			return p
		}
		return e.elements('{', '}', len(pairs), func(i int) *problem {
			e.key(pairs[i].key)
			return e.element(pairs[i].value, fd.MapValue(), path+"."+pairs[i].key)
		})
	}
	if n.Kind != yaml.SequenceNode {
		return problemf(node.Line, "%s: a list belongs here, not %s", path, nodeName(n))
	}
	return e.elements('[', ']', len(n.Content), func(i int) *problem {
		return e.element(n.Content[i], fd, fmt.Sprintf("%s[%d]", path, i))
	})
}

func (e *encoder) elements(open, closer byte, n int, write func(int) *problem) *problem {
	e.buf = append(e.buf, open)
	for i := range n {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if p := write(i); p != nil {
			return p
		}
	}
	e.buf = append(e.buf, closer)
	return nil
}

// takesNull: of a free value, null is one; anywhere else it means "not set".
func takesNull(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value"
}

func (e *encoder) element(node *yaml.Node, fd protoreflect.FieldDescriptor, path string) *problem {
	if isNull(node) && !takesNull(fd) {
		return problemf(node.Line, "%s: null does not belong here", path)
	}
	return e.single(node, fd, path)
}

func (e *encoder) single(node *yaml.Node, fd protoreflect.FieldDescriptor, path string) *problem {
	if fd.Kind() == protoreflect.MessageKind {
		return e.message(node, fd.Message(), path)
	}
	n := dealias(node)
	if n.Kind != yaml.ScalarNode {
		return problemf(node.Line, "%s: %s belongs here, not %s", path, protoName(fd.Kind()), nodeName(n))
	}
	s, p := resolve(n)
	if p != nil {
		return p
	}
	if p := checkScalar(s, fd, node.Line, path); p != nil {
		return p
	}
	e.scalar(s)
	return nil
}

// wellKnown writes a message that has a JSON form of its own, and reports
// whether it is one.
func (e *encoder) wellKnown(n *yaml.Node, d protoreflect.MessageDescriptor, path string) (bool, *problem) {
	switch d.FullName() {
	case "google.protobuf.Value", "google.protobuf.Any", "google.protobuf.ListValue":
		return true, e.value(n)
	case "google.protobuf.Struct":
		return true, freeObject(e, n, path)
	case "google.protobuf.Duration", "google.protobuf.Timestamp":
		return true, freeText(e, n, path)
	}
	if d.ParentFile().Path() == "google/protobuf/wrappers.proto" {
		return true, e.single(n, d.Fields().ByName("value"), path)
	}
	return false, nil
}

func freeObject(e *encoder, n *yaml.Node, path string) *problem {
	if dealias(n).Kind != yaml.MappingNode {
		return problemf(n.Line, "%s: an object belongs here, not %s", path, nodeName(n))
	}
	return e.value(n)
}

func freeText(e *encoder, n *yaml.Node, path string) *problem {
	if nodeName(n) != "text" {
		return problemf(n.Line, "%s: text belongs here, not %s", path, nodeName(n))
	}
	return e.value(n)
}
