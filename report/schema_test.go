package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

//go:generate go test . -run TestSchemaIsCurrent -update

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

// schemas are the published schemas with the types that they are of.
var schemas = map[string]struct {
	of    any
	title string
}{
	"../docs/scope-report.schema.json":  {&result.Audit{}, "ScopeReport of mesh-audit (" + result.APIVersion + ")"},
	"../docs/diff-report.schema.json":   {&result.Diff{}, "DiffReport of mesh-audit (" + result.APIVersion + ")"},
	"../docs/verify-report.schema.json": {&result.Verification{}, "VerifyReport of mesh-audit (" + result.APIVersion + ")"},
}

// TestSchemaIsCurrent keeps the schemas in docs/ equal to the types.
func TestSchemaIsCurrent(t *testing.T) {
	for file, s := range schemas {
		want := schema(t, s.of, s.title)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		have, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is not current: run 'make generate'", filepath.Base(file))
		}
	}
}

func schema(t *testing.T, of any, title string) []byte {
	t.Helper()
	r := &jsonschema.Reflector{
		ExpandedStruct:            true,
		Mapper:                    hexadecimal,
		AllowAdditionalProperties: true,
		Namer: func(typ reflect.Type) string {
			name := typ.Name()
			if open := strings.IndexByte(name, '['); open >= 0 {
				argument := name[open+1 : len(name)-1]
				if i := strings.LastIndexAny(argument, "./"); i >= 0 {
					argument = argument[i+1:]
				}
				list := ""
				if strings.HasPrefix(name[open+1:], "[]") {
					list = "List"
				}
				name = name[:open] + strings.ToUpper(strings.Trim(argument, "[]*")[:1]) + strings.Trim(argument, "[]*")[1:] + list
			}
			return name
		},
	}
	t.Chdir("..")
	if err := r.AddGoComments("github.com/mesh-audit/mesh-audit", "./audit/result"); err != nil {
		t.Fatal(err)
	}
	t.Chdir("report")
	s := r.Reflect(of)
	s.Title = title
	s.ID = ""
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// hexadecimal gives the form of a Digest, which is a number only in Go.
func hexadecimal(typ reflect.Type) *jsonschema.Schema {
	if typ != reflect.TypeFor[result.Digest]() {
		return nil
	}
	return &jsonschema.Schema{Type: "string", Pattern: "^[0-9a-f]{16}$"}
}
