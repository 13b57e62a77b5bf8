package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// How much the text of a diff shows of each kind unless all is asked for.
const (
	diffBlocks    = 6
	diffLines     = 6
	diffSubjects  = 3
	diffWorkloads = 4
	diffInputs    = 6
	diffSteps     = 12
)

// DiffOptions say how much the text of a diff shows.
type DiffOptions struct {
	All   bool   // every change, one line each
	Type  string // only this xDS type; empty: all
	Color bool
	Width int // columns; at least 80
}

// Diff writes what changes between two meshes, worst first.
func Diff(out io.Writer, d *result.Diff, o DiffOptions) error {
	o.Width = max(o.Width, 80)
	w := &diffWriter{errWriter: &errWriter{palette: newPalette(o.Color), w: out}, o: o, view: viewOf(OnlyType(d, o.Type))}
	w.wrap("", "", Verdict(d))
	if d.Base.Mesh.Partial != "" || d.Head.Mesh.Partial != "" {
		w.wrap("", "  ", "PARTIAL: only one namespace was read; what other namespaces define is missing")
	}
	w.unread()
	w.changes()
	w.oneSided("GONE", "-", w.view.Gone)
	w.oneSided("NEW", "+", w.view.New)
	w.order()
	w.push()
	w.silent()
	w.gaps()
	return w.err
}

// OnlyType leaves out the changes of other xDS types; an empty type keeps all.
func OnlyType(d *result.Diff, xdsType string) *result.Diff {
	if xdsType == "" {
		return d
	}
	out := *d
	out.Changes = []result.Change{}
	for i := range d.Changes {
		if d.Changes[i].Type == xdsType {
			out.Changes = append(out.Changes, d.Changes[i])
		}
	}
	return &out
}

// nothingCompared is the verdict where neither mesh has a proxy, so that no gate
// could trip.
const nothingCompared = "NOTHING COMPARED: neither mesh has a proxy (no pod with an istio-proxy container, and no workload that injection selects)"

// compared is how many proxies either mesh has.
func compared(s result.DiffSummary) int { return s.Proxies + s.Added + s.Removed }

// Verdict is the one line that says it all.
func Verdict(d *result.Diff) string {
	s := d.Summary
	var parts []string
	switch {
	case compared(s) == 0:
		parts = append(parts, nothingCompared)
	case s.Proxies == 0:
		parts = append(parts, "no proxy is in both meshes")
	case s.Changed == 0:
		parts = append(parts, fmt.Sprintf("no difference for %s", count(s.Proxies, "proxy", "proxies")))
	default:
		parts = append(parts, fmt.Sprintf("%d of %s %s, %s", s.Changed, count(s.Proxies, "proxy", "proxies"), verb(s.Changed, "changes", "change"), losers(s)))
		if s.LeastGrowth.Delta() != 0 || s.MostGrowth.Delta() != 0 {
			parts = append(parts, "bytes per connection "+span(s.LeastGrowth.Percent(), s.MostGrowth.Percent(), percent))
		}
	}
	if s.Added > 0 {
		parts = append(parts, count(s.Added, "proxy", "proxies")+" new")
	}
	if s.Removed > 0 {
		gone := count(s.Removed, "proxy", "proxies") + " gone"
		if s.Emptied > 0 {
			gone += fmt.Sprintf(" (all of %s)", count(s.Emptied, "workload", "workloads"))
		}
		parts = append(parts, gone)
	}
	if d.Order.Unsafe != "" {
		parts = append(parts, "NOT SAFE IN ANY ORDER")
	}
	switch {
	case s.Istiod.Delta() != 0 && s.Istiod.Base == 0:
		parts = append(parts, "istiod total "+signed(s.Istiod.Delta()))
	case s.Istiod.Delta() != 0:
		parts = append(parts, fmt.Sprintf("istiod total %s (%s)", signed(s.Istiod.Delta()), percent(s.Istiod.Percent())))
	case s.Changed > 0:
		parts = append(parts, "istiod total unchanged")
	}
	return strings.Join(parts, "; ")
}

// losers tells how many proxies lose something, those first whose callers notice.
func losers(s result.DiffSummary) string {
	switch {
	case s.Lose > 0 && s.LoseUnused > 0:
		return fmt.Sprintf("%d %s something that callers notice, %d only what is unused or served otherwise", s.Lose, verb(s.Lose, "loses", "lose"), s.LoseUnused)
	case s.Lose > 0:
		return fmt.Sprintf("%d %s something that callers notice", s.Lose, verb(s.Lose, "loses", "lose"))
	case s.LoseUnused > 0:
		return fmt.Sprintf("%d %s only what is unused or served otherwise", s.LoseUnused, verb(s.LoseUnused, "loses", "lose"))
	}
	return "none loses anything"
}

