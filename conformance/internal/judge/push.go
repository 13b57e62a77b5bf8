package judge

import (
	"fmt"
	"sync/atomic"
	"time"

	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pilot/pkg/networking/core/route"
	"istio.io/istio/pkg/test"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Push connects all proxies to a server with the base, changes it to the head
// and reports what each connection is sent then. before and after are the
// objects that the two were loaded from. Events are debounced as istiod does:
// what belongs to one change is one push.
func Push(base, head *mesh.Mesh, before, after []mesh.Object) (*report.Pushes, error) {
	c, err := changeOf(base, head, before, after)
	if err != nil {
		return nil, err
	}
	var out *report.Pushes
	var failed error
	err = test.Wrap(func(t test.Failer) {
		s := startServer(t, base, serverOptions{debounce: features.DebounceAfter})
		out, failed = s.push(c)
	})
	if failed != nil {
		return nil, failed
	}
	return out, err
}

func (s *server) push(c *change) (*report.Pushes, error) {
	var all []*follower
	defer func() {
		for _, f := range all {
			f.close()
		}
	}()
	heard := &atomic.Int64{}
	for _, pod := range c.base.Pods {
		route.DefaultMaxDirectResponseBodySizeBytes.Value = directBody
		f, err := follow(s, pod, c.base.Config, heard)
		if err != nil {
			return nil, fmt.Errorf("proxy %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		all = append(all, f)
	}
	s.quiet(heard)
	for _, f := range all {
		f.begin()
	}
	if err := s.apply(c); err != nil {
		return nil, err
	}
	s.quiet(heard)
	out := &report.Pushes{Module: report.Module, IstioVersion: report.IstioVersion, Proxies: []report.PushedProxy{}}
	for _, f := range all {
		p, err := f.end()
		if err != nil {
			return nil, fmt.Errorf("proxy %s/%s: %w", p.Namespace, p.Name, err)
		}
		out.Proxies = append(out.Proxies, p)
	}
	return out, nil
}

// idle is how long no connection may have heard anything before the server is
// taken to be done.
const idle = 600 * time.Millisecond

// quiet waits until the server has nothing to do and nobody hears anything.
func (s *server) quiet(heard *atomic.Int64) {
	for {
		s.settle()
		before := heard.Load()
		time.Sleep(idle)
		s.settle()
		if heard.Load() == before {
			return
		}
	}
}
