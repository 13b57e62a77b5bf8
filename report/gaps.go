package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// gaps writes what an answer does not know: without all, gaps of the same text
// in one line, and the first of them.
func gaps(w *errWriter, list []result.Gap, all bool) {
	if len(list) == 0 {
		return
	}
	w.linef("")
	w.linef("%s", w.header.Sprint("GAPS (what this answer does not know)"))
	if all {
		for _, g := range list {
			w.linef("  %s", w.gap(g, 1))
		}
		return
	}
	alike := alikeGaps(list)
	left := 0
	for i, group := range alike {
		if i >= gapRows {
			left += len(group)
			continue
		}
		w.linef("  %s", w.gap(joined(group), len(group)))
	}
	if left > 0 {
		w.linef("  … and %s (--all shows them)", count(left, "more gap", "more gaps"))
	}
}

// alikeGaps puts gaps together that say the same of different objects, in the
// order of the first of each.
func alikeGaps(list []result.Gap) [][]result.Gap {
	type key struct {
		kind         result.GapKind
		object, text string
	}
	index := map[key]int{}
	var out [][]result.Gap
	for _, g := range list {
		k := key{g.Kind, g.Object.Kind, g.Text}
		at, known := index[k]
		if !known {
			at = len(out)
			index[k] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], g)
	}
	return out
}

// joined is the first of several gaps, with the proxies that any may touch.
func joined(group []result.Gap) result.Gap {
	g := group[0]
	if len(group) == 1 {
		return g
	}
	g.Proxies = nil
	for _, one := range group {
		g.All = g.All || one.All
		g.Proxies = append(g.Proxies, one.Proxies...)
	}
	slices.Sort(g.Proxies)
	g.Proxies = slices.Compact(g.Proxies)
	return g
}

// gapsOf are the gaps that may touch a proxy, and what could not be read.
func gapsOf(a *result.Audit, p *result.Proxy) []result.Gap {
	var out []result.Gap
	for _, g := range a.Gaps {
		if g.All || g.Kind == result.Unread && len(g.Proxies) == 0 || slices.Contains(g.Proxies, p.Namespace+"/"+p.Name) {
			out = append(out, g)
		}
	}
	return out
}

func (p palette) gap(g result.Gap, n int) string {
	text := Clean(gapText(g, n))
	switch g.Kind {
	case result.Unread:
		return p.unread.Sprint(text)
	case result.Unmodelled:
		return p.unmodelled.Sprint(text)
	}
	return text
}

// GapText is one line that tells of a gap.
func GapText(g result.Gap) string { return gapText(g, 1) }

// gapText tells of n gaps that say the same, with the object of the first.
func gapText(g result.Gap, n int) string {
	text := fmt.Sprintf("%-10s ", g.Kind)
	if !g.Object.IsZero() {
		text += refText(g.Object)
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		text += ": "
	}
	text += g.Text
	switch {
	case g.All:
		text += " (may touch every proxy)"
	case len(g.Proxies) > 3:
		text += fmt.Sprintf(" (may touch %d proxies)", len(g.Proxies))
	case len(g.Proxies) > 0:
		text += " (may touch " + strings.Join(g.Proxies, ", ") + ")"
	}
	return text
}

// refText names an object as people write it, with where it stands.
func refText(r result.Ref) string {
	text := r.Kind
	if r.Name != "" {
		text += " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")
	}
	if r.Source.File != "" {
		text += " (" + r.Source.String() + ")"
	}
	return text
}