func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

type diffWriter struct {
	*errWriter
	o    DiffOptions
	view *diffView
}

// wrap writes text, cut into lines at spaces; a word that is wider than a line
// is cut too. The first line starts with first, the others with rest.
func (w *diffWriter) wrap(first, rest, text string) {
	for _, line := range wrapped(first, rest, Clean(text), w.o.Width) {
		w.linef("%s", line)
	}
}

func wrapped(first, rest, text string, width int) []string {
	var lines []string
	line, empty := first, true
	size := func(s string) int { return len([]rune(s)) }
	flush := func() {
		lines = append(lines, strings.TrimRight(line, " "))
		line, empty = rest, true
	}
	for _, word := range strings.Fields(text) {
		for {
			joined := line + word
			if !empty {
				joined = line + " " + word
			}
			if size(joined) <= width {
				line, empty = joined, false
				break
			}
			if !empty {
				flush()
				continue
			}
			r := []rune(word)
			room := max(1, width-size(line))
			line += string(r[:room])
			word = string(r[room:])
			flush()
		}
	}
	if !empty || len(lines) == 0 {
		flush()
	}
	return lines
}

var diffTitles = map[result.ChangeKind]string{
	result.Lost: "LOST", lostUnused: "LOST, BUT UNUSED OR SERVED OTHERWISE", result.Gained: "GAINED", result.Moved: "MOVED", result.Changed: "CHANGED", result.ResizedOnly: "RESIZED",
}

func (w *diffWriter) changes() {
	blocks := w.view.blocks()
	for _, kind := range blockKinds {
		shown, hidden := 0, 0
		for _, b := range blocks {
			if b.kind != kind {
				continue
			}
			if shown == 0 {
				w.linef("")
				w.linef("%s", w.header.Sprint(diffTitles[kind]))
			}
			if shown == limit(w.o.All, diffBlocks) {
				hidden += len(b.changes)
				continue
			}
			shown++
			w.block(b)
		}
		if hidden > 0 {
			w.linef("  … and %s (--show all)", count(hidden, "more change", "more changes"))
		}
	}
}

func (w *diffWriter) block(b *block) {
	workloads := diffWorkloads
	if w.o.All {
		workloads = limit(true, 0)
	}
	w.wrap("  ", "    ", w.view.who(b.audience, workloads))
	w.wrap("    because ", "      ", b.why())
	for _, r := range b.rows() {
		if r.sees != "" {
			w.wrap("    callers see ", "      ", r.sees)
		}
		if w.o.All || len(r.changes) <= diffLines {
			for _, c := range r.changes {
				w.wrap("    "+sign(b.kind)+" ", "      ", describe(c))
			}
		} else {
			w.wrap("    "+sign(b.kind)+" ", "      ", r.sums()+" of "+r.subjects(diffSubjects))
		}
	}
}

func sign(kind result.ChangeKind) string {
	switch kind {
	case result.Lost, lostUnused:
		return "-"
	case result.Gained:
		return "+"
	case result.Moved:
		return ">"
	}
	return "~"
}

// oneSided tells of proxies that only one side has.
func (w *diffWriter) oneSided(title, sign string, list []result.OneSided) {
	if len(list) == 0 {
		return
	}
	w.linef("")
	w.linef("%s", w.header.Sprint(title))
	texts := w.view.oneSidedTexts(list, limit(w.o.All, diffWorkloads))
	shown := texts[:min(len(texts), limit(w.o.All, diffBlocks))]
	for _, text := range shown {
		w.wrap("  "+sign+" ", "      ", text)
	}
	if rest := len(texts) - len(shown); rest > 0 {
		w.linef("  … and %d more (--show all)", rest)
	}
}

func (w *diffWriter) order() {
	if len(w.view.Order.Hazards) == 0 {
		return
	}
	w.linef("")
	w.linef("%s", w.header.Sprint("ORDER (applied one by one, some orders lose traffic in between)"))
	shown := w.view.Order.Hazards[:min(len(w.view.Order.Hazards), limit(w.o.All, diffLines))]
	for _, h := range shown {
		w.wrap("  ", "    ", fmt.Sprintf("%s before %s: otherwise %s", stepText(w.view.inputs[h.First]), stepText(w.view.inputs[h.Then]), h.Text))
	}
	if rest := len(w.view.Order.Hazards) - len(shown); rest > 0 {
		w.linef("  … and %d more (--show all)", rest)
	}
	if w.view.Order.Unsafe != "" {
		w.wrap("  NOT SAFE IN ANY ORDER: ", "    ", w.view.Order.Unsafe)
		return
	}
	first := w.view.Order.Steps[:min(len(w.view.Order.Steps), limit(w.o.All, diffSteps))]
	steps := make([]string, 0, len(first))
	for i, s := range first {
		steps = append(steps, fmt.Sprintf("%d. %s %s", i+1, s.Do, refName(w.view.inputs[s.Input].Ref())))
	}
	if rest := len(w.view.Order.Steps) - len(first); rest > 0 {
		steps = append(steps, fmt.Sprintf("… and %s (--show all)", count(rest, "more step", "more steps")))
	}
	w.wrap("  safe: ", "    ", strings.Join(steps, "  "))
}

