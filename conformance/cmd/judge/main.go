// Command judge says what istiod sends to each proxy of a mesh, by running
// Istio's own generators in process.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/judge"
	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// options are the command's flags.
type options struct {
	files   []string
	out     string
	repeat  int
	dump    string
	serve   string
	lenient bool
	verbose bool
	args    []string
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		if isChild() {
			err = child(o)
		} else {
			err = parent(o)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

// parse reads the command line.
func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("judge", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: judge -f FILE|DIR [-f ...] [-o OUT.json] [-repeat N] [-dump NS/POD [TYPE [NAME]]]")
		fs.PrintDefaults()
	}
	fs.Func("f", "file or folder with YAML, - for standard input; may be given again", func(v string) error {
		o.files = append(o.files, v)
		return nil
	})
	fs.StringVar(&o.out, "o", "-", "where to write the report")
	fs.IntVar(&o.repeat, "repeat", 1, "run the mesh so many times and list what is not always the same")
	fs.StringVar(&o.dump, "dump", "", "print the resources of the proxy `NS/POD` as JSON; TYPE and NAME may follow")
	fs.StringVar(&o.serve, "serve", "", "listen on `HOST:PORT` as the mesh's only istiod, for verify --xds, until the process is ended")
	fs.BoolVar(&o.lenient, "lenient", false, "take configuration that Istio's validation refuses")
	fs.BoolVar(&o.verbose, "v", false, "print warnings, and Istio's log, to standard error")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.args = fs.Args()
	if len(o.files) == 0 {
		return nil, fmt.Errorf("no input: -f FILE")
	}
	return o, nil
}

// child runs in the environment of one istiod and answers for it.
func child(o *options) error {
	setLog(o.verbose)
	d, err := childIstiod()
	if err != nil {
		return err
	}
	objs, err := mesh.Read(o.files)
	if err != nil {
		return err
	}
	m, err := mesh.Load(objs, d, mesh.Options{Lenient: o.lenient})
	if err != nil {
		return err
	}
	if o.verbose {
		for _, w := range m.Warnings {
			fmt.Fprintln(os.Stderr, "warning:", w)
		}
	}
	if o.dump != "" {
		return dump(m, o)
	}
	if o.serve != "" {
		return judge.Serve(m, o.serve, func() { fmt.Fprintln(os.Stderr, "serving on", o.serve) }, make(chan struct{}))
	}
	r, err := judge.Repeat(m, o.repeat)
	if err != nil {
		return err
	}
	return r.Write(childOutput())
}

// dump prints resources of one proxy.
func dump(m *mesh.Mesh, o *options) error {
	ns, name, _ := strings.Cut(o.dump, "/")
	var typ, res string
	if len(o.args) > 0 {
		typ = o.args[0]
	}
	if len(o.args) > 1 {
		res = o.args[1]
	}
	return judge.Dump(m, ns, name, typ, res, childOutput())
}

// write puts the merged report where it was asked for.
func write(r *report.Report, out string) error {
	if out == "-" {
		return r.Write(os.Stdout)
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	if err := r.Write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
