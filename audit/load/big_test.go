package load_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

const bigPod = `%[2]sapiVersion: v1
%[1]skind: Pod
%[1]smetadata:
%[1]s  name: web-%[3]d
%[1]s  namespace: shop
%[1]s  labels:
%[1]s    app: web
%[1]s  annotations:
%[1]s    filler: "%[4]s"
%[1]sspec:
%[1]s  containers:
%[1]s  - name: web
%[1]s    image: example.com/web:1
%[1]s    ports:
%[1]s    - containerPort: 8080
`

// A file of 100 MB is read, whether it is a stream of documents or one list.
func TestFileOf100MB(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 200 MB")
	}
	filler := bytes.Repeat([]byte("x"), 2000)
	for name, form := range map[string]struct{ head, indent, first string }{
		"documents": {"", "", "---\n"},
		"list":      {"apiVersion: v1\nkind: List\nitems:\n", "  ", "- "},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			text.WriteString(form.head)
			n := 0
			for ; text.Len() < 100<<20; n++ {
				fmt.Fprintf(&text, bigPod, form.indent, form.first, n, filler)
			}
			file := filepath.Join(t.TempDir(), "big.yaml")
			if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := load.Files(t.Context(), load.Options{Filenames: []string{file}})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Objects) != n || len(r.Diagnostics) != 0 {
				t.Errorf("%d objects and %d diagnostics, want %d and none", len(r.Objects), len(r.Diagnostics), n)
			}
			if last := r.Objects[n-1].Source.Line; last != lineOf(text.Bytes(), fmt.Sprintf("name: web-%d\n", n-1))-3 {
				t.Errorf("the last pod is said to be at line %d", last)
			}
		})
	}
}

// Long JSON is cut and decoded in parts: the objects keep their order and lines,
// and what is wrong in one place leaves the rest alone.
func TestLongJSON(t *testing.T) {
	const most = 300
	pod := func(i int) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod",
  "metadata": {"name": "web-%d", "namespace": "shop", "annotations": {"filler": %q}},
  "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}}`, i, bytes.Repeat([]byte("{[ "), 1000))
	}
	for name, form := range map[string]struct{ head, between, tail string }{
		"values":     {"", "\n", "\n"},
		"list":       {"{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [\n", ",\n", "],\n\"metadata\": {}}\n"},
		"typed list": {"\n{\"apiVersion\": \"v1\", \"items\": [", ", \n\n", "], \"kind\": \"PodList\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			text.WriteString(form.head)
			for i := range most {
				if i > 0 {
					text.WriteString(form.between)
				}
				if i == most/2 {
					text.WriteString("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"Bad\xff\"}}")
					continue
				}
				text.WriteString(pod(i))
			}
			text.WriteString(form.tail)
			r, err := load.Bytes(t.Context(), "mesh.json", text.Bytes(), "")
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Objects) != most-1 || len(r.Diagnostics) != 1 {
				t.Fatalf("%d objects, %v", len(r.Objects), r.Diagnostics)
			}
			if d := r.Diagnostics[0]; d.Text != "not UTF-8 text" || d.Source.Line != lineOf(text.Bytes(), "Bad") {
				t.Errorf("%+v", d)
			}
			for i, o := range r.Objects {
				if i >= most/2 {
					i++
				}
				name := fmt.Sprintf("web-%d", i)
				if have := o.Obj.(*corev1.Pod).Name; have != name || o.Source.Line != lineOf(text.Bytes(), name+`"`)-1 {
					t.Fatalf("%s at line %d where %s is", have, o.Source.Line, name)
				}
			}
		})
	}
}

func lineOf(text []byte, s string) int {
	return bytes.Count(text[:bytes.Index(text, []byte(s))], []byte("\n")) + 1
}
