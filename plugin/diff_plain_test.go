package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/plugin"
)

// first sorts before all of the demo mesh: were addresses numbered in each
// directory on its own, those of all other objects would shift.
const first = `
apiVersion: v1
kind: Namespace
metadata: {name: aaa, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: aaa, namespace: aaa}
spec: {selector: {app: aaa}, ports: [{name: tcp, port: 7777}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: aaa, namespace: aaa}
spec: {hosts: [aaa.example], ports: [{number: 7778, name: tcp, protocol: TCP}], resolution: DNS}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: aaa, namespace: aaa}
spec:
  replicas: 2
  selector: {matchLabels: {app: aaa}}
  template: {metadata: {labels: {app: aaa}}, spec: {containers: [{name: app, image: aaa}]}}
`

// TestDiffOfPlainFiles: what completion makes up for objects that both of two
// directories have is the same in both, so that objects that one of them has
// change nothing of the others, and swapping the sides swaps lost and gained.
func TestDiffOfPlainFiles(t *testing.T) {
	head := t.TempDir()
	if err := os.CopyFS(head, os.DirFS("../audit/demo/mesh")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(head, "aaa.yaml"), []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	there := diffJSON(t, plugin.ExitYes, "--base", "../audit/demo/mesh", "--head", head)
	for _, c := range there.Changes {
		names := c.Kind == result.ResizedOnly && c.Type == "nds"
		new := c.Kind == result.Gained && (strings.HasPrefix(c.Service, "aaa.") || strings.Contains(c.Resource, "7777") || strings.Contains(c.Resource, "7778"))
		if !names && !new {
			t.Errorf("%s %s %s: nothing but what is new may differ", c.Kind, c.Type, c.Resource)
		}
	}
	if there.Summary.Added != 2 || there.Summary.Gained == 0 {
		t.Errorf("%d new proxies, %d gained", there.Summary.Added, there.Summary.Gained)
	}
	back := diffJSON(t, plugin.ExitYes, "--base", head, "--head", "../audit/demo/mesh")
	if diff := cmp.Diff(outline(there, false), outline(back, true)); diff != "" {
		t.Errorf("-there +back:\n%s", diff)
	}
	if back.Summary.Removed != 2 || back.Summary.Lost != there.Summary.Gained {
		t.Errorf("%d gone proxies, %d lost; %d were gained", back.Summary.Removed, back.Summary.Lost, there.Summary.Gained)
	}
}
