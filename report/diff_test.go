package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/report"
)

// sampleDiff has a change of every kind, and hostile names wherever one is shown.
func sampleDiff() *result.Diff {
	rule, none := "shop/"+hostile, ""
	match, name := "sni:"+hostile, hostile+":80"
	refOf := func(kind, object string, line int) result.Ref {
		return result.Ref{Kind: kind, Namespace: "shop", Name: object, Source: result.Source{File: "head,a:b%.yaml", Line: line}}
	}
	const cluster = "outbound|80|v1|cart.shop.svc.cluster.local"
	return &result.Diff{
		APIVersion: result.APIVersion, Kind: result.KindDiffReport,
		Base: result.DiffSide{Label: "main/", Mesh: sample().Mesh}, Head: result.DiffSide{Label: "branch/", Mesh: sample().Mesh},
		Summary: result.DiffSummary{
			Proxies: 5, Changed: 3, Lose: 2, LoseUnused: 1, Added: 1, Removed: 2, Emptied: 1, Lost: 4, Gained: 1, Moved: 1, Altered: 1, Resized: 1,
			LeastGrowth: result.Growth{Base: 1000, Head: 800}, MostGrowth: result.Growth{Base: 1000, Head: 1000}, Istiod: result.Growth{Base: 91000, Head: 90000},
		},
		Inputs: []result.Input{
			{ID: "i1", Kind: result.InputObject, Change: "changed", Base: refOf("DestinationRule", hostile, 3), Head: refOf("DestinationRule", hostile, 4), Changes: 4, Proxies: 3, Fields: []result.FieldChange{
				{Path: "metadata.labels[" + hostile + "]", After: hostile}, {Path: "spec.trafficPolicy.tls.mode", Before: "ISTIO_MUTUAL", After: "DISABLE"},
				{Path: "spec.subsets[1]", Before: `{"name":"` + strings.Repeat("v", 80) + `"}`}, {Path: "spec.host", Before: "a", After: "b"},
			}},
			{ID: "i2", Kind: result.InputObject, Change: "removed", Base: refOf("VirtualService", "cart", 9), Changes: 2, Proxies: 2},
			{ID: "i3", Kind: result.InputFlags, Change: "changed", Text: "PILOT_X: unset -> true", Changes: 1, Proxies: 1},
			{ID: "i4", Kind: result.InputObject, Change: "added", Head: refOf("Gateway", "unseen", 30)},
			{ID: "i5", Kind: result.InputObject, Change: "removed", Base: refOf("Pod", "old-0", 0)}, {ID: "i6", Kind: result.InputObject, Change: "removed", Base: refOf("Pod", "old-1", 0)},
		},
		Gone: []result.OneSided{
			{Kind: result.Sidecar, Namespace: "shop", Workload: "deployment/" + hostile, Proxies: []string{"old-0"}, Bytes: result.Bytes{Total: 1000}, Left: 2, Inputs: []string{"i5", "i6"}},
			{Kind: result.Router, Namespace: "edge", Proxies: []string{hostile}, Bytes: result.Bytes{Total: 2000}, Inputs: []string{"i4"}},
		},
		New: []result.OneSided{{Kind: result.Sidecar, Namespace: "shop", Workload: "deployment/new", Proxies: []string{"new-0"}, Bytes: result.Bytes{Total: 3000}}},
		Groups: []result.DiffGroup{
			{ID: "d1", Kind: result.Sidecar, Namespace: "shop", Workload: "deployment/" + hostile, Proxies: []string{"cart-0", "cart-1"}, BaseScope: "default scope", HeadScope: "default scope", Lose: true},
			{ID: "d2", Kind: result.Router, Namespace: "edge", Proxies: []string{"gw-0"}, BaseScope: "gateways of edge", HeadScope: "gateways of edge", Lose: true},
		},
		Audiences: []result.Audience{{ID: "a1", Groups: []string{"d1", "d2"}, Proxies: 3}, {ID: "a2", Groups: []string{"d1"}, Proxies: 2}},
		Changes: []result.Change{
			{Kind: result.Lost, Type: "cds", Resource: cluster, Service: "cart.shop.svc.cluster.local", Before: []result.Part{{Type: "EDS", Rule: &rule}}, Sees: "503 NC", Inputs: []string{"i1"}, Audience: "a1", LeastBytes: -900, MostBytes: -900},
			{Kind: result.Lost, Type: "eds", Resource: cluster, Service: "cart.shop.svc.cluster.local", Before: []result.Part{{Endpoints: new(2)}}, Inputs: []string{"i1"}, Audience: "a1", LeastBytes: -90, MostBytes: -90},
			{Kind: result.Lost, Type: "rds", Resource: "80", Part: &name, Before: []result.Part{{Name: name, Domains: []string{hostile}, To: []string{cluster}}}, Sees: "404 NR", Inputs: []string{"i1", "i2"}, Audience: "a2", LeastBytes: -50, MostBytes: -50},
			{Kind: result.Changed, Type: "rds", Resource: "81", Part: &name, Before: []result.Part{{Name: name, To: []string{"a"}}}, After: []result.Part{{Name: name, To: []string{hostile}}}, Fields: []string{"to"}, Fails: []string{"503 NC of " + hostile}, Sees: "503 NC of " + hostile, Inputs: []string{"i1"}, Audience: "a2"},
			{Kind: result.Lost, Type: "cds", Resource: "outbound|81||unused", Before: []result.Part{{Type: "EDS"}}, Harmless: true, Inputs: []string{"i2"}, Audience: "a1"},
			{Kind: result.Lost, Type: "cds", Resource: "outbound|82||served", Before: []result.Part{{Type: "EDS"}}, Sees: "listener " + hostile + " instead", Harmless: true, Inputs: []string{"i2"}, Audience: "a1"},
			{Kind: result.Gained, Type: "lds", Resource: "0.0.0.0_443", Part: &match, After: []result.Part{{Match: &match, To: []string{"cluster " + cluster}}}, Inputs: []string{"i2"}, Audience: "a2", LeastBytes: 10, MostBytes: 20},
			{Kind: result.Moved, Type: "lds", Resource: "0.0.0.0_9000", To: "240.0.0.10_9000", Before: []result.Part{{Match: &none}}, After: []result.Part{{Match: &none}}, Inputs: []string{"i3"}, Audience: "a2"},
			{Kind: result.Changed, Type: "cds", Resource: "outbound|80||x", Before: []result.Part{{Type: "EDS", Rule: &none}}, After: []result.Part{{Type: "STRICT_DNS", Rule: &rule}}, Fields: []string{"type", "rule"}, Inputs: []string{"i1"}, Audience: "a2"},
			{Kind: result.ResizedOnly, Type: "eds", Resource: "outbound|80||x", Before: []result.Part{{Endpoints: new(2)}}, After: []result.Part{{Endpoints: new(5)}}, Fields: []string{"endpoints"}, Inputs: []string{"i1"}, Audience: "a2", LeastBytes: 90, MostBytes: 90},
		},
		Order: result.Order{
			Hazards: []result.Hazard{{First: "i2", Then: "i1", Text: "503 NC for callers of " + hostile}},
			Steps:   []result.Step{{Input: "i2", Do: "delete"}, {Input: "i1", Do: "apply"}},
		},
		Push: result.Push{
			Proxies: 3, Bytes: 12345,
			Inputs: []result.InputPush{{Input: "i1", Proxies: result.XDS[int]{LDS: 3, RDS: 3}, Any: 3, Bytes: 12345, Text: "to sidecars"}},
			Later:  []result.LaterPush{{Service: hostile, Namespace: "shop", Base: 3, Head: 1, Bytes: 90}},
		},
		Gaps: []result.Gap{
			{Kind: result.Unmodelled, Object: refOf("EnvoyFilter", hostile, 2), Text: "a patch", All: true},
			{Kind: result.Assumed, Text: "3 Pods from the templates of 2 workloads"},
		},
	}
}

