// Command genmesh writes random meshes: completed YAML that istiod's
// validation takes, the same for the same seed.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
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
	verbose := fs.Bool("v", false, "name the objects that validation refused, which are left out")
	if err := fs.Parse(args); err != nil {
		return err
	}
	for s := *seed; s < *seed+int64(*count); s++ {
		m := genmesh.Generate(s, chosen(*families))
		refused, err := validate(m)
		if err != nil {
			return err
		}
		if *verbose {
			for _, r := range refused {
				fmt.Fprintf(os.Stderr, "seed %d: %s\n", s, r)
			}
		}
		if err := write(m, *out); err != nil {
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

// write puts a mesh into its file, named by its seed and families.
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
	what := strings.Join(m.Families, "+")
	if len(m.Families) > 1 {
		what = fmt.Sprintf("mix%d", len(m.Families))
	}
	return os.WriteFile(filepath.Join(out, fmt.Sprintf("seed-%04d-%s.yaml", m.Seed, what)), data, 0o644)
}
