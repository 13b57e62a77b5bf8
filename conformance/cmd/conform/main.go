// Command conform compares the plugin's predictions with what istiod sends,
// on a list of meshes. It fails on any difference of names or parts.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mesh-audit/mesh-audit/conformance/internal/conform"
	"github.com/mesh-audit/mesh-audit/conformance/internal/rules"
)

func main() {
	failed, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "conform:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// run compares the meshes of the command line.
func run(args []string) (failed bool, err error) {
	r := &conform.Runner{}
	fs := flag.NewFlagSet("conform", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: conform -plugin PATH [flags] MESH...")
		fs.PrintDefaults()
	}
	fs.StringVar(&r.Plugin, "plugin", "", "the plugin's binary")
	fs.StringVar(&r.Judge, "judge", beside("judge"), "the judge's binary")
	fs.BoolVar(&r.Complete, "complete", false, "run the plugin's completion on every mesh first")
	fs.BoolVar(&r.NamesOnly, "names-only", false, "do not compare parts")
	fs.BoolVar(&r.Lenient, "lenient", false, "let the judge take configuration that Istio's validation refuses")
	fs.IntVar(&r.Repeat, "repeat", 6, "how often the judge runs a mesh on which something differs, to find what istiod makes differently")
	fs.IntVar(&r.Confirm, "confirm", 24, "how often, if names or parts still differ")
	fs.IntVar(&r.Parallel, "parallel", 2*runtime.NumCPU(), "how many meshes at a time; a judge waits half of its time")
	fs.StringVar(&r.Cache, "cache", filepath.Join(os.TempDir(), "mesh-audit-judge"), "folder for the judge's answers; empty for none")
	most := fs.Int("max-diffs", 10, "how many differences to print for each mesh")
	sizes := fs.Int("max-sizes", 20, "how many resources with wrong bytes to print")
	quiet := fs.Bool("q", false, "print only the meshes that fail")
	bars := fs.Bool("bytes-bars", false, "fail if the bytes miss their bars")
	list := fs.String("rules", "", "print in how many meshes each rule of this `list` is touched, and fail if one is in none (docs/rules.md)")
	shrink := fs.String("shrink", "", "`folder` for the smallest meshes that still show the first difference, or the first wrong bytes, with the judge's answers")
	if err := fs.Parse(args); err != nil {
		return false, err
	}
	if r.Plugin == "" || fs.NArg() == 0 {
		fs.Usage()
		return false, fmt.Errorf("need -plugin and at least one mesh")
	}
	if *list != "" {
		if r.Rules, err = rules.Read(*list); err != nil {
			return false, err
		}
	}
	sum := &conform.Summary{}
	var bad []*conform.Result
	conform.PrintHeader(os.Stdout)
	start := time.Now()
	err = r.Run(fs.Args(), func(res *conform.Result) {
		sum.Add(res)
		if sum.Meshes%100 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d meshes, %d failed, %s\n", sum.Meshes, fs.NArg(), sum.Failed, time.Since(start).Round(time.Second))
		}
		if len(res.Differences)+len(res.Sizes) > 0 {
			bad = append(bad, res)
		}
		if res.Failed() || !*quiet {
			res.Print(os.Stdout, *most)
		}
	})
	sum.Print(os.Stdout, *sizes)
	failed = sum.Failed > 0
	if missed := sum.Bars(os.Stdout); *bars && len(missed) > 0 {
		failed = true
	}
	if len(r.Rules) > 0 && len(sum.PrintRules(os.Stdout, r.Rules)) > 0 {
		failed = true
	}
	if err == nil && *shrink != "" {
		err = shrinkAll(r, bad, *shrink)
	}
	return failed, err
}

// shrinkAll shrinks the meshes that failed.
func shrinkAll(r *conform.Runner, bad []*conform.Result, folder string) error {
	for _, res := range bad {
		file, err := r.Shrink(res, folder)
		if err != nil {
			return err
		}
		fmt.Println("shrunk to", file)
	}
	return nil
}

// beside is the path of a program in this one's folder.
func beside(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}
