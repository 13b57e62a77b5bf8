package report

import (
	"fmt"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// unreadInput is the section of what could not be read.
const unreadInput result.ChangeKind = "unread"

// unreadThing is a document, a file or a setting of either side that the answer
// needed and that could not be used.
type unreadThing struct {
	source result.Source // zero: none known
	text   string        // with the side, without the place
}

// unreadOf lists what the answer is incomplete for, documents first.
func unreadOf(d *result.Diff) []unreadThing {
	var out []unreadThing
	for i := range d.Diagnostics {
		if x := &d.Diagnostics[i]; !x.Kept {
			object := x.Object
			object.Source = result.Source{}
			text := x.Text
			if !object.IsZero() {
				text = refText(object) + ": " + text
			}
			out = append(out, unreadThing{x.Source, onSide(x.Side) + text})
		}
	}
	for i := range d.Gaps {
		g := d.Gaps[i]
		if g.Kind != result.Unread {
			continue
		}
		source := g.Object.Source
		text := g.Text
		if g.Object.Kind != "File" && !g.Object.IsZero() {
			g.Object.Source = result.Source{}
			text = refText(g.Object) + ": " + text
		}
		out = append(out, unreadThing{source, onSide(g.Side) + text})
	}
	return out
}

func onSide(side string) string {
	if side == "" {
		return ""
	}
	return side + ": "
}

// line is the text with its place.
func (u *unreadThing) line() string {
	if u.source.File == "" {
		return u.text
	}
	return u.source.String() + ": " + u.text
}

func unreadTitle(n int) string {
	return fmt.Sprintf("INCOMPLETE: %s of the input could not be read; what it holds is missing here", count(n, "part", "parts"))
}

// unread tells first what the answer is incomplete for.
func (w *diffWriter) unread() {
	list := unreadOf(w.view.Diff)
	if len(list) == 0 {
		return
	}
	w.wrap("", "  ", unreadTitle(len(list)))
	shown := list[:min(len(list), limit(w.o.All, diffLines))]
	for i := range shown {
		w.wrap("  ", "    ", shown[i].line())
	}
	if rest := len(list) - len(shown); rest > 0 {
		w.linef("  … and %d more (--show all)", rest)
	}
}

func (m *markdown) unread() {
	list := unreadOf(m.view.Diff)
	if len(list) == 0 {
		return
	}
	entries := make([]string, len(list))
	for i := range list {
		entries[i] = "- " + plain(list[i].line()) + "\n"
	}
	m.show(unreadTitle(len(list)), entries)
}

// unreadFindings are what could not be read, as findings.
func unreadFindings(d *result.Diff, places Places) []diffFinding {
	var out []diffFinding
	for _, u := range unreadOf(d) {
		out = append(out, diffFinding{
			kind: unreadInput, source: places.of(u.source, false), lines: []string{u.text},
			title: "mesh-audit: could not be read, the answer is incomplete",
		})
	}
	return out
}

// changeText is what became of an object.
func changeText(in *result.Input) string {
	switch {
	case in.Change != result.InputUnread:
		return in.Change
	case in.Head.IsZero():
		return "could not be read in head"
	default:
		return "could not be read in base"
	}
}
