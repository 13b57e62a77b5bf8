package xds_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// TestInboundOfOtherWorkloadsEqualsBuildingAnew holds virtualInbound, told from
// what another workload's was built like, against one that is built for the
// workload itself, across the lengths at which the length of a length changes.
func TestInboundOfOtherWorkloadsEqualsBuildingAnew(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	lengths := []int{1, 50, 100, 126, 127, 128, 129, 1000, 16000, 16383, 16384, 17000}
	word := func() string { return strings.Repeat("x", lengths[random.IntN(len(lengths))]) }
	for _, file := range []string{"services", "sidecars", "telemetry", "dynamic", "envoyfilter", "otel", "proxies"} {
		t.Run(file, func(t *testing.T) {
			s := readSidecars(t, "testdata/listener/base.yaml", "testdata/listener/"+file+".yaml")
			for _, p := range s.view.Proxies {
				sc := s.scoper.For(p)
				s.InboundListeners(sc, p)
				for range 5 {
					other := like(p, word(), word(), word(), word())
					other.Targets = nil
					for _, target := range p.Targets {
						svc := *target.Service
						svc.Host = word() + "." + svc.Host
						other.Targets = append(other.Targets, mesh.ServiceTarget{Service: &svc, Port: target.Port, TargetPort: target.TargetPort})
					}
					anew := xds.New(s.view, s.scoper, s.rec).InboundListeners(sc, other)
					if diff := gocmp.Diff(anew, s.InboundListeners(sc, other)); diff != "" {
						t.Errorf("%s/%s (-built anew +told): %s", p.Namespace, p.Name, diff)
					}
				}
			}
		})
	}
}
