package load_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// The files of testdata/diagnostics say at each line, after "# want:", what the
// diagnostic there begins with.
func TestDiagnostics(t *testing.T) {
	files, err := filepath.Glob("testdata/diagnostics/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files (%v)", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := map[int]string{}
			for i, line := range bytes.Split(text, []byte("\n")) {
				if _, w, ok := bytes.Cut(line, []byte("# want: ")); ok {
					want[i+1] = string(w)
				}
			}
			r, err := load.Files(t.Context(), load.Options{Filenames: []string{file}})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range r.Diagnostics {
				w, ok := want[d.Source.Line]
				if got := diagnostic(d); !ok || !strings.HasPrefix(got, strings.TrimSuffix(w, " (kept)")) || d.Kept != strings.HasSuffix(w, " (kept)") {
					t.Errorf("%s:%d: %s (kept: %v)\nwant: %s", d.Source.File, d.Source.Line, got, d.Kept, w)
				}
				delete(want, d.Source.Line)
			}
			for line, w := range want {
				t.Errorf("%s:%d: no diagnostic, want: %s", file, line, w)
			}
		})
	}
}

func diagnostic(d result.Diagnostic) string {
	object := d.Object.Kind
	if d.Object.Namespace != "" {
		object += " " + d.Object.Namespace
	}
	if d.Object.Name != "" {
		object += "/" + d.Object.Name
	}
	return fmt.Sprintf("%s: %s", object, d.Text)
}

// Of a text with one bad document the others are read, and the one diagnostic
// names the line.
func TestBadDocument(t *testing.T) {
	good := "apiVersion: v1\nkind: Service\nmetadata: {name: good}\nspec: {ports: [{port: 80}]}\n"
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	tests := map[string]struct {
		bad  string
		line int // within the bad document
		want string
	}{
		"syntax":          {"kind: Service\n  a: b\n", 2, "not valid YAML"},
		"tab":             {"kind: Service\n\ta: b\n", 2, "not valid YAML"},
		"not UTF-8":       {"kind: Service\nname: caf\xe9\n", 2, "not UTF-8"},
		"UTF-16":          {"\xff\xfek\x00i\x00n\x00d\x00", 1, "not UTF-8"},
		"NUL":             {"kind: Service\nname: \x00\n", 0, "not valid YAML"},
		"billion laughs":  {bomb(), 0, "the aliases stand for more than"},
		"alias of itself": {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: &a [*a]\n", 0, "nested more than"},
		"merge of itself": {"apiVersion: v1\nkind: Pod\nmetadata: &a\n  name: a\n  <<: *a\n", 0, "nested more than"},
		"deep":            {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: " + deep + "\n", 0, "nested more than"},
		"undefined alias": {"apiVersion: v1\nkind: Pod\nmetadata: *a\n", 0, "unknown anchor"},
		"infinity":        {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {x: .inf}\n", 4, ".inf is not a number"},
		"null key":        {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, ~: b}\n", 3, "a key must be text"},
		"map as key":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, {b: c}: d}\n", 3, "a key must be text"},
		"JSON truncated":  {`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name"` + "\n", 1, "not valid JSON"},
		"JSON duplicate":  {`{"apiVersion": "v1", "kind": "Pod",` + "\n" + `"kind": "Node", "metadata": {"name": "a"}}` + "\n", 2, `key "kind" is already set`},
		"two in one":      {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n", 4, `key "apiVersion" is already set on line 6: if these are two objects, put --- between them`},
		"JSON in Istio":   {`{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": {"name": "a"},` + "\n" + `"spec": {"egress": 1}}`, 2, "a list belongs here, not a number"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text := good + "---\n" + test.bad + "\n---\n" + strings.ReplaceAll(good, "good", "better")
			r, err := load.Bytes(t.Context(), "f.yaml", []byte(text), "")
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Objects) != 2 {
				t.Errorf("%d objects, want the 2 good ones", len(r.Objects))
			}
			if len(r.Diagnostics) != 1 {
				t.Fatalf("diagnostics: %v, want 1", r.Diagnostics)
			}
			d := r.Diagnostics[0]
			if !strings.Contains(d.Text, test.want) || d.Kept {
				t.Errorf("%q, want %q", d.Text, test.want)
			}
			if first := 6; d.Source.Line < first || test.line > 0 && d.Source.Line != first+test.line-1 {
				t.Errorf("line %d, want %d", d.Source.Line, first+test.line-1)
			}
		})
	}
}

func bomb() string {
	var b strings.Builder
	b.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio}\ndata:\n  a0: &a0 [x]\n")
	for i := 1; i < 30; i++ {
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

func TestDuplicates(t *testing.T) {
	doc := "apiVersion: v1\nkind: Service\nmetadata: {name: web, labels: {mark: %q}}\nspec: {ports: [{port: 80}]}\n---\n"
	text := fmt.Sprintf(doc+doc+doc, "1", "2", "3")
	r, err := load.Bytes(t.Context(), "f.yaml", []byte(text), "shop")
	if err != nil {
		t.Fatal(err)
	}
	s := r.Snapshot()
	if len(s.Services) != 1 || s.Services[0].Labels["mark"] != "3" {
		t.Errorf("services: %v, want the last one", s.Services)
	}
	var got []string
	for _, d := range r.Diagnostics {
		got = append(got, fmt.Sprintf("%d: %s (kept: %v)", d.Source.Line, diagnostic(d), d.Kept))
	}
	want := "1: Service shop/web: given again at f.yaml:11; the last one counts (kept: true)\n" +
		"6: Service shop/web: given again at f.yaml:11; the last one counts (kept: true)"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
