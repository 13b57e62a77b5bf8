package load_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

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

func lineOf(text []byte, s string) int {
	return bytes.Count(text[:bytes.Index(text, []byte(s))], []byte("\n")) + 1
}
