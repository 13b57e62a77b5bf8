package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// outcome is what a command did.
type outcome struct {
	status         int
	stdout, stderr string
	took           time.Duration
}

// command prepares "kubectl ARGS" as the user of a kubeconfig, with the plugin
// on the PATH.
func command(t testing.TB, kubeconfig string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(bin("kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+t.TempDir(),
		"PATH="+strings.Join([]string{filepath.Dir(plugin()), filepath.Join(root, "e2e", "bin"), os.Getenv("PATH")}, ":"))
	return cmd
}

// finish runs a command to its end.
func finish(t testing.TB, cmd *exec.Cmd) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	begun := time.Now()
	err := cmd.Run()
	o := outcome{stdout: out.String(), stderr: errs.String(), took: time.Since(begun)}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		o.status = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return o
}

// kubectl runs "kubectl ARGS", which must succeed, and returns what it prints.
func kubectl(t testing.TB, kubeconfig string, args ...string) string {
	t.Helper()
	o := finish(t, command(t, kubeconfig, args...))
	if o.status != 0 {
		t.Fatalf("kubectl %v: exit status %d\n%s", args, o.status, o.stderr)
	}
	return o.stdout
}

// audit runs "kubectl mesh-audit ARGS".
func audit(t testing.TB, kubeconfig string, args ...string) outcome {
	t.Helper()
	return finish(t, command(t, kubeconfig, append([]string{"mesh-audit"}, args...)...))
}

// mustAudit is audit that must end with status 0.
func mustAudit(t testing.TB, kubeconfig string, args ...string) outcome {
	t.Helper()
	o := audit(t, kubeconfig, args...)
	if o.status != 0 {
		t.Fatalf("kubectl mesh-audit %v: exit status %d\n%s\n%s", args, o.status, o.stderr, o.stdout)
	}
	return o
}

// gap is one of a report's gaps.
type gap struct {
	Kind   string `json:"kind"`
	Text   string `json:"text"`
	Object struct {
		Kind string `json:"kind"`
	} `json:"object"`
}

// scopeReport is what of scope -o json the tests look at.
type scopeReport struct {
	Mesh struct {
		Partial  string `json:"partial"`
		Proxies  int    `json:"proxies"`
		Services int    `json:"services"`
		Totals   struct {
			Bytes int64 `json:"bytes"`
		} `json:"totals"`
	} `json:"mesh"`
	Gaps []gap `json:"gaps"`
}

func (r *scopeReport) unread() (texts []string) {
	for _, g := range r.Gaps {
		if g.Kind == "unread" {
			texts = append(texts, g.Text)
		}
	}
	return texts
}

func decode(t testing.TB, o outcome) *scopeReport {
	t.Helper()
	r := &scopeReport{}
	if err := json.Unmarshal([]byte(o.stdout), r); err != nil {
		t.Fatalf("%v\n%s\n%s", err, o.stderr, o.stdout)
	}
	return r
}

// sourceless is a JSON document without the places that objects were read from.
func sourceless(t testing.TB, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	dropSources(v)
	out, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func dropSources(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "source")
		for _, e := range v {
			dropSources(e)
		}
	case []any:
		for _, e := range v {
			dropSources(e)
		}
	}
}

// firstDifference shows the first lines that differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return strings.Join(x[max(0, i-3):min(len(x), i+3)], "\n") + "\n--- against\n" + strings.Join(y[max(0, i-3):min(len(y), i+3)], "\n")
		}
	}
	return "one is longer"
}

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
