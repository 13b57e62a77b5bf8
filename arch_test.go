package meshaudit_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mesh-audit/mesh-audit/"

// allowed lists, for each package, which of our packages it may import.
// ARCHITECTURE.md shows the same table to people.
var allowed = map[string][]string{
	"cmd/kubectl-mesh_audit": {"plugin"},
	"plugin":                 {"audit", "audit/complete", "audit/demo", "audit/load", "audit/overlay", "audit/result", "audit/revision", "audit/saved", "audit/snapshot", "audit/verify", "report"},
	"report":                 {"audit/result"},
	"audit":                  {"audit/diff", "audit/mesh", "audit/result", "audit/scope", "audit/snapshot", "audit/xds"},
	"audit/verify":           {"audit/mesh", "audit/result", "audit/xds"},
	"audit/diff":             {"audit/result"},
	"audit/xds":              {"audit/mesh", "audit/result", "audit/scope", "audit/snapshot"},
	"audit/scope":            {"audit/mesh", "audit/result", "audit/snapshot"},
	"audit/mesh":             {"audit/result", "audit/snapshot", "audit/validation"},
	"audit/demo":             {"audit/load"},
	"audit/complete":         {"audit/load", "audit/result", "audit/snapshot"},
	"audit/revision":         nil,
	"audit/overlay":          {"audit/complete", "audit/load", "audit/snapshot"},
	"audit/load":             {"audit/result", "audit/saved", "audit/snapshot", "audit/validation"},
	"audit/saved":            {"audit/result", "audit/snapshot"},
	"audit/snapshot":         {"audit/result"},
	"audit/validation":       nil,
	"audit/result":           nil,
	"internal/apistub":       nil, // tests only
	"internal/bigmesh":       nil, // benchmarks only
	"internal/bigmesh/cmd":   {"audit", "audit/result", "audit/saved", "audit/snapshot", "internal/bigmesh"},
	"internal/dist":          nil,
}

// onlyHere are libraries that one part of the tree alone may know.
var onlyHere = map[string][]string{
	"k8s.io/client-go/kubernetes/":           {"audit/load", "audit/verify", "audit/complete"},
	"github.com/spf13/cobra":                 {"plugin"},
	"sigs.k8s.io/kustomize":                  {"audit/load"},
	"github.com/envoyproxy/go-control-plane": {"audit/verify", "audit/xds"},
	"google.golang.org/grpc":                 {"audit/verify"},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		if fields[0] == strings.TrimSuffix(module, "/") {
			continue
		}
		may, known := allowed[pkg]
		if !known {
			t.Errorf("package %s is not in the table of allowed imports", pkg)
		}
		for _, imported := range fields[1:] {
			ours, isOurs := strings.CutPrefix(imported, module)
			if isOurs && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s: allowed are %v", pkg, ours, may)
			}
			for prefix, where := range onlyHere {
				if strings.HasPrefix(imported, prefix) && !slices.Contains(where, pkg) {
					t.Errorf("%s imports %s, which only %v may", pkg, imported, where)
				}
			}
		}
	}
}

// TestNotLinked keeps out of the plugin: the real generator, and the clients with a
// type for each kind, which were a seventh of the binary and of its compilation.
func TestNotLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./cmd/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		for _, prefix := range []string{"istio.io/istio", "k8s.io/client-go/kubernetes/typed", "k8s.io/client-go/applyconfigurations", "istio.io/client-go/pkg/clientset/versioned/typed"} {
			if strings.HasPrefix(line, prefix) {
				t.Errorf("the plugin links %s", strings.TrimSpace(line))
			}
		}
	}
}

// TestResultIsStandalone keeps the result package on the standard library.
func TestResultIsStandalone(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, "./audit/result").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, ".") {
			t.Errorf("audit/result imports %s", strings.TrimSpace(line))
		}
	}
}

// TestArchitectureNamesWhatExists: each package that ARCHITECTURE.md names is there.
func TestArchitectureNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`((?:audit|plugin|report|cmd|conformance|docs|testdata)(?:/[a-z_-]+)*)/?`").FindAllStringSubmatch(string(text), -1)
	if len(names) < len(allowed) {
		t.Errorf("ARCHITECTURE.md names %d packages, the table has %d", len(names), len(allowed))
	}
	for _, m := range names {
		if info, err := os.Stat(m[1]); err != nil || !info.IsDir() {
			t.Errorf("ARCHITECTURE.md names %s, which is not there", m[1])
		}
	}
	for pkg := range allowed {
		if !strings.Contains(string(text), "`"+pkg+"`") {
			t.Errorf("ARCHITECTURE.md does not name %s", pkg)
		}
	}
}
