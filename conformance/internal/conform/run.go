package conform

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
	"github.com/mesh-audit/mesh-audit/conformance/internal/rules"
)

// Runner compares meshes.
type Runner struct {
	Plugin, Judge string
	// Complete runs the plugin's completion first.
	Complete bool
	// NamesOnly leaves parts out of the comparison.
	NamesOnly bool
	// Lenient lets the judge take configuration that validation refuses.
	Lenient bool
	// Repeat is how often the judge runs a mesh on which something differs.
	Repeat int
	// Parallel is how many meshes are compared at a time.
	Parallel int
	// Confirm is how often the judge runs a mesh on which names or parts still
	// differ: much of what istiod picks at random comes out alike several times.
	Confirm int
	// Cache is a folder for the judge's answers; "" for none.
	Cache string
	// Rules lists the rules to look for; none if nobody asks.
	Rules []rules.Rule

	judgeSum string
}

// Run compares all meshes and calls done with each result, in order.
func (r *Runner) Run(meshes []string, done func(*Result)) error {
	binary, err := os.ReadFile(r.Judge)
	if err != nil {
		return fmt.Errorf("the judge: %w", err)
	}
	r.judgeSum = sum(binary)
	results := make([]chan *Result, len(meshes))
	slots := make(chan struct{}, max(r.Parallel, 1))
	var all sync.WaitGroup
	for i, m := range meshes {
		results[i] = make(chan *Result, 1)
		all.Add(1)
		go func() {
			defer all.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] <- r.one(m)
		}()
	}
	for i := range meshes {
		done(<-results[i])
	}
	all.Wait()
	return nil
}

// one compares one mesh. The judge runs it once; only if something differs it
// runs it again and again, to see whether istiod makes it differently itself.
func (r *Runner) one(mesh string) *Result {
	res := &Result{Mesh: mesh}
	res.Err = func() error {
		input, cleanup, err := r.input(mesh)
		if err != nil {
			return err
		}
		defer cleanup()
		out, err := r.plugin("scope", "-f", input, "-o", "json", "--resources", "--details")
		if err != nil {
			return err
		}
		pred, got, err := parsePrediction(out)
		if err != nil {
			return err
		}
		var want *report.Report
		runs := 0
		for _, repeat := range []int{1, r.Repeat, r.Confirm} {
			if repeat <= runs {
				continue
			}
			runs = repeat
			if want, err = r.judge(input, repeat); err != nil {
				return err
			}
			*res = Result{Mesh: mesh}
			if len(want.Proxies)+len(got) == 0 {
				return errors.New("no proxies, so that nothing was compared (manifests need -complete)")
			}
			compare(res, want, pred, got, r.NamesOnly)
			if !res.Failed() && (repeat == r.Repeat || len(res.Sizes) == 0) {
				break
			}
		}
		if len(r.Rules) > 0 {
			res.Rules, err = r.touched(input, want, pred)
		}
		return err
	}()
	return res
}

// input is the completed mesh.
func (r *Runner) input(mesh string) (path string, cleanup func(), err error) {
	cleanup = func() {}
	if !r.Complete {
		return mesh, cleanup, nil
	}
	out, err := r.plugin("complete", "-f", mesh)
	if err != nil {
		return "", cleanup, err
	}
	tmp, err := os.CreateTemp("", "conform-*.yaml")
	if err != nil {
		return "", cleanup, err
	}
	cleanup = func() { os.Remove(tmp.Name()) }
	if _, err := tmp.Write(out); err != nil {
		return "", cleanup, err
	}
	return tmp.Name(), cleanup, tmp.Close()
}

// plugin runs the plugin. A status other than zero may only mean that it has
// found something, so that its output counts if there is any; but completed input
// from which an object is missing is another mesh.
func (r *Runner) plugin(args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(r.Plugin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil && (stdout.Len() == 0 || args[0] == "complete") {
		return nil, fmt.Errorf("plugin %s: %w: %s", args[0], err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
}
