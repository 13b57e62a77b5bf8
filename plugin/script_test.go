package plugin_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mesh-audit/mesh-audit/plugin"
)

var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mesh-audit": func() { os.Exit(plugin.Main(context.Background(), os.Args[1:], plugin.OS())) },
	})
}

// TestScripts runs the transcripts in testdata/script: what a user types, and
// what stdout, stderr and the exit status are.
func TestScripts(t *testing.T) {
	recorded, err := filepath.Abs("../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KUBECONFIG", "/nonexistent")
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TESTDATA", recorded)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status, "action": action, "link": link},
	})
}

// link NAME COMMAND: NAME is a link to the executable of the command.
func link(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: link NAME COMMAND")
	}
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		file := filepath.Join(dir, args[1])
		if _, err := os.Stat(file); err == nil {
			ts.Check(os.Symlink(file, args[0]))
			return
		}
	}
	ts.Fatalf("no command %s", args[1])
}

// status N COMMAND…: the command ends with the exit status N.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	have := "0"
	if err != nil {
		have = err.Error()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			have = strconv.Itoa(exit.ExitCode())
		}
	}
	if have != args[0] {
		ts.Fatalf("exit status %s, want %s", have, args[0])
	}
}
