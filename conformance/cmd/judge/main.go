// Command judge says what istiod sends to each proxy of a mesh, by running
// Istio's own generators in process.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/judge"
	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

// options are the command's flags.
type options struct {
	files   []string
	then    []string
	without []string
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
		fmt.Fprintln(fs.Output(), "usage: judge -f FILE|DIR [-f ...] [-o OUT.json] [-repeat N] [-dump NS/POD [TYPE [NAME]]] [-then FILE|DIR]")
		fs.PrintDefaults()
	}
	fs.Func("f", "file or folder with YAML, - for standard input; may be given again", func(v string) error {
		o.files = append(o.files, v)
		return nil
	})
	fs.Func("then", "file or folder with `YAML` that the mesh becomes while its proxies are connected: report what each is sent then, with -v each resource; may be given again", func(v string) error {
		o.then = append(o.then, v)
		return nil
	})
	fs.Func("without", "`KIND/NAMESPACE/NAME` of an object that is gone then; may be given again", func(v string) error {
		o.without = append(o.without, v)
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
	if len(o.then) > 0 {
		return push(m, objs, d, o)
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

// push changes the mesh and tells what its proxies are sent.
func push(m *mesh.Mesh, objs []mesh.Object, d mesh.Istiod, o *options) error {
	after, err := mesh.Read(o.then)
	if err != nil {
		return err
	}
	for _, key := range o.without {
		was := len(after)
		after = slices.DeleteFunc(after, func(o mesh.Object) bool { return o.Kind+"/"+o.Namespace+"/"+o.Name == key })
		if len(after) == was {
			return fmt.Errorf("-without %s: there is no such object", key)
		}
	}
	if same := mesh.Istiods(after); !reflect.DeepEqual(mesh.Istiods(objs), same) {
		return fmt.Errorf("the change restarts istiod: every proxy connects afresh")
	}
	head, err := mesh.Load(after, d, mesh.Options{Lenient: o.lenient})
	if err != nil {
		return err
	}
	p, err := judge.Push(m, head, objs, after)
	if err != nil {
		return err
	}
	if !o.verbose {
		p.Brief()
	}
	return p.Write(childOutput())
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

// write puts the merged answer where it was asked for.
func write(r interface{ Write(io.Writer) error }, out string) error {
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
