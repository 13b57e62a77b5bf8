package xds_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// listeners are what a sidecar is sent, from the listeners of its scope and
// its own, by name.
func (s *sidecars) listeners(p *mesh.Proxy) []*result.Resource {
	sc := s.scoper.For(p)
	var out []*result.Resource
	for _, l := range s.OutboundListeners(sc, s.representative(p)) {
		if l.OwnAddress != "" && l.OwnAddress == p.IPs[0] {
			continue
		}
		r := l.Resource
		r.Bytes = l.BytesFor(p)
		out = append(out, &r)
	}
	out = append(out, s.InboundListeners(sc, p)...)
	slices.SortFunc(out, func(x, y *result.Resource) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// representative is the first proxy of p's scope.
func (s *sidecars) representative(p *mesh.Proxy) *mesh.Proxy {
	for _, q := range s.view.Proxies {
		if q.Kind == mesh.SidecarProxy && s.scoper.For(q) == s.scoper.For(p) {
			return q
		}
	}
	return p
}

// listenerText writes listeners as testdata/listener/*.want has them.
func (s *sidecars) listenerText() string {
	var b strings.Builder
	for _, p := range s.view.Proxies {
		for _, r := range s.listeners(p) {
			fmt.Fprintf(&b, "%s/%s %s %d\n", p.Namespace, p.Name, r.Name, r.Bytes)
			for _, part := range r.Parts {
				line, _ := json.Marshal(result.Part{Match: part.Match, To: part.To})
				fmt.Fprintf(&b, "  %s\n", unescaped.Replace(string(line)))
			}
		}
	}
	return b.String()
}

// TestListeners compares with Istio 1.31: the .want files are what its own
// generator makes of base.yaml and the case: names, bytes and filter chains of
// every sidecar.
func TestListeners(t *testing.T) {
	eachCase(t, "listener", func(t *testing.T, want string, files ...string) {
		if diff := gocmp.Diff(want, readSidecars(t, files...).listenerText()); diff != "" {
			t.Error(diff)
		}
	})
}
