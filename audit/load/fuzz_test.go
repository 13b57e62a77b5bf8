package load_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// Any text gives a result, the same one each time, and never a panic.
func FuzzBytes(f *testing.F) {
	files, _ := filepath.Glob("testdata/diagnostics/*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(bomb()))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},null,[],1]}`))
	f.Add([]byte("a: &a {b: *a}\n--- !!binary x\n...\n? [x]\n: y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := load.Bytes(t.Context(), "f", text, "")
		if err != nil {
			t.Fatal(err)
		}
		b, err := load.Bytes(t.Context(), "f", text, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a.Diagnostics, b.Diagnostics); diff != "" {
			t.Error(diff)
		}
		for _, d := range a.Diagnostics {
			if d.Text == "" || d.Source.Line < 1 {
				t.Errorf("diagnostic without text or line: %+v", d)
			}
		}
		a.Snapshot()
	})
}
