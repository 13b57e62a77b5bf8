package mesh_test

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		a, b            string
		matches, subset bool
	}{
		{"a.example.com", "a.example.com", true, true},
		{"a.example.com", "*.example.com", true, true},
		{"*.example.com", "a.example.com", true, false},
		{"*.a.example.com", "*.example.com", true, true},
		{"*.example.com", "*.a.example.com", true, false},
		{"*", "x", true, false},
		{"x", "*", true, true},
		{"a.b", "b", false, false},
		{"", "*", true, true},
		{"*.com", "*.org", false, false},
	} {
		if got := mesh.HostMatches(c.a, c.b); got != c.matches {
			t.Errorf("HostMatches(%q, %q) = %t", c.a, c.b, got)
		}
		if got := mesh.HostSubsetOf(c.a, c.b); got != c.subset {
			t.Errorf("HostSubsetOf(%q, %q) = %t", c.a, c.b, got)
		}
	}
	best, ok := mesh.MostSpecificHost("a.b.example.com", []string{"*", "*.example.com", "*.b.example.com", "c.b.example.com"})
	if best != "*.b.example.com" || !ok {
		t.Errorf("MostSpecificHost = %q, %t", best, ok)
	}
}