func stepText(in *result.Input) string {
	if in.Change == "removed" {
		return "deletion of " + refName(in.Ref())
	}
	return refName(in.Ref())
}

// refName is refText without the place.
func refName(r result.Ref) string {
	r.Source = result.Source{}
	return refText(r)
}

// push tells what the change itself costs.
func (w *diffWriter) push() {
	p := w.view.Push
	if p.Proxies == 0 && p.Reconnect == "" {
		return
	}
	w.linef("")
	w.linef("%s", w.header.Sprint("PUSH (what istiod sends because of the change)"))
	if p.Reconnect != "" {
		w.wrap("  ", "    ", p.Reconnect)
	}
	w.wrap("  ", "    ", fmt.Sprintf("%s pushed to, %s in all", count(p.Proxies, "proxy", "proxies"), bytesText(p.Bytes)))
	for _, in := range p.Inputs[:min(len(p.Inputs), limit(w.o.All, diffInputs))] {
		w.wrap("  ", "    ", fmt.Sprintf("%s: %s, %s (%s)", inputText(w.view.inputs[in.Input]), count(in.Any, "proxy", "proxies"), bytesText(in.Bytes), in.Text))
	}
	if rest := len(p.Inputs) - limit(w.o.All, diffInputs); rest > 0 {
		w.linef("  … and %s (--show all)", count(rest, "more input", "more inputs"))
	}
	for _, l := range p.Later[:min(len(p.Later), limit(w.o.All, diffInputs))] {
		w.wrap("  later ", "    ", fmt.Sprintf("endpoint changes of %s go to %s instead of %d", l.Service, count(l.Head, "proxy", "proxies"), l.Base))
	}
	if rest := len(p.Later) - limit(w.o.All, diffInputs); rest > 0 {
		w.linef("  … and %s (--show all)", count(rest, "more service", "more services"))
	}
}

// silent names the inputs that no proxy notices.
func (w *diffWriter) silent() {
	var silent []*result.Input
	for i := range w.view.Inputs {
		if in := &w.view.Inputs[i]; in.Changes == 0 && !w.view.decides[in.ID] {
			silent = append(silent, in)
		}
	}
	names := w.view.inputTexts(silent)
	if len(names) == 0 {
		return
	}
	w.linef("")
	title := "CHANGED INPUT THAT NO PROXY NOTICES"
	if w.view.Summary.Added+w.view.Summary.Removed > 0 {
		title = "CHANGED INPUT THAT NO PROXY OF BOTH MESHES NOTICES"
	}
	w.linef("%s", w.header.Sprint(title))
	shown := names[:min(len(names), limit(w.o.All, diffInputs))]
	for _, n := range shown {
		w.wrap("  ", "    ", n)
	}
	if rest := len(names) - len(shown); rest > 0 {
		w.linef("  … and %d more (--show all)", rest)
	}
}

// gaps shows what neither side knows; what is merely assumed only with all.
func (w *diffWriter) gaps() {
	var lines []string
	assumed := 0
	for _, g := range w.view.Gaps {
		switch {
		case g.Kind == result.Unread: // said at the top
		case g.Kind == result.Assumed && !w.o.All:
			assumed++
		default:
			lines = append(lines, GapText(g))
		}
	}
	if len(lines)+assumed == 0 {
		return
	}
	w.linef("")
	w.linef("%s", w.header.Sprint("GAPS (what this answer does not know)"))
	shown := lines[:min(len(lines), limit(w.o.All, gapRows))]
	for _, l := range shown {
		w.wrap("  ", "    ", l)
	}
	if rest := len(lines) - len(shown); rest > 0 {
		w.linef("  … and %s (--show all)", count(rest, "more gap", "more gaps"))
	}
	if assumed > 0 {
		w.linef("  assumed    %s (--show all)", count(assumed, "thing that the input leaves out", "things that the input leaves out"))
	}
}
