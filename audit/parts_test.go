package audit_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/internal/bigmesh"
)

// A mesh that is computed in parts at the same time has the answer of one that
// is not.
func TestPartsMakeNoDifference(t *testing.T) {
	shape := bigmesh.Shape{
		Namespaces: 6, Services: 40, Endpoints: 80, Proxies: 80, Rules: 8, VirtualServices: 20, External: 3,
		Sidecars: 5, Imports: 1, Gateways: 6, Headless: 1, HeadlessPods: 3,
	}
	b := snapshot.NewBuilder()
	for o := range shape.Objects() {
		b.Add(o, result.Source{})
	}
	snap := b.Build()
	run := func(o audit.Options) *result.Audit {
		a, err := audit.Run(snap, o)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for name, o := range map[string]audit.Options{"brief": {Brief: true}, "whole": {}, "details": {Details: true}} {
		t.Run(name, func(t *testing.T) {
			whole := run(o)
			if len(whole.Reasons) == 0 {
				t.Fatal("no reasons")
			}
			defer audit.SetParts(10)()
			done := 0
			o.Progress = func(n, total int) {
				if n < done || n > total {
					t.Errorf("%d of %d proxies are done, after %d", n, total, done)
				}
				done = n
			}
			if diff := gocmp.Diff(whole, run(o), gocmp.AllowUnexported(result.Ref{})); diff != "" {
				t.Errorf("(-whole +parts):\n%.4000s", diff)
			}
			if done != len(whole.Proxies) {
				t.Errorf("%d proxies are done of %d", done, len(whole.Proxies))
			}
		})
	}
}
