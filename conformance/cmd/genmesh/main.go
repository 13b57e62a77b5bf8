// Command genmesh writes random meshes: completed YAML that istiod's
// validation takes, the same for the same seed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/genmesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "genmesh:", err)
		os.Exit(1)
	}
}

// run writes the meshes of the command line.
func run(args []string) error {
	fs := flag.NewFlagSet("genmesh", flag.ContinueOnError)
	seed := fs.Int64("seed", 1, "the first seed")
	count := fs.Int("n", 1, "how many seeds")
	out := fs.String("o", "-", "folder for the meshes, - for standard output")
	families := fs.String("families", "", "what to vary, separated by commas (\"all\"; default: the seed chooses): "+strings.Join(genmesh.Families, " "))
	shape := fs.String("shape", "", "no random mesh, but this shape (\"all\"): "+strings.Join(genmesh.ShapeNames(), " "))
	services := fs.Int("services", 40, "how many services, or policies, a shape has")
	without := fs.String("without", "", "leave out the objects of an API `group`")
	verbose := fs.Bool("v", false, "name the objects that validation refused, which are left out")
	if err := fs.Parse(args); err != nil {
		return err
	}
	emit := func(m *genmesh.Mesh) error {
		leaveOut(m, *without)
		refused, err := validate(m)
		if err != nil {
			return err
		}
		if *shape != "" && len(refused) > 0 && !strings.HasPrefix(*shape, "flags-") && *shape != "all" {
			return fmt.Errorf("%s: %s", m.Name, strings.Join(refused, "; "))
		}
		if *verbose {
			for _, r := range refused {
				fmt.Fprintf(os.Stderr, "%s: %s\n", m.Name, r)
			}
		}
		return write(m, *out)
	}
	if *shape != "" {
		return shaped(*shape, *services, emit)
	}
	for s := *seed; s < *seed+int64(*count); s++ {
		if err := emit(genmesh.Generate(s, chosen(*families))); err != nil {
			return err
		}
	}
	return nil
}

// shaped emits a shape, or all.
func shaped(name string, services int, emit func(*genmesh.Mesh) error) error {
	names := []string{name}
	if name == "all" {
		names = genmesh.ShapeNames()
	}
	for _, n := range names {
		m, err := genmesh.Shape(n, services)
		if err != nil {
			return err
		}
		if err := emit(m); err != nil {
			return err
		}
	}
	return nil
}

// chosen reads the list of families; nil lets the seed choose.
func chosen(list string) []string {
	switch list {
	case "":
		return nil
	case "all":
		return genmesh.Families
	}
	return strings.Split(list, ",")
}

// leaveOut drops the objects of an API group; "" drops none.
func leaveOut(m *genmesh.Mesh, group string) {
	if group == "" {
		return
	}
	m.Objects = slices.DeleteFunc(m.Objects, func(o genmesh.M) bool {
		version, _ := o["apiVersion"].(string)
		return strings.HasPrefix(version, group+"/")
	})
}

// validate drops the objects that Istio's webhook would refuse.
func validate(m *genmesh.Mesh) (refused []string, err error) {
	var kept []genmesh.M
	for _, o := range m.Objects {
		problem, err := mesh.Validate(o)
		if err != nil {
			return nil, err
		}
		if problem != "" {
			refused = append(refused, problem)
			continue
		}
		kept = append(kept, o)
	}
	m.Objects = kept
	return refused, nil
}

// write puts a mesh into its file.
func write(m *genmesh.Mesh, out string) error {
	data, err := m.YAML()
	if err != nil {
		return err
	}
	if out == "-" {
		_, err := os.Stdout.Write(data)
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, m.Name+".yaml"), data, 0o644)
}
