package mesh_test

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/internal/bigmesh"
)

// Proxies that are read at the same time are those read one after the other,
// with the same gaps.
func TestChunksMakeNoDifference(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	b := snapshot.NewBuilder()
	for o := range (bigmesh.Shape{Namespaces: 5, Services: 30, Endpoints: 90, Proxies: 80, Sidecars: 2, Gateways: 3, Headless: 1, HeadlessPods: 4}).Objects() {
		b.Add(o, result.Source{})
	}
	snap := b.Build()
	for i := range snap.Pods {
		p := &snap.Pods[i]
		switch i % 9 {
		case 0:
			p.IPs = nil
		case 1:
			if p.Proxy != nil {
				p.Annotations = map[string]string{"proxy.istio.io/config": "concurrency: many"}
			}
		}
	}
	read := func() (out []any) {
		m := mesh.New(snap)
		for _, p := range m.Views[0].Proxies {
			if p.View != m.Views[0] {
				t.Errorf("%s/%s is of another view", p.Namespace, p.Name)
			}
			var targets []string
			for _, target := range p.Targets {
				targets = append(targets, target.Service.Host)
			}
			out = append(out, p.AsNode(), p.Labels.Map(), p.Workload, targets)
		}
		return append(out, m.Gaps)
	}
	want := read()
	defer mesh.SetLeastPods(7)()
	if diff := cmp.Diff(want, read(), cmp.AllowUnexported(result.Ref{})); diff != "" {
		t.Errorf("(-one by one +in chunks):\n%s", diff)
	}
	if gaps, ok := want[len(want)-1].([]result.Gap); !ok || len(gaps) < 10 || len(want) < 100 {
		t.Errorf("%d values, %d gaps: too few to tell anything", len(want), len(gaps))
	}
}
