// Command edits compares what `diff` predicts with what istiod's own
// generators make of a change: it edits one object of a mesh at a time, runs
// the judge before and after, and the plugin's diff on the two files. The parts
// that proxies lose and gain must be equal, and the edited object the cause.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	ok, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "edits:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	plugin, judge string
	base, head    string
	out           string
	keep          string
	seed          uint64
	each, most    int
	repeat        int
	pushes        bool
	meshes        []string
	work          string
}

// run reports whether every edit was predicted.
func run(args []string) (bool, error) {
	o := options{}
	fs := flag.NewFlagSet("edits", flag.ContinueOnError)
	fs.StringVar(&o.plugin, "plugin", "bin/kubectl-mesh_audit", "the built plugin")
	fs.StringVar(&o.judge, "judge", "conformance/bin/judge", "the built judge")
	fs.StringVar(&o.base, "base", "", "with -head: one change, given as two files of completed YAML")
	fs.StringVar(&o.head, "head", "", "see -base")
	fs.StringVar(&o.out, "o", "", "with -base and -head: write the judge's difference here instead of comparing")
	fs.StringVar(&o.keep, "keep", "", "folder for the two files of each edit that was not predicted")
	fs.Uint64Var(&o.seed, "seed", 1, "what the edits are chosen by")
	fs.IntVar(&o.each, "each", 5, "how many edits of each mesh")
	fs.IntVar(&o.most, "n", 200, "how many edits in all")
	fs.IntVar(&o.repeat, "repeat", 4, "how often the judge runs when something differs, to know what istiod itself varies")
	fs.BoolVar(&o.pushes, "pushes", false, "compare whom istiod sends what because of each edit, instead of what is different then")
	if err := fs.Parse(args); err != nil {
		return false, err
	}
	o.meshes = fs.Args()
	work, err := os.MkdirTemp("", "edits")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)
	o.work = work
	if o.base != "" || o.head != "" {
		return o.single()
	}
	if len(o.meshes) == 0 {
		return false, fmt.Errorf("give meshes (genmesh makes them), or -base and -head")
	}
	return o.random()
}

// single compares, or records, one change.
func (o *options) single() (bool, error) {
	want, err := o.judged(o.base, o.head, o.repeat)
	if err != nil {
		return false, err
	}
	if o.out != "" {
		text, err := json.MarshalIndent(want.Proxies, "", " ")
		if err != nil {
			return false, err
		}
		return true, os.WriteFile(o.out, append(text, '\n'), 0o644)
	}
	have, err := o.predicted(o.base, o.head)
	if err != nil {
		return false, err
	}
	lines := unequal(want, have, "")
	if len(lines) > 0 {
		show(o.head, lines)
	}
	return len(lines) == 0, nil
}

// tally is how many edits were compared.
type tally struct{ done, wrong, refused int }

// random edits the meshes, one object at a time.
func (o *options) random() (bool, error) {
	var all tally
	for _, file := range o.meshes {
		if all.done >= o.most {
			break
		}
		t, err := o.mesh(file, min(o.each, o.most-all.done), all.done)
		if err != nil {
			fmt.Printf("%s: %v\n", file, err)
		}
		fmt.Printf("%s: %d edits, %d predicted\n", filepath.Base(file), t.done, t.done-t.wrong)
		all = tally{all.done + t.done, all.wrong + t.wrong, all.refused + t.refused}
	}
	fmt.Printf("%d edits, %d predicted, %d not; %d more were refused by Istio's validation\n", all.done, all.done-all.wrong, all.wrong, all.refused)
	return all.wrong == 0, nil
}

// mesh edits one mesh so many times; number is that of the last edit before.
func (o *options) mesh(file string, edits, number int) (tally, error) {
	var t tally
	text, err := os.ReadFile(file)
	if err != nil {
		return t, err
	}
	h := fnv.New64a()
	h.Write([]byte(filepath.Base(file)))
	r := rand.New(rand.NewPCG(o.seed, h.Sum64()))
	compare, err := o.comparison(file)
	if err != nil {
		return t, err
	}
	for tries := 0; t.done < edits && tries < 6*edits; tries++ {
		e, err := edit(string(text), r)
		if err != nil {
			return t, err
		}
		if e == nil {
			continue
		}
		head := filepath.Join(o.work, "head.yaml")
		if err := os.WriteFile(head, []byte(e.text), 0o600); err != nil {
			return t, err
		}
		lines, err := compare(head, e.object)
		if errors.Is(err, errRefused) {
			t.refused++
			continue
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", e.what, err)
		}
		t.done++
		if len(lines) == 0 {
			continue
		}
		t.wrong++
		show(filepath.Base(file)+": "+e.what, lines)
		if o.keep != "" {
			if err := o.save(file, head, fmt.Sprintf("%03d", number+t.done)); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// errRefused: Istio's validation refuses the edited object.
var errRefused = errors.New("refused")

// comparison compares edits of a mesh: it tells what was not predicted.
func (o *options) comparison(base string) (func(head, object string) ([]string, error), error) {
	if o.pushes {
		return func(head, _ string) ([]string, error) { return o.comparePushes(base, head) }, nil
	}
	before, err := o.ask(base, 1)
	if err != nil {
		return nil, err
	}
	return func(head, object string) ([]string, error) {
		after, err := o.ask(head, 1)
		if err != nil {
			return nil, errRefused
		}
		have, err := o.predicted(base, head)
		if err != nil {
			return nil, err
		}
		lines := unequal(difference(before, after), have, object)
		if len(lines) == 0 {
			return nil, nil
		}
		again, err := o.judged(base, head, o.repeat)
		if err != nil {
			return nil, err
		}
		return unequal(again, have, object), nil
	}, nil
}

func (o *options) save(base, head, name string) error {
	if err := os.MkdirAll(o.keep, 0o755); err != nil {
		return err
	}
	for side, file := range map[string]string{"base": base, "head": head} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.keep, name+"-"+side+".yaml"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// unequal is what is not as it should be.
func unequal(want, have *change, object string) []string {
	var lines []string
	for _, proxy := range keys(want.Proxies, have.Proxies) {
		if have.gaps[""] || have.gaps[proxy] {
			continue // said as not modelled
		}
		w, h := want.Proxies[proxy], have.Proxies[proxy]
		for _, side := range []struct {
			name       string
			want, have []string
		}{{"lost", w.Lost, h.Lost}, {"gained", w.Gained, h.Gained}} {
			for _, line := range less(side.want, side.have) {
				if !want.shaky(proxy, line) {
					lines = append(lines, fmt.Sprintf("  %s: istiod %s, the plugin does not: %s", proxy, side.name, line))
				}
			}
			for _, line := range less(side.have, side.want) {
				if !want.shaky(proxy, line) {
					lines = append(lines, fmt.Sprintf("  %s: the plugin %s, istiod does not: %s", proxy, side.name, line))
				}
			}
		}
	}
	if object != "" {
		for _, cause := range have.causes {
			if cause != object {
				lines = append(lines, "  cause: "+cause)
			}
		}
	}
	return lines
}

// show prints what was not predicted, the first of it.
func show(title string, lines []string) {
	const most = 12
	if rest := len(lines) - most; rest > 0 {
		lines = append(lines[:most:most], fmt.Sprintf("  … and %d more", rest))
	}
	fmt.Printf("%s\n%s\n", title, strings.Join(lines, "\n"))
}
