package audit

import (
	"runtime"
	"sync"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// leastPart is how many proxies a part has at least: each part makes anew what
// its scopes share. mostParts bounds how often that is.
var (
	leastPart = 10_000
	mostParts = min(runtime.GOMAXPROCS(0), 8)
)

// part is some of a view's proxies with what was computed for them.
type part struct {
	proxies    []*mesh.Proxy
	rec        *scope.ReasonRecorder
	builder    *xds.Builder
	projection *xds.Projection
}

// chosenParts cuts proxies, sorted by namespace, between namespaces into parts that
// can be computed at the same time; the answer is the same for any parts. Where
// most namespaces have no Sidecar there is one: their scopes share nearly all.
func chosenParts(view *mesh.View, proxies []*mesh.Proxy) []*part {
	scoped := map[string]bool{}
	for _, cfg := range view.Sidecars {
		scoped[cfg.Namespace] = true
	}
	own := 0
	for _, p := range proxies {
		if scoped[p.Namespace] {
			own++
		}
	}
	n := min(own/leastPart, mostParts)
	if 2*own < len(proxies) || n < 2 {
		return []*part{{proxies: proxies}}
	}
	var out []*part
	for start := 0; start < len(proxies); {
		end := min(start+len(proxies)/n+1, len(proxies))
		for end < len(proxies) && proxies[end].Namespace == proxies[end-1].Namespace {
			end++
		}
		out = append(out, &part{proxies: proxies[start:end]})
		start = end
	}
	return out
}

// project computes the parts of a view, on all processors.
func project(view *mesh.View, parts []*part, o *Options, progress func(done int)) {
	var group sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	var lock sync.Mutex
	done := 0
	for _, p := range parts {
		p.prepare(view, o)
		p.builder.ShareWith(parts[0].builder)
	}
	for _, p := range parts {
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			finished := 0
			p.projection = p.builder.Project(p.proxies, func(n int) {
				lock.Lock()
				defer lock.Unlock()
				done += n - finished
				finished = n
				progress(done)
			})
		})
	}
	group.Wait()
}

func (p *part) prepare(view *mesh.View, o *Options) {
	p.rec = scope.NewRecorder()
	p.builder = xds.New(view, scope.NewScoper(view, p.rec), p.rec)
	if o.Details {
		p.builder.DigestContents()
	}
	if o.Brief {
		p.builder.Brief()
	}
}

// addParts takes the parts of a view in. Reasons are numbered as resources name
// them, whatever the parts: equal ones become one.
func (a *assembly) addParts(view *mesh.View, parts []*part) {
	all := scope.NewRecorder()
	offset := result.ReasonID(len(a.out.Reasons))
	for _, p := range parts {
		reasons := p.rec.Reasons()
		known := make([]result.ReasonID, len(reasons)) // number + 1; 0: not named yet
		a.add(view, p.projection, func(id result.ReasonID) result.ReasonID {
			if known[id] == 0 {
				known[id] = offset + all.Included(reasons[id]) + 1
			}
			return known[id] - 1
		})
	}
	a.out.Reasons = append(a.out.Reasons, all.Reasons()...)
}
