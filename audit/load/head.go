package load

import (
	"encoding/json"

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
	list, bad := members(it.raw)
	if bad >= 0 {
		if len(it.raw) > 0 && it.raw[0] != '{' {
			return h, problemf(0, "an object belongs here")
		}
		return h, problemf(it.line+lines(it.raw[:min(bad, len(it.raw))]), "not valid JSON")
	}
	seen := map[string]bool{}
	for _, m := range list {
		if seen[m.key] {
			return h, problemf(it.line+lines(it.raw[:m.keyAt]), "key %q is already set", m.key)
		}
		seen[m.key] = true
		value := it.raw[m.start:m.end]
		line := it.line + lines(it.raw[:m.start])
		switch m.key {
		case "apiVersion":
			h.apiVersion, p = jsonText(value, line, "apiVersion")
		case "kind":
			h.kind, p = jsonText(value, line, "kind")
		case "items":
			h.isList = value[0] == '['
			h.itemsStart, h.itemsEnd = m.start, m.end
		case "metadata":
			p = h.jsonMetadata(value, line)
		}
		if p != nil {
			return h, p
		}
	}
	return h, nil
}

func (h *head) jsonMetadata(b []byte, line int) (p *problem) {
	if string(b) == "null" {
		return nil
	}
	list, bad := members(b)
	if bad >= 0 || b[0] != '{' {
		return problemf(line, "metadata: an object belongs here")
	}
	h.metadata = true
	for _, m := range list {
		value, at := b[m.start:m.end], line+lines(b[:m.start])
		switch m.key {
		case "name":
			h.name, p = jsonText(value, at, "metadata.name")
		case "namespace":
			h.namespace, p = jsonText(value, at, "metadata.namespace")
		case "generateName":
			h.generateName = true
		}
		if p != nil {
			return p
		}
	}
	return nil
}

func jsonText(b []byte, line int, field string) (string, *problem) {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return "", problemf(line, "%s: text belongs here", field)
	}
	if s == nil {
		return "", nil
	}
	return *s, nil
}

func yamlHead(n *yaml.Node) (h head, p *problem) {
	if n.Kind != yaml.MappingNode {
		return h, problemf(n.Line, "an object belongs here, this is %s", nodeName(n))
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
