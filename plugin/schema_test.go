package plugin_test

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// TestOutputHoldsSchema checks what the command prints for the demo mesh
// against the schema that docs/ publishes.
func TestOutputHoldsSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../docs/scope-report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"scope", "--demo", "-o", "json"},
		{"scope", "--demo", "-o", "json", "--resources"},
		{"scope", "--demo", "-o", "json", "--details"},
		{"scope", "--demo", "-o", "json", "-n", "nowhere"},
	} {
		status, out, errs := run(t, args...)
		if status != plugin.ExitOK {
			t.Fatalf("%v: exit status %d\n%s", args, status, errs)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