func TestDiffGolden(t *testing.T) {
	d := sampleDiff()
	for name, render := range map[string]func(io.Writer) error{
		"diff.txt":     func(w io.Writer) error { return report.Diff(w, d, report.DiffOptions{Width: 120}) },
		"diff-all.txt": func(w io.Writer) error { return report.Diff(w, d, report.DiffOptions{Width: 120, All: true}) },
		"diff-cds.txt": func(w io.Writer) error { return report.Diff(w, d, report.DiffOptions{Width: 120, Type: "cds"}) },
		"diff.md":      func(w io.Writer) error { return report.DiffMarkdown(w, d) },
		"diff.sarif":   func(w io.Writer) error { return report.DiffSARIF(w, d, "v1.2.3", nil) },
		"diff.github":  func(w io.Writer) error { return report.DiffGitHub(w, d, nil) },
		"diff.json":    func(w io.Writer) error { return report.DiffJSON(w, d) },
		"diff.yaml":    func(w io.Writer) error { return report.DiffYAML(w, d) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := render(&out); err != nil {
				t.Fatal(err)
			}
			text := out.String()
			data := strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".yaml")
			if strings.ContainsRune(text, '\x1b') || !data && strings.ContainsRune(text, '\u202e') {
				t.Error("the output has a raw control character")
			}
			if strings.HasSuffix(name, ".txt") {
				for line := range strings.Lines(text) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 {
						t.Errorf("%d columns: %s", n, line)
					}
				}
			}
			golden(t, name, out.Bytes())
		})
	}
}

