package diff_test

import (
	"slices"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/diff"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// TestUnreadFiles: an object that only one side has may be in a document of the
// other side of which nothing could be read only if the files correspond.
func TestUnreadFiles(t *testing.T) {
	for name, test := range map[string]struct {
		have   map[string]string // objects of the base by name, with their files
		head   []string          // files of the head that were read
		broken string
		unread []string // of the base's objects
	}{
		"other directory":     {map[string]string{"a": "base/a/web.yaml", "b": "base/b/web.yaml"}, []string{"head/a/web.yaml"}, "head/b/web.yaml", []string{"b"}},
		"of a gone one":       {map[string]string{"a": "base/a/web.yaml", "b": "base/b/web.yaml"}, nil, "head/b/web.yaml", []string{"b"}},
		"paths of a revision": {map[string]string{"a": "a/web.yaml", "b": "b/web.yaml"}, nil, "a/web.yaml", []string{"a"}},
		"backslashes":         {map[string]string{"a": `base\a\web.yaml`, "b": `base\b\web.yaml`}, nil, `head\b\web.yaml`, []string{"b"}},
		"moved up":            {map[string]string{"a": "base/a/web.yaml", "c": "base/c.yaml"}, []string{"head/c.yaml"}, "head/web.yaml", []string{"a"}},
		"single files":        {map[string]string{"a": "main.yaml"}, nil, "branch.yaml", []string{"a"}},
		"from a pipe":         {map[string]string{"a": "base/a.yaml", "b": "base/b.yaml"}, nil, "STDIN", []string{"a", "b"}},
		"renamed":             {map[string]string{"a": "base/a.yaml", "b": "base/b.yaml"}, []string{"head/a.yaml"}, "head/c.yaml", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			base, head := mesh{}.audit(), mesh{}.audit()
			add := func(a *result.Audit, name, file string) {
				o := object("Service", name, name)
				o.Source = result.Source{File: file, Line: 1}
				a.Objects = append(a.Objects, o)
				slices.SortFunc(a.Objects, func(x, y result.Object) int { return slices.Compare([]string{x.Name}, []string{y.Name}) })
			}
			for object, file := range test.have {
				add(base, object, file)
			}
			for _, file := range test.head {
				add(head, "of "+file, file)
			}
			head.Diagnostics = []result.Diagnostic{{Source: result.Source{File: test.broken, Line: 3}, Text: "not valid YAML"}}
			check := func(d *result.Diff, removed string) {
				var unread []string
				for _, in := range d.Inputs {
					switch _, ours := test.have[in.Ref().Name]; {
					case !ours:
					case in.Change == result.InputUnread:
						unread = append(unread, in.Ref().Name)
					case in.Change != removed:
						t.Errorf("%s: %s", in.Ref().Name, in.Change)
					}
				}
				if slices.Sort(unread); !slices.Equal(unread, test.unread) {
					t.Errorf("unread: %v, want %v", unread, test.unread)
				}
			}
			check(diff.Compare(base, head, diff.Options{}), "removed")
			check(diff.Compare(head, base, diff.Options{}), "added")
		})
	}
}
