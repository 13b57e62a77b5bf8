package report

import (
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// sarifRules are the kinds of changes as SARIF rules.
var sarifRules = map[result.ChangeKind]struct{ id, level, text string }{
	unreadInput:        {"mesh-diff/unread", "error", "Input that the answer needs could not be read"},
	nothing:            {"mesh-diff/nothing-compared", "warning", "Neither mesh has a proxy"},
	goneProxies:        {"mesh-diff/gone", "warning", "A workload loses all its proxies"},
	result.Lost:        {"mesh-diff/lost", "warning", "Proxies lose a resource, or a part of one"},
	lostUnused:         {"mesh-diff/lost-unused", "note", "Proxies lose what is unused or served otherwise"},
	result.Gained:      {"mesh-diff/gained", "note", "Proxies gain a resource, or a part of one"},
	result.Moved:       {"mesh-diff/moved", "note", "A resource or part goes under another name"},
	result.Changed:     {"mesh-diff/changed", "note", "A resource or part has another content"},
	result.ResizedOnly: {"mesh-diff/resized", "note", "A resource carries other amounts of the same"},
	fewerProxies:       {"mesh-diff/fewer", "note", "A workload has fewer proxies"},
	newProxies:         {"mesh-diff/new", "note", "There are new proxies"},
}

const projectURI = "https://github.com/mesh-audit/mesh-audit"

// mostResults is how many results GitHub's code scanning keeps of a run; it
// refuses one with more than 25,000 (docs.github.com, "SARIF support for code
// scanning").
const mostResults = 5000

// DiffSARIF writes a SARIF 2.1.0 log with one result for each changed object
// that stands in a file and each kind of change. Code scanning takes no result
// without a place: what else changed is in notifications, and so is how many
// results, the last of the report, are left out because GitHub keeps no more.
func DiffSARIF(out io.Writer, d *result.Diff, version string, places Places) error {
	run := sarif.NewRunWithInformationURI("mesh-audit", projectURI)
	run.Tool.Driver.WithVersion(version)
	for _, kind := range slices.Concat([]result.ChangeKind{unreadInput, nothing, goneProxies}, blockKinds, []result.ChangeKind{fewerProxies, newProxies}) {
		rule := sarifRules[kind]
		run.AddRule(rule.id).WithDescription(rule.text)
	}
	invocation := sarif.NewInvocation().WithExecutionSuccessful(len(unreadOf(d)) == 0)
	left := 0
	for _, f := range diffFindings(d, places) {
		if f.source.File != "" && len(run.Results) == mostResults {
			left++
			continue
		}
		rule := sarifRules[f.kind]
		lines := make([]string, len(f.lines))
		for i, line := range f.lines {
			lines[i] = Clean(line)
		}
		message := sarif.NewTextMessage(Clean(f.title) + "\n" + strings.Join(lines, "\n"))
		if f.source.File == "" {
			invocation.AddToolExecutionNotification(sarif.NewNotification().WithLevel(rule.level).WithMessage(message))
			continue
		}
		place := sarif.NewPhysicalLocation().WithArtifactLocation(sarif.NewSimpleArtifactLocation(reference(f.source.File)))
		if f.source.Line > 0 {
			place.WithRegion(sarif.NewSimpleRegion(f.source.Line, f.source.Line))
		}
		run.CreateResultForRule(rule.id).WithLevel(rule.level).WithMessage(message).
			AddLocation(sarif.NewLocationWithPhysicalLocation(place))
	}
	if left > 0 {
		invocation.AddToolExecutionNotification(sarif.NewNotification().WithLevel("warning").WithMessage(sarif.NewTextMessage(
			strconv.Itoa(left) + " more results are left out: code scanning keeps " + strconv.Itoa(mostResults) + " of a run; -o json has all")))
	}
	run.AddInvocation(invocation)
	log := sarif.NewReport()
	log.AddRun(run)
	if err := log.PrettyWrite(out); err != nil {
		return err
	}
	_, err := io.WriteString(out, "\n")
	return err
}

// reference is a file's path as a relative URI.
func reference(file string) string { return (&url.URL{Path: filepath.ToSlash(file)}).String() }
