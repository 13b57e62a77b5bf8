package audit_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/internal/bigmesh"
)

// A mesh that is computed in parts at the same time has the answer of one that
// is not, but for the numbers of reasons.
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
		orderReasons(a)
		return a
	}
	for name, o := range map[string]audit.Options{"brief": {Brief: true}, "whole": {}, "details": {Details: true}} {
		t.Run(name, func(t *testing.T) {
			whole := run(o)
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

// orderReasons numbers the reasons by their text.
func orderReasons(a *result.Audit) {
	order := make([]int, len(a.Reasons))
	for i := range order {
		order[i] = i
	}
	text := func(i int) string { return fmt.Sprintf("%+v", a.Reasons[i]) }
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(text(i), text(j)) })
	ids := make([]result.ReasonID, len(order))
	reasons := make([]result.Reason, len(order))
	for to, from := range order {
		ids[from], reasons[to] = result.ReasonID(to), a.Reasons[from]
	}
	a.Reasons = reasons
	seen := map[*result.Resource]bool{}
	renumber := func(r *result.Resources) {
		for _, t := range result.Types {
			for _, r := range *r.Of(t) {
				if seen[r] {
					continue
				}
				seen[r] = true
				for i, id := range r.Because {
					r.Because[i] = ids[id]
				}
				slices.Sort(r.Because)
			}
		}
	}
	for i := range a.Scopes {
		renumber(&a.Scopes[i].Resources)
	}
	for i := range a.Groups {
		renumber(&a.Groups[i].Resources)
	}
}