// TestDiffFormats: SARIF holds SARIF's schema, JSON ours, and no name makes a
// workflow command or HTML of its own.
func TestDiffFormats(t *testing.T) {
	d := sampleDiff()
	var out bytes.Buffer
	if err := report.DiffSARIF(&out, d, "v1.2.3", nil); err != nil {
		t.Fatal(err)
	}
	log, err := sarif.FromBytes(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Validate(); err != nil {
		t.Error(err)
	}
	out.Reset()
	if err := report.DiffJSON(&out, d); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile("../docs/diff-report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
	out.Reset()
	if err := report.DiffGitHub(&out, d, nil); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "::warning ") && !strings.HasPrefix(line, "::notice ") {
			t.Errorf("not one command a line: %q", line)
		}
	}
	out.Reset()
	if err := report.DiffMarkdown(&out, d); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "<script>") && !strings.Contains(out.String(), "`") {
		t.Error("a name is HTML")
	}
}

// TestMarkdownLimit: however much changes, the comment is one that GitHub takes,
// its sections are closed, and what is left out is counted.
func TestMarkdownLimit(t *testing.T) {
	d := sampleDiff()
	for i := range 20000 {
		in := result.Input{ID: fmt.Sprintf("x%d", i), Kind: result.InputObject, Change: "removed", Base: result.Ref{Kind: "Service", Namespace: "shop", Name: strings.Repeat("é", 60) + fmt.Sprint(i)}}
		d.Inputs = append(d.Inputs, in)
		d.Changes = append(d.Changes, result.Change{
			Kind: result.ChangeKinds[i%len(result.ChangeKinds)], Type: "cds", Resource: fmt.Sprintf("outbound|80||%s%d", strings.Repeat("x", i%3000), i),
			Inputs: []string{in.ID}, Audience: "a1", Sees: strings.Repeat("y", i%500),
		})
	}
	var out bytes.Buffer
	if err := report.DiffMarkdown(&out, d); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if len(text) > 65536 {
		t.Errorf("%d bytes", len(text))
	}
	if strings.Count(text, "<details>") != strings.Count(text, "</details>") {
		t.Error("a section is not closed")
	}
	if !strings.Contains(text, "more entries did not fit") {
		t.Error("what is left out is not counted")
	}
}

