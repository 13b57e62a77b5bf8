package judge

import (
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"istio.io/istio/pkg/test"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

// Cost is the processor time that proxies cost the server, user and system of
// the whole process, summed over the proxies measured.
type Cost struct {
	Proxies int
	Cold    time.Duration // with an empty cache of generated resources
	Warm    time.Duration // connecting once more, as in a running istiod
}

// Measure connects a sample of the mesh's proxies, evenly spread over all, and
// tells what that costs.
func Measure(m *mesh.Mesh, sample int) (Cost, error) {
	var cost Cost
	var failed error
	err := test.Wrap(func(t test.Failer) {
		s := startServer(t, m, serverOptions{})
		step := max(1, len(m.Pods)/max(1, sample))
		for i := step / 2; i < len(m.Pods) && failed == nil; i += step {
			s.Discovery.Cache.ClearAll()
			for _, spent := range []*time.Duration{&cost.Cold, &cost.Warm} {
				start := processorTime()
				failed = runProxy(s, m, m.Pods[i], func(*corev1.Pod, string, Raw) error { return nil })
				*spent += processorTime() - start
				if failed != nil {
					return
				}
			}
			cost.Proxies++
		}
	})
	switch {
	case failed != nil:
		return cost, failed
	case err == nil && cost.Proxies == 0:
		return cost, fmt.Errorf("the mesh has no proxies")
	}
	return cost, err
}

// processorTime is what the process has used so far.
func processorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		return 0
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
