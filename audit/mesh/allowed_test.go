package mesh

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// TestFlagsAreAllowed: a flag that the model reads must pass the list of what a
// snapshot keeps, or it would silently count as unset.
func TestFlagsAreAllowed(t *testing.T) {
	for _, f := range flags {
		if !snapshot.IstiodVariables[f.name] {
			t.Errorf("%s is not in snapshot.IstiodVariables", f.name)
		}
	}
}
