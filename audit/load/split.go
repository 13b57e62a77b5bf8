package load

import (
	"bytes"
)

// document is one YAML document, or a run of JSON values.
type document struct {
	text []byte
	line int  // of the text's first line in its file, from 1
	json bool // cut out of a longer run of JSON values
	// Cut out of a list: a sequence of one element in YAML, elements with commas
	// between them in JSON.
	element bool
	listOf  typeMeta // the type of a typed list's elements; zero: they carry their own
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// split cuts a text at YAML's document markers: a line that begins with "---"
// or "..." is one wherever it stands, quoted text included (YAML 1.2, 9.1).
func split(data []byte) []document {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if bytes.IndexByte(data, '\n') < 0 { // YAML takes a lone CR for a line's end too
		data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	}
	var docs []document
	start, startLine := 0, 1
	cut := func(end int) {
		if text := data[start:end]; hasContent(text) {
			docs = append(docs, document{text: text, line: startLine}.cut()...)
		}
	}
	line := 1
	for pos := 0; pos < len(data); line++ {
		next := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		switch rest, marker := markerLine(data[pos:next]); {
		case !marker:
		case rest:
			cut(pos)
			start, startLine = pos, line // "--- {…}": the parser takes the marker
		default:
			cut(pos)
			start, startLine = next, line+1
		}
		pos = next
	}
	cut(len(data))
	return docs
}

// cut cuts a large document into parts that are decoded by themselves.
func (d document) cut() []document {
	whole := d.skipBlank()
	if _, ok := whole.isJSON(); ok {
		return whole.cutJSON()
	}
	return d.cutList()
}

// markerLine reports whether a line is a document marker, and whether content
// follows on it.
func markerLine(line []byte) (rest, marker bool) {
	if len(line) < 3 || (string(line[:3]) != "---" && string(line[:3]) != "...") {
		return false, false
	}
	tail := line[3:]
	if len(tail) > 0 && !isSpace(tail[0]) {
		return false, false
	}
	tail = bytes.TrimSpace(tail)
	return len(tail) > 0 && tail[0] != '#' && line[0] == '-', true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// hasContent reports whether a text is more than blank lines, comments and
// directives.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		t := bytes.TrimSpace(line)
		if len(t) > 0 && t[0] != '#' && line[0] != '%' {
			return true
		}
	}
	return false
}

// skipBlank moves a document's start to its first line of content.
func (d document) skipBlank() document {
	for len(d.text) > 0 {
		end := len(d.text)
		if i := bytes.IndexByte(d.text, '\n'); i >= 0 {
			end = i + 1
		}
		t := bytes.TrimSpace(d.text[:end])
		if len(t) > 0 && t[0] != '#' && d.text[0] != '%' {
			break
		}
		d.text = d.text[end:]
		d.line++
	}
	return d
}

// topLevel returns the plain value of a key that stands at the start of a line,
// without parsing the document. It reports false unless the key occurs exactly
// once and its value is a plain or simply quoted word.
func (d document) topLevel(key string) (string, bool) {
	value, found := "", 0
	for line := range bytes.Lines(d.text) {
		rest, ok := bytes.CutPrefix(line, []byte(key))
		if !ok || len(rest) == 0 || rest[0] != ':' {
			continue
		}
		v := bytes.TrimSpace(rest[1:])
		if len(v) > 1 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
			v = v[1 : len(v)-1]
		}
		if i := bytes.Index(v, []byte(" #")); i >= 0 {
			v = bytes.TrimSpace(v[:i])
		}
		if len(v) == 0 || bytes.ContainsAny(v, "\"'{}[]&*!|>%@` \\") {
			return "", false
		}
		value = string(v)
		found++
	}
	return value, found == 1
}
