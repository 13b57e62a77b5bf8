package bigmesh_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/internal/bigmesh"
)

// A brief answer is the whole one less what it leaves out: routes of namespaces
// that are alike, told from one another, weigh what they weigh built one by one.
func TestBriefIsTheWholeWithoutParts(t *testing.T) {
	for name, s := range map[string]bigmesh.Shape{
		"open":     {Namespaces: 7, Services: 60, Endpoints: 120, Proxies: 120, Rules: 6, VirtualServices: 10, External: 5},
		"scoped":   {Namespaces: 5, Services: 40, Endpoints: 80, Proxies: 80, Rules: 4, VirtualServices: 10, External: 3, Sidecars: 3, Imports: 1},
		"headless": {Namespaces: 3, Services: 12, Endpoints: 24, Proxies: 24, Headless: 2, HeadlessPods: 5},
		"edge":     {Namespaces: 4, Services: 20, Endpoints: 40, Proxies: 20, Gateways: 4, VirtualServices: 30},
	} {
		t.Run(name, func(t *testing.T) {
			snap := snapshotOf(s)
			brief, err := audit.Run(snap, audit.Options{Brief: true})
			if err != nil {
				t.Fatal(err)
			}
			whole, err := audit.Run(snap, audit.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range whole.Scopes {
				for j, r := range whole.Scopes[i].Resources.RDS {
					short := *r
					if len(brief.Scopes[i].Resources.RDS[j].Parts) == 0 {
						short.Parts = nil
					}
					whole.Scopes[i].Resources.RDS[j] = &short
				}
			}
			whole.Objects = nil
			if diff := gocmp.Diff(whole, brief, gocmp.AllowUnexported(result.Ref{})); diff != "" {
				t.Errorf("(-whole +brief):\n%.4000s", diff)
			}
		})
	}
}
