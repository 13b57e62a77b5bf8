package scope_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// TestContested compares meshes full of hosts, rules and Sidecars that contend
// with the outbound clusters that Istio 1.31's generator made, and the
// DestinationRule of each ("@"): judge -f contested-1.yaml -o out.json.
func TestContested(t *testing.T) {
	files, err := filepath.Glob("testdata/contested-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no meshes", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".clusters")
		if err != nil {
			t.Fatal(err)
		}
		v := view(t, string(text))
		s := scoper(v)
		var got strings.Builder
		for _, p := range v.Proxies {
			fmt.Fprintf(&got, "%s/%s\n", p.Namespace, p.Name)
			for _, name := range outbound(s.For(p), p) {
				fmt.Fprintf(&got, "\t%s\n", name)
			}
		}
		equal(t, file, strings.Split(string(want), "\n"), strings.Split(got.String(), "\n"))
	}
}

// outbound are the clusters that a scope leads to, sorted by name, with their
// DestinationRule; services resolved by DNS are not looked at.
func outbound(s *scope.Scope, p *mesh.Proxy) []string {
	var out []string
	for _, svc := range s.Services {
		subsets, by := []string{""}, ""
		if dr := s.DestinationRule(svc.Service, p); dr != nil {
			by = " @ " + dr.From[0].Namespace + "/" + dr.From[0].Name
			for _, subset := range dr.Spec.GetSubsets() {
				subsets = append(subsets, subset.GetName())
			}
		}
		for _, port := range svc.Ports {
			for _, subset := range subsets {
				out = append(out, fmt.Sprintf("outbound|%d|%s|%s%s", port.Number, subset, svc.Host, by))
			}
		}
	}
	slices.Sort(out)
	return out
}