// TestDiffWriteErrors: no renderer swallows an error of the output.
func TestDiffWriteErrors(t *testing.T) {
	d := sampleDiff()
	for name, err := range map[string]error{
		"text": report.Diff(failing{}, d, report.DiffOptions{}), "json": report.DiffJSON(failing{}, d), "yaml": report.DiffYAML(failing{}, d),
		"markdown": report.DiffMarkdown(failing{}, d), "sarif": report.DiffSARIF(failing{}, d, "", nil), "github": report.DiffGitHub(failing{}, d, nil),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// lostAndGained is a diff in which each of n changed Services makes a proxy lose
// something and gain something.
func lostAndGained(n int) *result.Diff {
	d := &result.Diff{
		Summary:   result.DiffSummary{Proxies: 1, Changed: 1},
		Groups:    []result.DiffGroup{{ID: "d1", Namespace: "shop", Proxies: []string{"p"}}},
		Audiences: []result.Audience{{ID: "a1", Groups: []string{"d1"}, Proxies: 1}},
	}
	for i := range n {
		id := strconv.Itoa(i)
		d.Inputs = append(d.Inputs, result.Input{ID: id, Kind: result.InputObject, Change: "changed", Head: result.Ref{Kind: "Service", Name: id, Source: result.Source{File: "b.yaml", Line: i + 1}}})
		d.Changes = append(d.Changes,
			result.Change{Kind: result.Gained, Type: "cds", Resource: "gained" + id, Inputs: []string{id}, Audience: "a1"},
			result.Change{Kind: result.Lost, Type: "cds", Resource: "lost" + id, Sees: "404", Inputs: []string{id}, Audience: "a1"})
	}
	return d
}

// TestAnnotationLimits: GitHub shows ten annotations of a level, so that the
// worst come first and the rest is counted.
func TestAnnotationLimits(t *testing.T) {
	d := lostAndGained(12)
	for i := range d.Inputs {
		in := &d.Inputs[i]
		in.Change, in.Base, in.Head = "removed", in.Head, result.Ref{}
		d.Diagnostics = append(d.Diagnostics, result.Diagnostic{Source: result.Source{File: "a.yaml", Line: i + 1}, Text: "bad"})
	}
	var out bytes.Buffer
	gone := func(s result.Source, gone bool) result.Source {
		if gone {
			s.Line = 0
		}
		return s
	}
	if err := report.DiffGitHub(&out, d, gone); err != nil {
		t.Fatal(err)
	}
	var levels []string
	for line := range strings.Lines(out.String()) {
		level, _, _ := strings.Cut(line, " ")
		if len(levels) == 0 || !strings.HasPrefix(levels[len(levels)-1], level) {
			levels = append(levels, level)
		}
		levels[len(levels)-1] += "."
	}
	want := []string{"::error..........", "::warning..........", "::notice.........."}
	if !slices.Equal(levels, want) {
		t.Errorf("%v, want %v", levels, want)
	}
	for _, text := range []string{"::error file=a.yaml,line=1,", "::warning file=b.yaml,title=", "::7 more findings have no annotations"} {
		if !strings.Contains(out.String(), text) {
			t.Errorf("no %q in:\n%s", text, out.String())
		}
	}
}

// TestSARIFLimit: GitHub keeps 5,000 results of a run. The worst are kept, and
// what is left out is said.
func TestSARIFLimit(t *testing.T) {
	d := lostAndGained(3000)
	var out bytes.Buffer
	if err := report.DiffSARIF(&out, d, "v1", nil); err != nil {
		t.Fatal(err)
	}
	var log struct {
		Runs []struct {
			Results     []struct{ RuleID string }
			Invocations []struct {
				ToolExecutionNotifications []struct{ Message struct{ Text string } }
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &log); err != nil {
		t.Fatal(err)
	}
	rules := map[string]int{}
	for _, r := range log.Runs[0].Results {
		rules[r.RuleID]++
	}
	if rules["mesh-diff/lost"] != 3000 || rules["mesh-diff/gained"] != 2000 {
		t.Errorf("%v, want 3000 lost and 2000 gained", rules)
	}
	if told := log.Runs[0].Invocations[0].ToolExecutionNotifications; len(told) != 1 || !strings.HasPrefix(told[0].Message.Text, "1000 more results are left out") {
		t.Errorf("told %+v", told)
	}
}

// TestVerdict: meshes without proxies are never told as equal, in any format.
func TestVerdict(t *testing.T) {
	for want, s := range map[string]result.DiffSummary{
		"NOTHING COMPARED: neither mesh has a proxy (no pod with an istio-proxy container, and no workload that injection selects)": {},
		"no difference for 2 proxies":                                                                     {Proxies: 2},
		"no proxy is in both meshes; 2 proxies new; istiod total +1.5 kB":                                 {Added: 2, Istiod: result.Growth{Head: 1500}},
		"no proxy is in both meshes; 2 proxies gone (all of 1 workload); istiod total −1.5 kB (−100.0 %)": {Removed: 2, Emptied: 1, Istiod: result.Growth{Base: 1500}},
		"no difference for 2 proxies; 1 proxy new; istiod total +1.0 kB (+50.0 %)":                        {Proxies: 2, Added: 1, Istiod: result.Growth{Base: 2000, Head: 3000}},
		"1 of 2 proxies changes, 1 loses something that callers notice; bytes per connection −50.0 % … ±0 %; istiod total −1.0 kB (−25.0 %)": {
			Proxies: 2, Changed: 1, Lose: 1, LeastGrowth: result.Growth{Base: 2000, Head: 1000}, MostGrowth: result.Growth{Base: 2000, Head: 2000}, Istiod: result.Growth{Base: 4000, Head: 3000},
		},
	} {
		if have := report.Verdict(&result.Diff{Summary: s}); have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
	for name, render := range map[string]func(io.Writer) error{
		"text":     func(w io.Writer) error { return report.Diff(w, &result.Diff{}, report.DiffOptions{}) },
		"markdown": func(w io.Writer) error { return report.DiffMarkdown(w, &result.Diff{}) },
		"github":   func(w io.Writer) error { return report.DiffGitHub(w, &result.Diff{}, nil) },
		"sarif":    func(w io.Writer) error { return report.DiffSARIF(w, &result.Diff{}, "v1", nil) },
	} {
		var out bytes.Buffer
		if err := render(&out); err != nil || !strings.Contains(out.String(), "NOTHING COMPARED") {
			t.Errorf("%s: %v\n%s", name, err, out.String())
		}
	}
}

// TestOrderLimit: the first screen does not list thousands of steps.
func TestOrderLimit(t *testing.T) {
	d := &result.Diff{Summary: result.DiffSummary{Proxies: 1}, Order: result.Order{Hazards: []result.Hazard{{First: "i0", Then: "i1", Text: "503 NC"}}}}
	for i := range 100 {
		id := "i" + strconv.Itoa(i)
		d.Inputs = append(d.Inputs, result.Input{ID: id, Kind: result.InputObject, Change: "added", Head: result.Ref{Kind: "Service", Name: id}, Changes: 1})
		d.Order.Steps = append(d.Order.Steps, result.Step{Input: id, Do: "apply"})
	}
	var out bytes.Buffer
	if err := report.Diff(&out, d, report.DiffOptions{}); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, "12. apply Service i11 … and 88 more steps (--show all)") || strings.Contains(text, "i12") {
		t.Error(text)
	}
	out.Reset()
	if err := report.Diff(&out, d, report.DiffOptions{All: true}); err != nil || !strings.Contains(out.String(), "100. apply Service i99") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestOneSidedTogether: workloads that come or go by the same cause are one line.
func TestOneSidedTogether(t *testing.T) {
	d := &result.Diff{Summary: result.DiffSummary{Removed: 7}, Inputs: []result.Input{
		{ID: "i1", Kind: result.InputObject, Change: "removed", Base: result.Ref{Kind: "Namespace", Name: "shop"}},
		{ID: "i2", Kind: result.InputObject, Change: "changed", Base: result.Ref{Kind: "Deployment", Namespace: "shop", Name: "few"}, Head: result.Ref{Kind: "Deployment", Namespace: "shop", Name: "few"}},
	}}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		d.Gone = append(d.Gone, result.OneSided{Namespace: "shop", Workload: "deployment/" + name, Proxies: []string{name + "-0"}, Bytes: result.Bytes{Total: int64(1000 + 100*i)}, Inputs: []string{"i1"}})
	}
	d.Gone = append(d.Gone, result.OneSided{Namespace: "shop", Workload: "deployment/few", Proxies: []string{"few-1", "few-2"}, Bytes: result.Bytes{Total: 500}, Left: 1, Inputs: []string{"i2"}})
	want := []string{
		"  - 5 proxies: shop/a, shop/b, shop/c, shop/d and 1 more workload (1.0 kB … 1.4 kB each), because Namespace shop removed",
		"  - 2 proxies of shop/few (500 B each), beside 1 that both sides have, because Deployment shop/few changed",
	}
	var out bytes.Buffer
	if err := report.Diff(&out, d, report.DiffOptions{Width: 200}); err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "  - ") {
			have = append(have, strings.TrimSuffix(line, "\n"))
		}
	}
	if !slices.Equal(have, want) {
		t.Errorf("%q", have)
	}
}

// TestMarkdownLinks: GitHub makes no link, mention or HTML of a name (GFM, 6.9
// "Autolinks (extension)": www. and ://).
func TestMarkdownLinks(t *testing.T) {
	d := &result.Diff{Summary: result.DiffSummary{Proxies: 1}, Diagnostics: []result.Diagnostic{
		{Text: "www.evil.example https://evil.example [a](b) ![a](b) @team <b> org/repo#1 `c` |"},
	}}
	var out bytes.Buffer
	if err := report.DiffMarkdown(&out, d); err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(out.String(), "\n- ")
	for _, markup := range []string{"www.", "://", " [a]", " ![", "@team", "<b>", "repo#", " `c"} {
		if strings.Contains(list, markup) {
			t.Errorf("%q in %s", markup, list)
		}
	}
}
