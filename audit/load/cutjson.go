package load

import "strings"

// jsonRun is how much of a long text of JSON is decoded in one go: longer ones
// are cut, so that all processors decode them.
const jsonRun = 256 << 10

// isJSON reports whether a document is a run of JSON values, and where the
// first one starts. A text with a brace may be YAML too.
func (d document) isJSON() (start int, ok bool) {
	start = skipSpace(d.text, 0)
	if start >= len(d.text) || d.text[start] != '{' {
		return start, false
	}
	i := skipSpace(d.text, start+1)
	return start, i >= len(d.text) || d.text[i] == '"' || d.text[i] == '}'
}

// cutJSON cuts a long run of JSON values between them, and a long list among
// them between its items. From where it is not JSON the text stays whole.
func (d document) cutJSON() []document {
	start, ok := d.isJSON()
	if len(d.text) < jsonRun || !ok {
		return []document{d}
	}
	var out []document
	from, line, counted := start, d.line, 0
	cut := func(to int) {
		if from < to {
			line, counted = line+lines(d.text[counted:from]), from
			out = append(out, document{text: d.text[from:to], line: line, json: true})
		}
		from = to
	}
	for start < len(d.text) && d.text[start] == '{' {
		end := jsonEnd(d.text, start)
		if end < 0 {
			break
		}
		if end-start >= jsonRun {
			cut(start)
			at := line + lines(d.text[counted:start])
			if items := cutJSONList(d.text[start:end], at); items != nil {
				out = append(out, items...)
				from = end
			}
		}
		if end-from >= jsonRun {
			cut(end)
		}
		start = skipSpace(d.text, end)
	}
	if hasContent(d.text[from:]) {
		cut(len(d.text))
	}
	return out
}

// cutJSONList cuts a list into runs of its items; nil if it is no list, or is
// not right as a whole.
func cutJSONList(raw []byte, line int) []document {
	h, p := jsonHead(&item{raw: raw, line: line})
	if p != nil || !h.isList || h.apiVersion == "" || !strings.HasSuffix(h.kind, "List") {
		return nil
	}
	items, bad := members(raw[h.itemsStart:h.itemsEnd])
	if bad >= 0 || len(items) == 0 {
		return nil
	}
	var out []document
	counted := 0
	for i := 0; i < len(items); {
		first := i
		for i++; i < len(items) && items[i].end-items[first].start < jsonRun; i++ {
		}
		from, to := h.itemsStart+items[first].start, h.itemsStart+items[i-1].end
		line, counted = line+lines(raw[counted:from]), from
		out = append(out, document{text: raw[from:to], line: line, json: true, element: true, listOf: h.elements()})
	}
	return out
}
