package load_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

const bases = `-- base/kustomization.yaml --
resources: [web.yaml]
generatorOptions: {disableNameSuffixHash: true}
configMapGenerator: [{name: istio, namespace: istio-system, literals: ["mesh={}"]}]
-- base/web.yaml --
# a comment
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-two}
spec: {ports: [{port: 81}]}
-- prod/kustomization.yaml --
resources: [../base, bad.yaml, ../twice/a, ../twice/b]
namespace: prod
nameSuffix: -v1
patches: [{patch: '- {op: replace, path: /spec/ports/0/port, value: 8080}', target: {kind: Service, name: web-two}}]
-- prod/bad.yaml --
# first line
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: bad}
spec: {egress: none}
-- twice/common/kustomization.yaml --
resources: [common.yaml]
-- twice/common/common.yaml --
apiVersion: v1
kind: Service
metadata: {name: x}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: ax}
spec: {ports: [{port: 80}]}
-- twice/a/kustomization.yaml --
resources: [../common]
namePrefix: a-
-- twice/b/kustomization.yaml --
resources: [../common]
namePrefix: b-
`

// TestKustomizeOrigins: an object's place is that in the base that it is made
// from, without a line where that cannot be told; on the disk and in a tree alike.
func TestKustomizeOrigins(t *testing.T) {
	tree, dir := fstest.MapFS{}, t.TempDir()
	for _, part := range strings.Split("\n"+bases, "\n-- ")[1:] {
		name, text, _ := strings.Cut(part, " --\n")
		tree[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	want := []string{
		"web-v1 base/web.yaml:2", "web-two-v1 base/web.yaml:7", "istio-v1 base/kustomization.yaml",
		// Made twice, so that order does not tell; "x" is in "ax" too.
		"a-x-v1 twice/common/common.yaml:1", "a-ax-v1 twice/common/common.yaml",
		"b-x-v1 twice/common/common.yaml:1", "b-ax-v1 twice/common/common.yaml",
	}
	for _, in := range []fs.FS{nil, tree} {
		r, err := load.Files(t.Context(), load.Options{Tree: in, Kustomize: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		var have []string
		for _, o := range r.Objects {
			m := o.Obj.(metav1.Object)
			have = append(have, m.GetName()+" "+o.Source.String())
			if len(m.GetAnnotations()) > 0 {
				t.Errorf("%s has annotations: %v", m.GetName(), m.GetAnnotations())
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Error(diff)
		}
		if len(r.Diagnostics) != 1 || r.Diagnostics[0].Source.String() != "prod/bad.yaml:2" {
			t.Error(r.Diagnostics)
		}
	}
}

// TestMayBeMissing: names that stand for nothing are told, and the rest is read.
func TestMayBeMissing(t *testing.T) {
	tree := fstest.MapFS{"a.yaml": {Data: []byte(fmt.Sprintf(service, "a"))}, "text/readme.md": {}, "deep/er/b.yaml": {Data: []byte("{}")}}
	r, err := load.Files(t.Context(), load.Options{
		Tree: tree, Filenames: []string{"a.yaml", "none", "*.json", "text", "deep"}, Kustomize: "gone", MayBeMissing: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"none", "*.json", "text", "deep", "gone"}, r.Missing); diff != "" || len(r.Objects) != 1 {
		t.Error(diff, names(r))
	}
}
