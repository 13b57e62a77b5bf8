package plugin_test

import (
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// action ID FILE: write the shell step of that id of the GitHub Action to a file.
// Its env is what GitHub fills in: the script sets it itself.
func action(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: action ID FILE")
	}
	text, err := os.ReadFile("../action.yaml")
	ts.Check(err)
	var a struct {
		Runs struct {
			Steps []struct{ ID, Shell, Run string }
		}
	}
	ts.Check(yaml.Unmarshal(text, &a))
	for _, s := range a.Runs.Steps {
		if s.ID == args[0] {
			if s.Shell != "bash" || strings.Contains(s.Run, "${{") {
				ts.Fatalf("step %s: shell %q, or text of others in the script", s.ID, s.Shell)
			}
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(s.Run), 0o666))
			return
		}
	}
	ts.Fatalf("action.yaml has no step %s", args[0])
}
