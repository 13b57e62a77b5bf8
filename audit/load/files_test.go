package load_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// names lists the objects as "kind namespace/name file:line".
func names(r *load.Result) []string {
	var out []string
	for _, o := range r.Objects {
		m := o.Obj.(metav1.Object)
		out = append(out, fmt.Sprintf("%s %s/%s %s:%d", o.Obj.GetObjectKind().GroupVersionKind().Kind,
			m.GetNamespace(), m.GetName(), filepath.Base(o.Source.File), o.Source.Line))
	}
	return out
}

const service = "apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {ports: [{port: 80}]}\n"

func TestFormats(t *testing.T) {
	web, db := fmt.Sprintf(service, "web"), fmt.Sprintf(service, "db")
	item := func(text string) string {
		return "- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
	}
	const jsonWeb = `{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}`
	jsonDB := strings.ReplaceAll(jsonWeb, "web", "db")
	filler := "# " + strings.Repeat("x", 300<<10) + "\n" // big enough for the list to be cut
	tests := map[string]struct {
		text    string
		web, db int // lines
	}{
		"documents":         {web + "---\n" + db, 1, 6},
		"CRLF":              {strings.ReplaceAll(web+"---\n"+db, "\n", "\r\n"), 1, 6},
		"byte order mark":   {"\xef\xbb\xbf" + web + "---\n" + db, 1, 6},
		"helm":              {"---\n# Source: a\n" + web + "---\n# Source: empty\n---\n\n---\n# Source: b\n\n" + db + "...\n", 3, 14},
		"directive":         {"%YAML 1.2\n---\n" + web + "--- # next\n" + db, 3, 8},
		"flow on a marker":  {web + "--- " + jsonDB + "\n", 1, 5},
		"list":              {"apiVersion: v1\nkind: List\nitems:\n" + item(web) + item(db), 4, 8},
		"list, kind last":   {"apiVersion: v1\nitems:\n" + item(web) + item(db) + "kind: List\n", 3, 7},
		"big list":          {"apiVersion: v1\nkind: List\nitems:\n" + item(web) + filler + item(db) + "metadata:\n  resourceVersion: ''\n", 4, 9},
		"big list, indent":  {"apiVersion: v1\nkind: List\n" + filler + "items:\n  " + strings.ReplaceAll(item(web), "\n", "\n  ") + strings.ReplaceAll(item(db), "\n", "\n  ") + "\n", 5, 9},
		"typed list":        {"apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: web}\n  spec: {ports: [{port: 80}]}\n- metadata: {name: db}\n  spec: {ports: [{port: 80}]}\n", 4, 6},
		"big typed list":    {filler + "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata: {name: web}\n  spec: {ports: [{port: 80}]}\n- metadata: {name: db}\n  spec: {ports: [{port: 80}]}\n" + filler, 5, 7},
		"JSON":              {jsonWeb + "\n---\n" + jsonDB, 1, 3},
		"JSON stream":       {jsonWeb + jsonDB, 1, 1},
		"JSON lines":        {"\n" + jsonWeb + "\n\n" + jsonDB + "\n", 2, 4},
		"JSON list":         {"{\"apiVersion\": \"v1\",\n\"items\": [\n" + jsonWeb + ",\n" + jsonDB + "],\n\"kind\": \"List\"}", 3, 4},
		"JSON typed list":   {"{\"apiVersion\": \"v1\", \"kind\": \"ServiceList\", \"items\": [{\"metadata\": {\"name\": \"web\"},\n\"spec\": {\"ports\": [{\"port\": 80}]}},\n{\"metadata\": {\"name\": \"db\"}, \"spec\": {\"ports\": [{\"port\": 80}]}}]}", 1, 3},
		"list in a list":    {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  " + strings.ReplaceAll(item(web), "\n", "\n  ") + strings.ReplaceAll(item(db), "\n", "\n  ") + "\n", 7, 11},
		"YAML in braces":    {"{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}\n---\n" + db, 1, 3},
		"anchors and merge": {"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: &s {ports: [{port: 80}]}\n---\napiVersion: v1\nkind: Service\nmetadata: &m {name: db, <<: {name: no}}\nspec: {ports: [{port: &p 80, targetPort: *p}]}\n", 1, 6},
		"YAML 1.1 escapes":  {"apiVersion: v1\nkind: Service\nmetadata: {name: !!str web}\nspec: {ports: [{port: 0x50}]}\n---\n" + strings.ReplaceAll(db, "80", "8_0"), 1, 6},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := load.Bytes(t.Context(), "f", []byte(test.text), "shop")
			if err != nil {
				t.Fatal(err)
			}
			want := []string{fmt.Sprintf("Service shop/web f:%d", test.web), fmt.Sprintf("Service shop/db f:%d", test.db)}
			if diff := cmp.Diff(want, names(r)); diff != "" || len(r.Diagnostics) > 0 {
				t.Errorf("%s%v", diff, r.Diagnostics)
			}
			for _, s := range r.Snapshot().Services {
				if len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 80 {
					t.Errorf("%s: ports %v, want 80", s.Name, s.Spec.Ports)
				}
			}
		})
	}
}

func TestNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "---\n---\n", "# only a comment\n", "%YAML 1.2\n---\n", "...\n", "{}", "null\n"} {
		r, err := load.Bytes(t.Context(), "f", []byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Objects)+len(r.Diagnostics) > 0 && text != "{}" {
			t.Errorf("%q: %v %v", text, names(r), r.Diagnostics)
		}
	}
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a.yaml": fmt.Sprintf(service, "a"), "b.yml": fmt.Sprintf(service, "b"), "c.json": `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"c","namespace":"x"}}`,
		"notes.txt": "no", "sub/d.yaml": fmt.Sprintf(service, "d"), "kustomization.yaml": "resources: [a.yaml]\n", "extra": fmt.Sprintf(service, "e"),
	})
	at := func(names ...string) (paths []string) {
		for _, n := range names {
			if n != load.Stdin {
				n = filepath.Join(dir, n)
			}
			paths = append(paths, n)
		}
		return paths
	}
	tests := map[string]struct {
		options load.Options
		want    []string
	}{
		"file":            {load.Options{Filenames: at("extra")}, []string{"Service default/e extra:1"}},
		"directory":       {load.Options{Filenames: at(".")}, []string{"Service default/a a.yaml:1", "Service default/b b.yml:1", "Namespace /c c.json:1"}},
		"recursive":       {load.Options{Filenames: at("."), Recursive: true}, []string{"Service default/a a.yaml:1", "Service default/b b.yml:1", "Namespace /c c.json:1", "Service default/d d.yaml:1"}},
		"pattern":         {load.Options{Filenames: at("[ab].y*ml")}, []string{"Service default/a a.yaml:1", "Service default/b b.yml:1"}},
		"in order":        {load.Options{Filenames: at("b.yml", "a.yaml")}, []string{"Service default/b b.yml:1", "Service default/a a.yaml:1"}},
		"stdin":           {load.Options{Filenames: at("-", "-"), Stdin: strings.NewReader(fmt.Sprintf(service, "s")), Namespace: "shop"}, []string{"Service shop/s -:1"}},
		"kustomize":       {load.Options{Kustomize: "testdata/kustomize"}, []string{"Service shop/web-prod web.yaml:1"}},
		"kustomize and f": {load.Options{Filenames: at("a.yaml"), Kustomize: "testdata/kustomize"}, []string{"Service default/a a.yaml:1", "Service shop/web-prod web.yaml:1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := load.Files(t.Context(), test.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(r)); diff != "" || len(r.Diagnostics)+len(r.Gaps) > 0 {
				t.Errorf("%s%v %v", diff, r.Diagnostics, r.Gaps)
			}
		})
	}
}

func TestRequestsThatFail(t *testing.T) {
	dir := t.TempDir()
	tests := map[string]struct {
		options load.Options
		want    string
	}{
		"missing":       {load.Options{Filenames: []string{filepath.Join(dir, "none.yaml")}}, "does not exist"},
		"no match":      {load.Options{Filenames: []string{filepath.Join(dir, "*.yaml")}}, "does not exist"},
		"pattern":       {load.Options{Filenames: []string{filepath.Join(dir, "[")}}, "is not valid"},
		"URL":           {load.Options{Filenames: []string{"https://example.com/mesh.yaml"}}, "URLs are not fetched"},
		"empty dir":     {load.Options{Filenames: []string{dir}}, "recognized file extensions"},
		"kustomization": {load.Options{Kustomize: dir}, "cannot build the kustomization"},
		"no kustomize":  {load.Options{Kustomize: filepath.Join(dir, "none")}, "cannot build the kustomization"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := load.Files(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := load.Files(ctx, load.Options{Filenames: []string{"testdata/kustomize/base"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What cannot be read in a directory is a gap; the rest is read.
func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.yaml": fmt.Sprintf(service, "a"), "sub/b.yaml": fmt.Sprintf(service, "b")})
	for link, target := range map[string]string{"loop.yaml": "loop.yaml", "gone.yaml": "nowhere", "sub/up": "..", "dir.yaml": "sub", "zero.yaml": "/dev/zero"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	r, err := load.Files(t.Context(), load.Options{Filenames: []string{dir}, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Service default/a a.yaml:1", "Service default/b b.yaml:1"}, names(r)); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, g := range r.Snapshot().Gaps {
		if g.Kind != result.Unread || !g.All {
			t.Errorf("%+v, want an unread gap for all", g)
		}
		got = append(got, filepath.Base(g.Object.Source.File))
	}
	if diff := cmp.Diff([]string{"gone.yaml", "loop.yaml", "zero.yaml"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestIgnoredAndUnmodelledKinds(t *testing.T) {
	text := `
apiVersion: v1
kind: Secret
metadata: {name: s}
---
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: not-core}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: edge, labels: {a: b}}
spec: {gatewayClassName: istio}
---
{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "istio"}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: x}
spec: {broken: [
`
	r, err := load.Bytes(t.Context(), "f.yaml", []byte(text), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"Secret": 1, "Service.serving.knative.dev": 1, "CustomResourceDefinition.apiextensions.k8s.io": 1}, r.Ignored); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, m := range r.Snapshot().Unmodelled {
		got = append(got, fmt.Sprintf("%s %s/%s:%d", m.Kind, m.Namespace, m.Name, m.Source.Line))
	}
	want := []string{"GatewayClass.gateway.networking.k8s.io /istio:15", "Gateway.gateway.networking.k8s.io edge/gw:10"}
	if diff := cmp.Diff(want, got); diff != "" || len(r.Diagnostics) > 0 {
		t.Errorf("%s%v", diff, r.Diagnostics)
	}
}
