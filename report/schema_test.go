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

const schemaFile = "../docs/scope-report.schema.json"

// TestSchemaIsCurrent keeps docs/scope-report.schema.json equal to the types.
func TestSchemaIsCurrent(t *testing.T) {
	want := schema(t)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not current: run 'make generate'", filepath.Base(schemaFile))
	}
}

func schema(t *testing.T) []byte {
	t.Helper()
	r := &jsonschema.Reflector{
		ExpandedStruct:            true,
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
	s := r.Reflect(&result.Audit{})
	s.Title = "ScopeReport of mesh-audit (" + result.APIVersion + ")"
	s.ID = ""
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}
