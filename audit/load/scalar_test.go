package load_test

import (
	"encoding/json"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// Scalars become what kubectl makes of them: its YAML library is the judge.
func TestScalars(t *testing.T) {
	for _, value := range []string{
		"text", "yes", "No", "on", "OFF", "y", "N", "true", "False", "~", "null", "", `"yes"`, `'1'`, "1", "-1", "+1", "0x1F", "0b101", "-0b11", "017", "0o17", "1_000",
		"1.5", ".5", "1e3", "1E+400", "1.", "-.5", "0.0", "1.0", "18446744073709551615", "99999999999999999999", "2024-01-01", "2024-01-01T00:00:00Z", "1:30", "10.0.0.1",
		"!!str 1", "!!str yes", "!!binary aGVsbG8=", "!local x", "|\n  a\n  b\n", ">-\n  a\n  b\n", `"\u00e9\n"`, "é", "a: b", "[1, yes, ~]", "{1: a, yes: b, 1.5: c}", "!!int 3", "!!float 3", "\"\\x01\"", "0", "-0", "00", "1__0", "_1", "-", "+", ".", "1e", "0x", "=", "<<",
	} {
		doc := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, annotations: {}}\ndata:\n  mesh: x\nv: " + value + "\n"
		want, wantErr := yaml.YAMLToJSON([]byte(doc))
		got, err := load.ToJSON([]byte(doc))
		if (err != nil) != (wantErr != nil) {
			t.Errorf("%s: error %v, kubectl's %v", value, err, wantErr)
			continue
		}
		if err == nil && canonical(t, got) != canonical(t, want) {
			t.Errorf("%s: %s, kubectl's %s", value, got, want)
		}
	}
}

func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
