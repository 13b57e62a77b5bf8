package load

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// problem is what is wrong with a document, and where.
type problem struct {
	line int // in the document's file; 0: somewhere in the document
	text string
}

func (p *problem) Error() string { return p.text }

func problemf(line int, format string, args ...any) *problem {
	return &problem{line: line, text: fmt.Sprintf(format, args...)}
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)

// parseYAML returns the root node of a document, with lines counted in its
// file; nil if the document is empty.
func parseYAML(d document) (*yaml.Node, *problem) {
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		text, line := err.Error(), 0
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			line, _ = strconv.Atoi(m[1])
			line += d.line - 1
			text = text[len(m[0]):]
		}
		return nil, problemf(line, "not valid YAML: %s", strings.TrimPrefix(text, "yaml: "))
	}
	if len(root.Content) == 0 {
		return nil, nil
	}
	shift(&root, d.line-1)
	return root.Content[0], nil
}

// shift moves the lines of a tree. Aliased nodes are reached once, at their anchor.
func shift(n *yaml.Node, lines int) {
	if lines == 0 {
		return
	}
	n.Line += lines
	for _, c := range n.Content {
		shift(c, lines)
	}
}

const (
	maxDepth = 1000
	// maxAliased bounds the nodes that aliases stand for in one document.
	maxAliased = 200_000
)

// encoder writes nodes as JSON.
type encoder struct {
	buf     []byte
	depth   int
	inAlias int
	aliased int
	unknown []problem // fields that Istio does not have
}

// enter follows an alias and guards against bombs; leave must follow.
func (e *encoder) enter(n *yaml.Node) (*yaml.Node, *problem) {
	e.depth++
	if e.depth > maxDepth {
		return nil, problemf(n.Line, "nested more than %d deep", maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		e.inAlias++
		if n.Alias == nil {
			return nil, problemf(n.Line, "alias of nothing")
		}
	}
	if e.inAlias > 0 {
		if e.aliased++; e.aliased > maxAliased {
			return nil, problemf(n.Line, "the aliases stand for more than %d values", maxAliased)
		}
	}
	if n.Kind == yaml.AliasNode {
		return n.Alias, nil
	}
	return n, nil
}

func (e *encoder) leave(n *yaml.Node) {
	e.depth--
	if n.Kind == yaml.AliasNode {
		e.inAlias--
	}
}

// value writes any node.
func (e *encoder) value(node *yaml.Node) *problem { return e.only(node, nil) }

// only writes of a node what is read.
func (e *encoder) only(node *yaml.Node, read *fields) *problem {
	n, p := e.enter(node)
	if p != nil {
		return p
	}
	defer e.leave(node)
	switch n.Kind {
	case yaml.MappingNode:
		return e.mapping(n, read)
	case yaml.SequenceNode:
		e.buf = append(e.buf, '[')
		for i, c := range n.Content {
			if i > 0 {
				e.buf = append(e.buf, ',')
			}
			if p := e.only(c, read); p != nil {
				return p
			}
		}
		e.buf = append(e.buf, ']')
		return nil
	case yaml.ScalarNode:
		s, p := resolve(n)
		if p != nil {
			return p
		}
		e.scalar(s)
		return nil
	default:
		return problemf(n.Line, "not a value")
	}
}

func (e *encoder) mapping(n *yaml.Node, read *fields) *problem {
	pairs, p := e.pairs(n)
	if p != nil {
		return p
	}
	e.buf = append(e.buf, '{')
	first := true
	for _, pair := range pairs {
		of, is, unknown := read.field(pair.key)
		if unknown {
			return problemf(pair.line, "no field %q", pair.key)
		}
		if !is {
			continue
		}
		if !first {
			e.buf = append(e.buf, ',')
		}
		first = false
		e.key(pair.key)
		if p := e.only(pair.value, of); p != nil {
			return p
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) key(key string) {
	e.buf = appendString(e.buf, key)
	e.buf = append(e.buf, ':')
}

func (e *encoder) scalar(s scalar) {
	if s.kind == text {
		e.buf = appendString(e.buf, s.value)
	} else {
		e.buf = append(e.buf, s.value...)
	}
}

func appendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) //nolint:errchkjson // a string always marshals
			return append(buf, quoted...)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

// pair is one entry of a mapping, its key as JSON would have it.
type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs lists a mapping's entries, merge keys followed and duplicates refused.
func (e *encoder) pairs(n *yaml.Node) ([]pair, *problem) {
	pairs := make([]pair, 0, len(n.Content)/2)
	seen := make(map[string]int, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if isMerge(k) {
			merges = append(merges, v)
			continue
		}
		key, p := keyText(k)
		if p != nil {
			return nil, p
		}
		if line, dup := seen[key]; dup {
			return nil, problemf(k.Line, "key %q is already set on line %d", key, line)
		}
		seen[key] = k.Line
		pairs = append(pairs, pair{key, k.Line, v})
	}
	for _, m := range merges {
		if p := e.merge(m, seen, &pairs); p != nil {
			return nil, p
		}
	}
	return pairs, nil
}

func isMerge(k *yaml.Node) bool {
	return k.Kind == yaml.ScalarNode && k.Value == "<<" && k.Style == 0 && (k.Tag == "" || k.Tag == "!!merge")
}

// merge adds the entries of a merged mapping, or of several, that are not set yet.
func (e *encoder) merge(node *yaml.Node, seen map[string]int, pairs *[]pair) *problem {
	n, p := e.enter(node)
	if p != nil {
		return p
	}
	defer e.leave(node)
	switch n.Kind {
	case yaml.MappingNode:
		more, p := e.pairs(n)
		if p != nil {
			return p
		}
		for _, m := range more {
			if e.aliased++; e.aliased > maxAliased {
				return problemf(node.Line, "the aliases stand for more than %d values", maxAliased)
			}
			if _, dup := seen[m.key]; !dup {
				seen[m.key] = m.line
				*pairs = append(*pairs, m)
			}
		}
		return nil
	case yaml.SequenceNode:
		for _, c := range n.Content {
			if p := e.merge(c, seen, pairs); p != nil {
				return p
			}
		}
		return nil
	default:
		return problemf(n.Line, "a merge key takes a mapping")
	}
}

// keyText is a key as kubectl writes it into JSON: numbers and booleans become text.
func keyText(k *yaml.Node) (string, *problem) {
	for k.Kind == yaml.AliasNode && k.Alias != nil {
		k = k.Alias
	}
	if k.Kind != yaml.ScalarNode {
		return "", problemf(k.Line, "a key must be text")
	}
	s, p := resolve(k)
	if p != nil {
		return "", p
	}
	if s.kind == null {
		return "", problemf(k.Line, "a key must be text, not null")
	}
	return s.value, nil
}
