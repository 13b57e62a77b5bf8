package xds_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// like is a proxy that differs from p in what each workload says of itself.
func like(p *mesh.Proxy, name, revision, meshID, workload string) *mesh.Proxy {
	own := *p
	labels := p.Labels.Map()
	labels["service.istio.io/canonical-name"] = name
	labels["service.istio.io/canonical-revision"] = revision
	delete(labels, "app")
	own.Labels = mesh.LabelsOf(labels)
	own.MeshID, own.WorkloadName = meshID, workload
	return &own
}

// TestBytesForEqualsBuildingAnew holds what a listener weighs for a proxy
// against the listener built for that proxy, across the lengths at which the
// length of a length changes.
func TestBytesForEqualsBuildingAnew(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	lengths := []int{0, 1, 100, 120, 126, 127, 128, 129, 1000, 16000, 16383, 16384, 17000}
	word := func() string { return strings.Repeat("x", lengths[random.IntN(len(lengths))]) }
	for _, file := range []string{"services", "sidecars", "telemetry", "dynamic", "envoyfilter", "otel", "proxies"} {
		t.Run(file, func(t *testing.T) {
			s := readSidecars(t, "testdata/listener/base.yaml", "testdata/listener/"+file+".yaml")
			for _, p := range s.view.Proxies {
				sc := s.scoper.For(p)
				shared := s.OutboundListeners(sc, p)
				for range 5 {
					other := like(p, word(), word(), word(), word())
					anew := map[string]*xds.Listener{}
					for _, l := range xds.New(s.view, s.scoper, s.rec).OutboundListeners(sc, other) {
						anew[l.Name] = l
					}
					if len(anew) != len(shared) {
						t.Fatalf("%d listeners, built anew %d", len(shared), len(anew))
					}
					for _, l := range shared {
						if got, want := l.BytesFor(other), anew[l.Name].Bytes; got != want {
							t.Errorf("%s/%s: %s has %d bytes, built anew %d", p.Namespace, p.Name, l.Name, got, want)
						}
					}
					for _, l := range s.OutboundListeners(sc, other) {
						if diff := gocmp.Diff(anew[l.Name].Resource, l.Resource); diff != "" {
							t.Errorf("%s/%s: %s: %s", p.Namespace, p.Name, l.Name, diff)
						}
					}
				}
			}
		})
	}
}

// TestBytesForOtherShape covers proxies of one scope whose listeners differ in
// more than tags.
func TestBytesForOtherShape(t *testing.T) {
	s := readSidecars(t, "testdata/listener/base.yaml", "testdata/listener/services.yaml")
	p := s.view.Proxies[0]
	sc := s.scoper.For(p)
	other := *p
	other.Metadata.IdleTimeout = "17s"
	anew := map[string]int64{}
	for _, l := range xds.New(s.view, s.scoper, s.rec).OutboundListeners(sc, &other) {
		anew[l.Name] = l.Bytes
	}
	for _, l := range s.OutboundListeners(sc, p) {
		if got := l.BytesFor(&other); got != anew[l.Name] || got == l.Bytes {
			t.Errorf("%s has %d bytes, built anew %d, without the timeout %d", l.Name, got, anew[l.Name], l.Bytes)
		}
	}
}
