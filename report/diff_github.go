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

// findingLevels are the levels of annotations that are no notices.
var findingLevels = map[result.ChangeKind]string{unreadInput: "error", result.Lost: "warning"}

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
	input  *result.Input
	source result.Source // zero: in no file
	title  string
	lines  []string
}

// findingVerbs say what an input does to proxies.
var findingVerbs = map[result.ChangeKind]string{
	result.Lost: "is lost", lostUnused: "is lost, but unused or served otherwise,", result.Gained: "is gained", result.Moved: "moves", result.Changed: "changes", result.ResizedOnly: "has another size",
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
// kind of change and in the order of the report.
func diffFindings(d *result.Diff, places Places) []diffFinding {
	type key struct {
		kind  result.ChangeKind
		input string
	}
	v := viewOf(d)
	index := map[key]int{}
	out := unreadFindings(d, places)
	for _, b := range v.blocks() {
		for _, in := range b.inputs {
			k := key{b.kind, in.ID}
			var lines []string
			for _, r := range b.rows() {
				line := r.sums() + " of " + r.subjects(diffSubjects)
				if r.sees != "" {
					line += "; callers see " + r.sees
				}
				lines = append(lines, line+" ("+v.who(b.audience, diffSubjects)+")")
			}
			if i, ok := index[k]; ok {
				out[i].lines = append(out[i].lines, lines...)
				continue
			}
			index[k] = len(out)
			out = append(out, diffFinding{
				kind: b.kind, input: in, source: places.of(in.Ref().Source, in.Head.IsZero()), lines: lines,
				title: fmt.Sprintf("mesh-audit: what %s by this change of %s", findingVerbs[b.kind], cleanName(in)),
			})
		}
	}
	return out
}

func cleanName(in *result.Input) string {
	if in.Kind == result.InputObject {
		return refName(in.Ref())
	}
	return in.Text
}
