package load

import (
	"bytes"
	"encoding/json"

	yaml "go.yaml.in/yaml/v3"
)

// jsonEnd returns the index after the JSON value that starts at i, or -1. It
// only looks for the end: what is inside is checked when it is decoded.
func jsonEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch c := b[i]; c {
		case '"':
			end := stringEnd(b, i)
			if end < 0 {
				return -1
			}
			i = end
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return -1
			}
			i++
			continue
		default:
			for i < len(b) && !endsScalar(b[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
		if depth < 0 {
			return -1
		}
	}
	return -1
}

func endsScalar(c byte) bool {
	switch c {
	case ',', ':', '{', '}', '[', ']', '"', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

// stringEnd returns the index after the string that starts at i, or -1.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

// member is an entry of an object or an element of an array, by position.
type member struct {
	key        []byte // nil in an array
	keyAt      int
	start, end int
}

// members lists the entries of the object, or the elements of the array, that b
// is. It returns the offset of the first thing that is not JSON, or -1.
func members(b []byte) (list []member, bad int) {
	bad = eachMember(b, func(m member) bool {
		list = append(list, m)
		return true
	})
	return list, bad
}

// eachMember passes the entries of members to yield until it returns false,
// which is no fault.
func eachMember(b []byte, yield func(member) bool) (bad int) {
	i := skipSpace(b, 0)
	if i >= len(b) || (b[i] != '{' && b[i] != '[') {
		return i
	}
	object, closer := b[i] == '{', b[i]+2
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == closer {
		return -1
	}
	for i < len(b) {
		var m member
		if object {
			end := -1
			if b[i] == '"' {
				end = stringEnd(b, i)
			}
			if end < 0 {
				return i
			}
			var ok bool
			if m.key, ok = unquote(b[i:end]); !ok {
				return i
			}
			m.keyAt = i
			i = skipSpace(b, end)
			if i >= len(b) || b[i] != ':' {
				return i
			}
			i = skipSpace(b, i+1)
		}
		m.start = i
		if m.end = jsonEnd(b, i); m.end < 0 {
			return i
		}
		if !yield(m) {
			return -1
		}
		i = skipSpace(b, m.end)
		if i >= len(b) {
			return i
		}
		if b[i] == closer {
			return -1
		}
		if b[i] != ',' {
			return i
		}
		i = skipSpace(b, i+1)
	}
	return len(b)
}

// unquote reads a JSON string; what it returns may be a part of b.
func unquote(b []byte) ([]byte, bool) {
	for _, c := range b[1 : len(b)-1] {
		if c < 0x20 || c > 0x7e || c == '\\' {
			var s string
			err := json.Unmarshal(b, &s)
			return []byte(s), err == nil
		}
	}
	return b[1 : len(b)-1], true
}

// jsonNode makes the node of a JSON value, for what needs lines; line is that
// of the value's first byte.
func jsonNode(b []byte, line int) (*yaml.Node, *problem) {
	return jsonTree(b, line, 0)
}

func jsonTree(b []byte, line, depth int) (*yaml.Node, *problem) {
	if depth > maxDepth {
		return nil, problemf(line, "nested more than %d deep", maxDepth)
	}
	if len(b) == 0 || (b[0] != '{' && b[0] != '[') {
		return jsonScalar(b, line)
	}
	list, bad := members(b)
	if bad >= 0 {
		return nil, problemf(line+lines(b[:min(bad, len(b))]), "not valid JSON")
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Line: line}
	if b[0] == '{' {
		n.Kind = yaml.MappingNode
	}
	at, pos := line, 0
	to := func(i int) int {
		at, pos = at+lines(b[pos:i]), i
		return at
	}
	for _, m := range list {
		if n.Kind == yaml.MappingNode {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: string(m.key), Line: to(m.keyAt)})
		}
		c, p := jsonTree(b[m.start:m.end], to(m.start), depth+1)
		if p != nil {
			return nil, p
		}
		n.Content = append(n.Content, c)
	}
	return n, nil
}

func jsonScalar(b []byte, line int) (*yaml.Node, *problem) {
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: line, Value: string(b)}
	if len(b) > 0 && b[0] == '"' {
		if json.Unmarshal(b, &n.Value) != nil {
			return nil, problemf(line, "not valid JSON")
		}
		n.Style = yaml.DoubleQuotedStyle
		return n, nil
	}
	if !json.Valid(b) {
		return nil, problemf(line, "not valid JSON")
	}
	return n, nil
}

func lines(b []byte) int { return bytes.Count(b, []byte{'\n'}) }
