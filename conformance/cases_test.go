// Package conformance_test proves the judge: what the project's cases expect
// must hold in its answers.
package conformance_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mesh-audit/mesh-audit/conformance/internal/cases"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// casesVariable may name the folder of cases.
const casesVariable = "MESH_AUDIT_CASES"

// caseDirs lists the folders of cases, or skips the test without any.
func caseDirs(t *testing.T) []string {
	roots := []string{os.Getenv(casesVariable), "../testdata/cases", "../../shared/cases"}
	for _, root := range roots {
		if root == "" {
			continue
		}
		if found, _ := filepath.Glob(filepath.Join(root, "*", "expect.json")); len(found) > 0 {
			var dirs []string
			for _, f := range found {
				dirs = append(dirs, filepath.Dir(f))
			}
			return dirs
		}
	}
	t.Skipf("no cases; set %s to their folder", casesVariable)
	return nil
}

// judgeVariable may name a judge that is built.
const judgeVariable = "MESH_AUDIT_JUDGE"

// buildJudge builds the command under test, unless there is one.
func buildJudge(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv(judgeVariable); bin != "" {
		return bin
	}
	if testing.Short() {
		t.Skip("builds and runs Istio's generators")
	}
	bin := filepath.Join(t.TempDir(), "judge")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", bin, "./cmd/judge").CombinedOutput(); err != nil {
		t.Fatalf("building the judge: %v\n%s", err, out)
	}
	return bin
}

// judge runs the judge on one file.
func judge(t *testing.T, bin, file string) *report.Report {
	t.Helper()
	cmd := exec.Command(bin, "-f", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	r := &report.Report{}
	if err := json.Unmarshal(out, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCases checks every expectation on xDS of every case.
func TestCases(t *testing.T) {
	bin := buildJudge(t)
	for _, dir := range caseDirs(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			want, err := cases.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range checkCase(t, bin, dir, want) {
				t.Error(problem)
			}
		})
	}
}

// checkCase judges a case's mesh, or both of a change.
func checkCase(t *testing.T, bin, dir string, want *cases.Expect) []string {
	input := filepath.Join(dir, "input.yaml")
	if _, err := os.Stat(input); err == nil {
		return want.Check(judge(t, bin, input))
	}
	if want.Base == nil || want.Head == nil {
		t.Skip("no mesh")
	}
	base := judge(t, bin, filepath.Join(dir, "base.yaml"))
	head := judge(t, bin, filepath.Join(dir, "head.yaml"))
	for _, e := range []*cases.Expect{want.Base, want.Head} {
		if e.Proxy == "" {
			e.Proxy = want.Proxy
		}
	}
	var out []string
	for _, p := range want.Base.Check(base) {
		out = append(out, "base: "+p)
	}
	for _, p := range want.Head.Check(head) {
		out = append(out, "head: "+p)
	}
	if want.Diff != nil {
		out = append(out, want.Diff.CheckDiff(want.Proxy, base, head)...)
	}
	return out
}
