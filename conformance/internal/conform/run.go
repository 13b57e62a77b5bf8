package conform

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
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
	// Repeat is how often the judge runs a mesh.
	Repeat int
	// Parallel is how many meshes are compared at a time.
	Parallel int
	// Confirm is how often the judge runs a mesh on which only addresses among
	// the domains of virtual hosts differ: istiod picks them at random.
	Confirm int
	// Cache is a folder for the judge's answers; "" for none.
	Cache string

	judgeSum string
}

// Run compares all meshes and calls done with each result, in order.
func (r *Runner) Run(meshes []string, done func(*Result)) error {
	info, err := os.Stat(r.Judge)
	if err != nil {
		return fmt.Errorf("the judge: %w", err)
	}
	r.judgeSum = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
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

// one compares one mesh.
func (r *Runner) one(mesh string) *Result {
	res := &Result{Mesh: mesh}
	res.Err = func() error {
		input, cleanup, err := r.input(mesh)
		if err != nil {
			return err
		}
		defer cleanup()
		want, err := r.judge(input, r.Repeat)
		if err != nil {
			return err
		}
		out, err := r.plugin("scope", "-f", input, "-o", "json", "--resources", "--details")
		if err != nil {
			return err
		}
		pred, got, err := parsePrediction(out)
		if err != nil {
			return err
		}
		compare(res, want, pred, got, r.NamesOnly)
		if r.Confirm <= r.Repeat || !addressesDiffer(res.Differences) {
			return nil
		}
		if want, err = r.judge(input, r.Confirm); err != nil {
			return err
		}
		*res = Result{Mesh: mesh}
		compare(res, want, pred, got, r.NamesOnly)
		return nil
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
// found something, so that its output counts if there is any.
func (r *Runner) plugin(args ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(r.Plugin, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && stdout.Len() == 0 {
		return nil, fmt.Errorf("plugin %s: %w: %s", args[0], err, tail(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// judge runs the judge, or takes its answer from the cache.
func (r *Runner) judge(input string, repeat int) (*report.Report, error) {
	cached, err := r.cacheFile(input, repeat)
	if err != nil {
		return nil, err
	}
	if cached != "" {
		if rep, err := readReport(cached); err == nil {
			return rep, nil
		}
	}
	args := []string{"-f", input, "-repeat", fmt.Sprint(repeat)}
	if r.Lenient {
		args = append(args, "-lenient")
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(r.Judge, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("judge: %w: %s", err, tail(stderr.String()))
	}
	if cached != "" {
		if err := writeAside(cached, stdout.Bytes()); err != nil {
			return nil, err
		}
	}
	rep := &report.Report{}
	return rep, json.Unmarshal(stdout.Bytes(), rep)
}

// cacheFile names where the answer for an input is kept.
func (r *Runner) cacheFile(input string, repeat int) (string, error) {
	if r.Cache == "" {
		return "", nil
	}
	content, err := readAll(input)
	if err != nil {
		return "", err
	}
	key := fmt.Sprintf("%s %d %v %s", r.judgeSum, repeat, r.Lenient, sum(content))
	return filepath.Join(r.Cache, sum([]byte(key))+".json"), os.MkdirAll(r.Cache, 0o755)
}

// readAll reads a file, or all files of a folder.
func readAll(path string) ([]byte, error) {
	var out []byte
	err := filepath.Walk(path, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		out = append(append(out, data...), "\n---\n"...)
		return err
	})
	return out, err
}

// readReport reads a kept answer.
func readReport(file string) (*report.Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	rep := &report.Report{}
	return rep, json.Unmarshal(data, rep)
}

// writeAside writes a file at once, so that no reader sees half of it.
func writeAside(file string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "part-*")
	if err != nil {
		return err
	}
	if _, err := tmp.Write(data); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

// sum is a short hash.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:16])
}

// tail is the end of a text.
func tail(text string) string {
	const most = 2000
	text = strings.TrimSpace(text)
	if len(text) > most {
		text = "…" + text[len(text)-most:]
	}
	return text
}
