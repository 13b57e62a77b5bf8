package complete_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/load"
)

// TestPair: what both versions of a mesh have gets the same address in both,
// and what only one has gets the same whichever comes first.
func TestPair(t *testing.T) {
	service := func(name string) string {
		return "---\napiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: shop}\nspec: {ports: [{port: 80}]}\n"
	}
	with, without := service("a")+service("b")+service("c"), service("b")+service("c")
	addresses := func(r *load.Result) map[string]string {
		out := map[string]string{}
		for _, o := range r.Objects {
			if s, ok := o.Obj.(*corev1.Service); ok {
				out[s.Name] = s.Spec.ClusterIP
			}
		}
		return out
	}
	pair := func(first, second string) (map[string]string, map[string]string) {
		var r [2]*load.Result
		for i, text := range []string{first, second} {
			var err error
			if r[i], err = load.Bytes(context.Background(), "f", []byte(text), ""); err != nil {
				t.Fatal(err)
			}
		}
		complete.Pair(r[0], r[1], complete.Options{}, complete.Options{})
		return addresses(r[0]), addresses(r[1])
	}
	added1, added2 := pair(without, with)
	gone1, gone2 := pair(with, without)
	for name, want := range map[string]string{"a": "10.96.0.1", "b": "10.96.0.2", "c": "10.96.0.3"} {
		for i, have := range []map[string]string{added1, added2, gone1, gone2} {
			if ip, there := have[name]; there && ip != want {
				t.Errorf("%d: %s has %s, want %s", i, name, ip, want)
			}
		}
	}
	if len(added1) != 2 || len(added2) != 3 || len(gone1) != 3 || len(gone2) != 2 {
		t.Errorf("%v %v %v %v", added1, added2, gone1, gone2)
	}
}
