package load

import (
	"bytes"
	"slices"

	yaml "go.yaml.in/yaml/v3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// head is what has to be known of an object before it is decoded.
type head struct {
	typeMeta
	namespace, name string
	generateName    bool
	metadata        bool

	isList               bool         // has items that are a list
	items                []*yaml.Node // of YAML
	itemsStart, itemsEnd int          // of JSON
}

func (h *head) ref() result.Ref {
	return result.Ref{Kind: h.kind, Namespace: h.namespace, Name: h.name}
}

func headOf(it *item) (head, *problem) {
	if it.raw != nil {
		return jsonHead(it)
	}
	return yamlHead(it.node)
}

func jsonHead(it *item) (h head, p *problem) {
	var seen keySet
	bad := eachMember(it.raw, func(m member) bool {
		at := func(i int) int { return it.line + lines(it.raw[:i]) }
		if m.key == nil {
			p = problemf(0, "an object belongs here")
			return false
		}
		if !seen.add(m.key) {
			p = problemf(at(m.keyAt), "key %q is already set", m.key)
			return false
		}
		value := it.raw[m.start:m.end]
		switch string(m.key) {
		case "apiVersion":
			h.apiVersion, p = jsonText(value, at, m.start, "apiVersion")
		case "kind":
			h.kind, p = jsonText(value, at, m.start, "kind")
		case "items":
			h.isList = value[0] == '['
			h.itemsStart, h.itemsEnd = m.start, m.end
		case "metadata":
			p = h.jsonMetadata(value, func(i int) int { return at(m.start + i) })
		}
		return p == nil
	})
	switch {
	case p != nil || bad < 0:
		return h, p
	case len(it.raw) > 0 && it.raw[0] != '{':
		return h, problemf(0, "an object belongs here")
	}
	return h, problemf(it.line+lines(it.raw[:min(bad, len(it.raw))]), "not valid JSON")
}

// keySet tells keys that occur twice; most objects have so few that a list is
// faster than a map.
type keySet struct {
	few  [][]byte
	many map[string]bool
}

// add reports false for a key that was added before.
func (s *keySet) add(key []byte) bool {
	if s.many == nil && len(s.few) < 16 {
		if slices.ContainsFunc(s.few, func(k []byte) bool { return bytes.Equal(k, key) }) {
			return false
		}
		s.few = append(s.few, key)
		return true
	}
	if s.many == nil {
		s.many = map[string]bool{}
		for _, k := range s.few {
			s.many[string(k)] = true
		}
	}
	if s.many[string(key)] {
		return false
	}
	s.many[string(key)] = true
	return true
}

// jsonMetadata reads the metadata b; line tells the line of an offset in it.
func (h *head) jsonMetadata(b []byte, line func(int) int) (p *problem) {
	if string(b) == "null" {
		return nil
	}
	if b[0] != '{' {
		return problemf(line(0), "metadata: an object belongs here")
	}
	h.metadata = true
	bad := eachMember(b, func(m member) bool {
		value := b[m.start:m.end]
		switch string(m.key) {
		case "name":
			h.name, p = jsonText(value, line, m.start, "metadata.name")
		case "namespace":
			h.namespace, p = jsonText(value, line, m.start, "metadata.namespace")
		case "generateName":
			h.generateName = true
		}
		return p == nil
	})
	if bad >= 0 {
		return problemf(line(0), "metadata: an object belongs here")
	}
	return p
}

func jsonText(b []byte, line func(int) int, at int, field string) (string, *problem) {
	switch {
	case string(b) == "null":
		return "", nil
	case b[0] == '"':
		if s, ok := unquote(b); ok {
			return string(s), nil
		}
	}
	return "", problemf(line(at), "%s: text belongs here", field)
}

func yamlHead(n *yaml.Node) (h head, p *problem) {
	if n.Kind != yaml.MappingNode {
		return h, problemf(n.Line, "an object belongs here, this is %s", nodeName(n))
	}
	if p := joined(n); p != nil {
		return h, p
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := dealias(n.Content[i+1])
		switch n.Content[i].Value {
		case "apiVersion":
			h.apiVersion, p = yamlText(v, "apiVersion")
		case "kind":
			h.kind, p = yamlText(v, "kind")
		case "items":
			if v.Kind == yaml.SequenceNode {
				h.isList, h.items = true, v.Content
			}
		case "metadata":
			p = h.yamlMetadata(v)
		}
		if p != nil {
			return h, p
		}
	}
	return h, nil
}

// joined is the problem of a document that is two objects with nothing between
// them: which of them it would be is not known.
func joined(n *yaml.Node) *problem {
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch k.Value {
		case "apiVersion", "kind", "metadata":
			if line := first[k.Value]; line > 0 {
				return problemf(k.Line, "key %q is already set on line %d: if these are two objects, put --- between them", k.Value, line)
			}
			first[k.Value] = k.Line
		}
	}
	return nil
}

func (h *head) yamlMetadata(n *yaml.Node) (p *problem) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return problemf(n.Line, "metadata: an object belongs here, this is %s", nodeName(n))
	}
	h.metadata = true
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := dealias(n.Content[i+1])
		switch n.Content[i].Value {
		case "name":
			h.name, p = yamlText(v, "metadata.name")
		case "namespace":
			h.namespace, p = yamlText(v, "metadata.namespace")
		case "generateName":
			h.generateName = true
		}
		if p != nil {
			return p
		}
	}
	return nil
}

func yamlText(n *yaml.Node, field string) (string, *problem) {
	if n.Kind == yaml.ScalarNode {
		s, p := resolve(n)
		if p != nil {
			return "", p
		}
		switch s.kind {
		case text:
			return s.value, nil
		case null:
			return "", nil
		}
	}
	return "", problemf(n.Line, "%s: text belongs here, this is %s", field, nodeName(n))
}

// dealias follows aliases; a cycle of aliases does not exist in a parsed tree.
func dealias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// nodeName says what a node is, in words that a message can use.
func nodeName(n *yaml.Node) string {
	switch n = dealias(n); n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		s, p := resolve(n)
		switch {
		case p != nil, s.kind == number:
			return "a number"
		case s.kind == boolean:
			return "true or false"
		case s.kind == null:
			return "null"
		}
		return "text"
	default:
		return "no value"
	}
}

// checkHead refuses an object that the API server would not take for want of a name.
func checkHead(h *head, _ kind) *problem {
	switch {
	case !h.metadata:
		return problemf(0, "metadata is missing")
	case h.name == "" && h.generateName:
		return problemf(0, "metadata.name is missing; a generateName only gets its name from the API server")
	case h.name == "":
		return problemf(0, "metadata.name is missing")
	}
	return nil
}
