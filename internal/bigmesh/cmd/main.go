// Command cmd writes a large mesh as YAML or JSON documents, for measurements.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/saved"
	"github.com/mesh-audit/mesh-audit/internal/bigmesh"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bigmesh:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	shape   bigmesh.Shape
	format  string
	out     string
	files   int
	measure bool
}

func parse(args []string) (*options, error) {
	o := &options{}
	names := strings.Join(slices.Sorted(maps.Keys(bigmesh.Shapes)), ", ")
	// The shape is read first, since the other flags change it.
	fs := flag.NewFlagSet("bigmesh", flag.ContinueOnError)
	fs.Func("shape", "start from this `shape`: "+names+"; must be the first flag", func(name string) error {
		shape, ok := bigmesh.Shapes[name]
		switch {
		case !ok:
			return fmt.Errorf("there are %s", names)
		case fs.NFlag() > 0:
			return errors.New("must be the first flag")
		}
		o.shape = shape
		return nil
	})
	s := &o.shape
	fs.Uint64Var(&s.Seed, "seed", 0, "the same seed gives the same mesh")
	for _, f := range []struct {
		name, usage string
		value       *int
	}{
		{"namespaces", "namespaces beside istio-system", &s.Namespaces},
		{"services", "services with a cluster IP", &s.Services},
		{"endpoints", "addresses, summed over the services", &s.Endpoints},
		{"shared", "services that select the same pods", &s.Shared},
		{"proxies", "pods with a sidecar", &s.Proxies},
		{"headless", "headless services", &s.Headless},
		{"headless-pods", "pods of each headless service", &s.HeadlessPods},
		{"sidecars", "namespaces with a Sidecar", &s.Sidecars},
		{"imports", "other namespaces that each Sidecar imports", &s.Imports},
		{"gateways", "gateways of two routers each", &s.Gateways},
		{"virtualservices", "VirtualServices", &s.VirtualServices},
		{"rules", "DestinationRules", &s.Rules},
		{"external", "ServiceEntries", &s.External},
	} {
		fs.Func(f.name, f.usage, func(v string) error {
			_, err := fmt.Sscan(v, f.value)
			return err
		})
	}
	fs.StringVar(&o.format, "format", "json", "json (one object a line), yaml, or snap (as the plugin's command snapshot writes)")
	fs.StringVar(&o.out, "o", "-", "file, or directory if -files is given; - is standard output")
	fs.IntVar(&o.files, "files", 0, "spread the objects over so many files in the directory -o")
	fs.BoolVar(&o.measure, "measure", false, "write nothing; print the processor time that predicting the mesh takes")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.format != "json" && o.format != "yaml" && o.format != "snap" {
		return nil, fmt.Errorf("-format is json, yaml or snap, not %q", o.format)
	}
	if s.Namespaces < 1 || s.Services < 1 && s.Rules+s.VirtualServices > 0 {
		return nil, errors.New("there must be a namespace, and a service for rules and VirtualServices")
	}
	if o.format == "snap" && o.files > 0 {
		return nil, errors.New("a snapshot is one file: no -files")
	}
	return o, nil
}

func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.measure {
		return measure(o.shape)
	}
	writers, err := o.open()
	if err != nil {
		return err
	}
	if o.format == "snap" {
		if err := saved.Write(writers[0], &saved.Mesh{Snapshot: snapshotOf(o.shape)}); err != nil {
			return err
		}
		return writers[0].Flush()
	}
	i := 0
	for object := range o.shape.Objects() {
		if err := o.write(writers[i%len(writers)], object); err != nil {
			return err
		}
		i++
	}
	for _, w := range writers {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// open makes the output's files. They are closed when the process ends.
func (o *options) open() ([]*bufio.Writer, error) {
	if o.files <= 0 {
		if o.out == "-" {
			return []*bufio.Writer{bufio.NewWriter(os.Stdout)}, nil
		}
		f, err := os.Create(o.out)
		return []*bufio.Writer{bufio.NewWriter(f)}, err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return nil, err
	}
	var writers []*bufio.Writer
	for i := range o.files {
		f, err := os.Create(filepath.Join(o.out, fmt.Sprintf("%05d.%s", i, o.format)))
		if err != nil {
			return nil, err
		}
		writers = append(writers, bufio.NewWriter(f))
	}
	return writers, nil
}

func (o *options) write(w io.Writer, object runtime.Object) error {
	if o.format == "json" {
		return json.NewEncoder(w).Encode(object)
	}
	text, err := yaml.Marshal(object)
	if err == nil {
		_, err = fmt.Fprintf(w, "---\n%s", text)
	}
	return err
}
