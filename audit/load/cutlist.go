package load

import (
	"bytes"
	"strings"
)

// bigList is the size from which a YAML list is cut into its items before it is
// parsed: the nodes of a parsed document take many times its size.
const bigList = 256 << 10

// cutList cuts a big document of kind List, or a typed list, into its items.
// Any other document comes back as it is. In block style the items are the
// lines from one "-" at the list's indent to the next; YAML wants what belongs
// to an item indented further.
func (d document) cutList() []document {
	if len(d.text) < bigList {
		return []document{d}
	}
	kind, ok := d.topLevel("kind")
	apiVersion, ok2 := d.topLevel("apiVersion")
	if !ok || !ok2 || !strings.HasSuffix(kind, "List") || hasAliases(d.text) {
		return []document{d}
	}
	of := typeMeta{apiVersion, kind}.elements()
	var items []document
	var inItems, sawItems bool
	indent, start, startLine := -1, -1, 0
	end := func(pos int) {
		if start >= 0 {
			items = append(items, document{text: d.text[start:pos], line: startLine, element: true, listOf: of})
		}
		start = -1
	}
	pos, line := 0, d.line
	for l := range bytes.Lines(d.text) {
		at := leading(l)
		switch body := l[at:]; {
		case len(bytes.TrimSpace(body)) == 0 || body[0] == '#':
		case at == 0 && bytes.HasPrefix(body, []byte("items:")):
			if sawItems || len(bytes.TrimSpace(body)) > len("items:") {
				return []document{d}
			}
			inItems, sawItems = true, true
		case !inItems:
		case isDash(body) && (indent < 0 || at == indent):
			end(pos)
			indent, start, startLine = at, pos, line
		case at <= indent:
			end(pos)
			inItems = false
		}
		pos += len(l)
		line++
	}
	end(pos)
	if len(items) == 0 {
		return []document{d}
	}
	return items
}

func leading(line []byte) int {
	for i, c := range line {
		if c != ' ' {
			return i
		}
	}
	return len(line)
}

func isDash(body []byte) bool {
	return body[0] == '-' && (len(body) == 1 || isSpace(body[1]))
}

// hasAliases reports whether a text may use an alias: what it stands for could
// be in another item.
func hasAliases(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '*')
		if i < 0 || i+1 >= len(text) {
			return false
		}
		if i > 1 && text[i-1] == ' ' && bytes.IndexByte([]byte(":-,["), text[i-2]) >= 0 && isWord(text[i+1]) {
			return true
		}
		text = text[i+1:]
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
