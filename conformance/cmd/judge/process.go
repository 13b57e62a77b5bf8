package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sort"
	"strings"

	"istio.io/istio/pkg/log"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// childVariable carries the istiod that a child process stands for. istiod
// reads its feature flags when its process starts, so that each one needs a
// process with its environment.
const childVariable = "MESH_AUDIT_JUDGE_ISTIOD"

// inherited lists what children keep of the judge's own environment.
var inherited = []string{"PATH", "HOME", "TMPDIR", "GOMAXPROCS", "GOMEMLIMIT", "GOGC"}

// isChild is whether this process stands for an istiod.
func isChild() bool { return os.Getenv(childVariable) != "" }

// childIstiod is the istiod that this process stands for.
func childIstiod() (mesh.Istiod, error) {
	var d mesh.Istiod
	err := json.Unmarshal([]byte(os.Getenv(childVariable)), &d)
	return d, err
}

// childOutput is where a child leaves its answer: a pipe of its own, since
// code of Istio may print to standard output.
func childOutput() io.Writer { return os.NewFile(3, "answer") }

// parent runs one child for each istiod of the input and merges the answers.
func parent(o *options) error {
	cleanup, err := saveStdin(o)
	if err != nil {
		return err
	}
	defer cleanup()
	objs, err := mesh.Read(o.files)
	if err != nil {
		return err
	}
	if len(o.then) > 0 {
		return pushes(o, objs)
	}
	all := &report.Report{Module: report.Module, IstioVersion: report.IstioVersion, Proxies: []report.Proxy{}}
	for _, d := range mesh.Istiods(objs) {
		answer, err := runChild(o, d)
		if err != nil {
			return err
		}
		if o.dump != "" {
			os.Stdout.Write(answer)
			continue
		}
		r := &report.Report{}
		if err := json.Unmarshal(answer, r); err != nil {
			return fmt.Errorf("istiod %q: %w", d.Revision, err)
		}
		all.Proxies = append(all.Proxies, r.Proxies...)
		all.Unstable = append(all.Unstable, r.Unstable...)
		all.Sizes = append(all.Sizes, r.Sizes...)
	}
	if o.dump != "" {
		return nil
	}
	all.Sort()
	return write(all, o.out)
}

// pushes runs the children for a change and merges their answers.
func pushes(o *options, objs []mesh.Object) error {
	all := &report.Pushes{Module: report.Module, IstioVersion: report.IstioVersion, Proxies: []report.PushedProxy{}}
	for _, d := range mesh.Istiods(objs) {
		answer, err := runChild(o, d)
		if err != nil {
			return err
		}
		p := &report.Pushes{}
		if err := json.Unmarshal(answer, p); err != nil {
			return fmt.Errorf("istiod %q: %w", d.Revision, err)
		}
		all.Proxies = append(all.Proxies, p.Proxies...)
	}
	return write(all, o.out)
}

// saveStdin puts standard input into a file that all children can read.
func saveStdin(o *options) (cleanup func(), err error) {
	cleanup = func() {}
	for i, f := range o.files {
		if f != "-" {
			continue
		}
		tmp, err := os.CreateTemp("", "judge-*.yaml")
		if err != nil {
			return cleanup, err
		}
		cleanup = func() { os.Remove(tmp.Name()) }
		if _, err := io.Copy(tmp, os.Stdin); err != nil {
			return cleanup, err
		}
		o.files[i] = tmp.Name()
		return cleanup, tmp.Close()
	}
	return cleanup, nil
}

// runChild runs this program again as istiod d and returns its answer.
func runChild(o *options, d mesh.Istiod) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(self, childArgs(o)...)
	cmd.Env = childEnv(d)
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stderr = &stderr
	if o.verbose || o.serve != "" {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w.Close()
	answer, readErr := io.ReadAll(r)
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("istiod %q: %s", d.Revision, childError(err, stderr.String()))
	}
	return answer, readErr
}

// childError says why a child failed: its own message, or where Istio's code
// panicked, which is what istiod itself would do.
func childError(err error, stderr string) string {
	_, trace, panicked := strings.Cut(stderr, "panic: ")
	if !panicked {
		return strings.TrimSpace(fmt.Sprintf("%s%v", stderr, err))
	}
	what, _, _ := strings.Cut(trace, "\n")
	for _, line := range strings.Split(trace, "\n") {
		if strings.HasPrefix(line, "istio.io/istio/") {
			what += " in " + line
			break
		}
	}
	return "istiod panics on this mesh: " + what
}

// childArgs repeats the options that a child needs.
func childArgs(o *options) []string {
	var args []string
	for _, f := range o.files {
		args = append(args, "-f", f)
	}
	for _, f := range o.then {
		args = append(args, "-then", f)
	}
	for _, key := range o.without {
		args = append(args, "-without", key)
	}
	args = append(args, "-repeat", fmt.Sprint(o.repeat))
	if o.lenient {
		args = append(args, "-lenient")
	}
	if o.verbose {
		args = append(args, "-v")
	}
	if o.dump != "" {
		args = append(args, "-dump", o.dump)
	}
	if o.serve != "" {
		args = append(args, "-serve", o.serve)
	}
	return append(args, o.args...)
}

// childEnv is the environment of istiod's container, without the limits that
// are meant for its Go runtime. A child lives for a second: collecting less
// garbage saves a quarter of its work.
func childEnv(d mesh.Istiod) []string {
	env := map[string]string{}
	for k, v := range d.Env {
		env[k] = v
	}
	delete(env, "GODEBUG")
	for _, k := range inherited {
		delete(env, k)
		if v, ok := os.LookupEnv(k); ok {
			env[k] = v
		}
	}
	if env["GOGC"] == "" {
		env["GOGC"] = "400"
	}
	b, _ := json.Marshal(d)
	env[childVariable] = string(b)
	var out []string
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}

// setLog silences Istio's log, or sends it to standard error.
func setLog(verbose bool) {
	opts := log.DefaultOptions()
	opts.OutputPaths = []string{"stderr"}
	opts.ErrorOutputPaths = []string{"stderr"}
	level := log.NoneLevel
	if verbose {
		level = log.InfoLevel
	}
	for _, s := range log.Scopes() {
		opts.SetDefaultOutputLevel(s.Name(), level)
	}
	opts.SetDefaultOutputLevel(log.OverrideScopeName, level)
	_ = log.Configure(opts)
}
