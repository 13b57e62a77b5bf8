package mesh_test

import (
	"context"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// read decodes a YAML stream of Kubernetes objects.
func read(t *testing.T, text string) *snapshot.Snapshot {
	t.Helper()
	r, err := load.Bytes(context.Background(), "test.yaml", []byte(text), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		t.Fatalf("%v: %s", d.Object, d.Text)
	}
	return r.Snapshot()
}

// only is the single view of a YAML stream.
func only(t *testing.T, text string) *mesh.View {
	t.Helper()
	m := mesh.New(read(t, text))
	if len(m.Views) != 1 {
		t.Fatalf("%d views, want 1", len(m.Views))
	}
	return m.Views[0]
}

// hosts are "namespace/host" of services, in their order.
func hosts(services []*mesh.Service) []string {
	var out []string
	for _, s := range services {
		out = append(out, s.Namespace+"/"+s.Host)
	}
	return out
}
