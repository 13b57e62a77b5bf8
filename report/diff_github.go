package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// DiffGitHub writes one workflow command for each changed object that stands in
// a file and each kind of change: GitHub shows them on the changed lines. Losses
// are warnings, all else notices.
func DiffGitHub(out io.Writer, d *result.Diff) error {
	w := &errWriter{w: out}
	for _, f := range diffFindings(d) {
		level := "notice"
		if f.kind == result.Lost {
			level = "warning"
		}
		place := ""
		if f.source.File != "" {
			place = fmt.Sprintf("file=%s,line=%d,", property(f.source.File), max(1, f.source.Line))
		}
		lines := make([]string, len(f.lines))
		for i, line := range f.lines {
			lines[i] = data(line)
		}
		w.linef("::%s %stitle=%s::%s", level, place, property(f.title), strings.Join(lines, "%0A"))
	}
	return w.err
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

// diffFindings are what each changed object does, by kind of change and in the
// order of the report. A removed object has its place in the base, which may
// not be in the files at hand; it is told without one.
func diffFindings(d *result.Diff) []diffFinding {
	type key struct {
		kind  result.ChangeKind
		input string
	}
	v := viewOf(d)
	index := map[key]int{}
	var out []diffFinding
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
				kind: b.kind, input: in, source: in.Head.Source, lines: lines,
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
