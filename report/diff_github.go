package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// annotationsShown is how many annotations of each level GitHub shows of a step
// (docs.github.com: Workflow commands for GitHub Actions, limits of annotations).
const annotationsShown = 10

// DiffGitHub writes one workflow command for each changed object and each kind
// of change, worst first: GitHub shows them on the changed lines. What could not
// be read is an error, a loss a warning, all else a notice. Those that GitHub
// would not show are counted in a last notice.
func DiffGitHub(out io.Writer, d *result.Diff, places Places) error {
	w := &errWriter{w: out}
	left := map[string]int{"error": annotationsShown, "warning": annotationsShown, "notice": annotationsShown - 1}
	hidden := 0
	for _, f := range diffFindings(d, places) {
		level := findingLevels[f.kind]
		if level == "" {
			level = "notice"
		}
		if left[level]--; left[level] < 0 {
			hidden++
			continue
		}
		lines := make([]string, len(f.lines))
		for i, line := range f.lines {
			lines[i] = data(line)
		}
		w.linef("::%s %stitle=%s::%s", level, annotationPlace(f.source), property(f.title), strings.Join(lines, "%0A"))
	}
	if hidden > 0 {
		w.linef("::notice title=mesh-audit::%s: GitHub shows %d of a level; the other formats have all", count(hidden, "more finding has no annotation", "more findings have no annotations"), annotationsShown)
	}
	return w.err
}

// Kinds of findings on proxies that only one side has, or that are on neither.
const (
	nothing      result.ChangeKind = "nothing compared"
	goneProxies  result.ChangeKind = "gone"  // all of a workload
	fewerProxies result.ChangeKind = "fewer" // others of the workload are left
	newProxies   result.ChangeKind = "new"
)

// findingLevels are the levels of annotations that are no notices.
var findingLevels = map[result.ChangeKind]string{unreadInput: "error", nothing: "warning", goneProxies: "warning", result.Lost: "warning"}

func annotationPlace(s result.Source) string {
	place := ""
	if s.File != "" {
		place = "file=" + property(s.File) + ","
	}
	if s.Line > 0 {
		place += fmt.Sprintf("line=%d,", s.Line)
	}
	return place
}

// data and property escape as GitHub's toolkit does (actions/toolkit
// packages/core/src/command.ts: escapeData, escapeProperty).
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(Clean(s))
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}

// diffFinding is what one changed object does, of one kind of change.
type diffFinding struct {
	kind   result.ChangeKind
	source result.Source // zero: in no file
	title  string
	lines  []string
}

// findingTitles say what an input does to proxies.
var findingTitles = map[result.ChangeKind]string{
	goneProxies: "proxies that are gone", result.Lost: "what is lost", lostUnused: "what is lost, but unused or served otherwise,", result.Gained: "what is gained",
	result.Moved: "what moves", result.Changed: "what changes", result.ResizedOnly: "what has another size", fewerProxies: "fewer proxies of a workload", newProxies: "new proxies",
}

// Places turns the place of an object into the one that it is annotated at; the
// zero Source: at none. gone: the place is in the base, of an object that the
// head does not have. A nil Places leaves all as it is.
type Places func(place result.Source, gone bool) result.Source

func (p Places) of(s result.Source, gone bool) result.Source {
	if p == nil {
		return s
	}
	return p(s, gone)
}

// diffFindings are what could not be read, and what each changed object does, by
// kind of change and in the order of the report; a workload that loses all its
// proxies comes before what others lose.
func diffFindings(d *result.Diff, places Places) []diffFinding {
	f := &findings{view: viewOf(d), places: places, index: map[findingKey]int{}, list: unreadFindings(d, places)}
	if compared(d.Summary) == 0 {
		f.list = append(f.list, diffFinding{kind: nothing, title: "mesh-audit", lines: []string{nothingCompared}})
	}
	f.oneSided(goneProxies, d.Gone, func(one *result.OneSided) bool { return one.Left == 0 })
	for _, b := range f.view.blocks() {
		var lines []string
		for _, r := range b.rows() {
			line := r.sums() + " of " + r.subjects(diffSubjects)
			if r.sees != "" {
				line += "; callers see " + r.sees
			}
			lines = append(lines, line+" ("+f.view.who(b.audience, diffSubjects)+")")
		}
		f.add(b.kind, b.inputs, lines...)
	}
	f.oneSided(fewerProxies, d.Gone, func(one *result.OneSided) bool { return one.Left > 0 })
	f.oneSided(newProxies, d.New, func(*result.OneSided) bool { return true })
	return f.list
}

type findingKey struct {
	kind  result.ChangeKind
	input string
}

type findings struct {
	view   *diffView
	places Places
	index  map[findingKey]int
	list   []diffFinding
}

// add notes lines for each of the inputs; where none is known, for no place.
func (f *findings) add(kind result.ChangeKind, inputs []*result.Input, lines ...string) {
	if len(inputs) == 0 {
		inputs = []*result.Input{{}}
	}
	for _, in := range inputs {
		k := findingKey{kind, in.ID}
		if i, ok := f.index[k]; ok {
			f.list[i].lines = append(f.list[i].lines, lines...)
			continue
		}
		f.index[k] = len(f.list)
		by := "by this change of " + cleanName(in)
		if in.ID == "" {
			by = "(cause not known)"
		}
		f.list = append(f.list, diffFinding{
			kind: kind, source: f.places.of(in.Ref().Source, in.Head.IsZero()), lines: lines,
			title: fmt.Sprintf("mesh-audit: %s %s", findingTitles[kind], by),
		})
	}
}

// oneSided notes the proxies that only one side has, of which is holds.
func (f *findings) oneSided(kind result.ChangeKind, list []result.OneSided, is func(*result.OneSided) bool) {
	for i := range list {
		if is(&list[i]) {
			f.add(kind, f.view.inputsOf(&list[i]), oneSidedWho(&list[i]))
		}
	}
}

func cleanName(in *result.Input) string {
	if in.Kind == result.InputObject {
		return refName(in.Ref())
	}
	return in.Text
}
