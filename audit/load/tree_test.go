package load_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// TestTree reads names, directories, patterns and a kustomization from a tree
// that is not on the disk.
func TestTree(t *testing.T) {
	service := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: shop}\nspec: {ports: [{port: 80}]}\n")}
	}
	tree := fstest.MapFS{
		"mesh/a.yaml": service("a"), "mesh/deep/b.yaml": service("b"), "c.yml": service("c"), "other/d.yaml": service("d"),
		"base/e.yaml": service("e"), "base/kustomization.yaml": {Data: []byte("resources: [e.yaml]\n")},
		"prod/kustomization.yaml": {Data: []byte("resources: [../base]\nnamePrefix: prod-\n")},
		"big.yaml":                {Data: []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")},
	}
	r, err := load.Files(context.Background(), load.Options{
		Tree: tree, Filenames: []string{"mesh", "*.yml", "big.yaml"}, Recursive: true, Kustomize: "prod",
	})
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, o := range r.Objects {
		have = append(have, o.Source.File+" "+o.Obj.(*corev1.Service).Name)
	}
	if want := "mesh/a.yaml a, mesh/deep/b.yaml b, c.yml c, base/e.yaml prod-e"; strings.Join(have, ", ") != want {
		t.Errorf("read %s, want %s", strings.Join(have, ", "), want)
	}
	if len(r.Gaps) != 1 || !strings.Contains(r.Gaps[0].Text, "cannot read big.yaml: it is a pointer of Git LFS") {
		t.Errorf("gaps: %v", r.Gaps)
	}
	if _, err := load.Files(context.Background(), load.Options{Tree: tree, Filenames: []string{"none"}}); err == nil || !strings.Contains(err.Error(), `the path "none" does not exist`) {
		t.Error(err)
	}
}
