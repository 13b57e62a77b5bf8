package xds_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// sidecars is a mesh whose sidecars' routes can be asked for.
type sidecars struct {
	*xds.Builder
	view   *mesh.View
	scoper *scope.Scoper
	rec    *scope.ReasonRecorder
}

func readSidecars(t *testing.T, files ...string) *sidecars {
	t.Helper()
	m := build(t, "", files...)
	return &sidecars{m.builder, m.view, m.scoper, m.rec}
}

// route is the route configuration of a proxy "namespace/name"; nil if there is no such proxy.
func (s *sidecars) route(proxy, name string) *result.Resource {
	for _, p := range s.view.Proxies {
		if p.Namespace+"/"+p.Name == proxy {
			return s.SidecarRoute(s.scoper.For(p), p, name)
		}
	}
	return nil
}

// wantedRoute is one route configuration of a .want file: "proxy name bytes", then
// a line for each part.
type wantedRoute struct{ proxy, name, text string }

func readWanted(t *testing.T, file string) []wantedRoute {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []wantedRoute
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, " ") {
			fields := strings.Fields(line)
			out = append(out, wantedRoute{proxy: fields[0], name: fields[1]})
		}
		out[len(out)-1].text += line
	}
	return out
}

// TestSidecarRoute compares with Istio 1.31: the .want files are what its own
// generator makes of base.yaml and the case, names, bytes and parts.
func TestSidecarRoute(t *testing.T) {
	cases, err := filepath.Glob("testdata/route/*.want")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range cases {
		input := strings.TrimSuffix(file, ".want") + ".yaml"
		t.Run(strings.TrimSuffix(filepath.Base(input), ".yaml"), func(t *testing.T) {
			s := readSidecars(t, "testdata/route/base.yaml", input)
			want := readWanted(t, file)
			// istiod is asked in any order: what is shared between routes must not show.
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
			for _, w := range want {
				if diff := gocmp.Diff(w.text, routeText(w.proxy, s.route(w.proxy, w.name))); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func routeText(proxy string, r *result.Resource) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %d\n", proxy, r.Name, r.Bytes)
	for _, p := range r.Parts {
		line, _ := json.Marshal(result.Part{Name: p.Name, Domains: p.Domains, To: p.To})
		fmt.Fprintf(&b, "  %s\n", unescaped.Replace(string(line)))
	}
	return b.String()
}

// TestSidecarRouteOrigins checks what the generator does not tell: where the
// virtual hosts come from, and what their routes match.
func TestSidecarRouteOrigins(t *testing.T) {
	s := readSidecars(t, "testdata/route/base.yaml", "testdata/route/hosts.yaml")
	r := s.route("a/client", "80")
	if got := s.route("a/client", "auto.b.svc.cluster.local:8080"); got.Service != "auto.b.svc.cluster.local" {
		t.Errorf("a sniffed route is for %q", got.Service)
	}
	type origin struct{ by, service, matches string }
	got := map[string]origin{}
	var sum int64
	for _, p := range r.Parts {
		by := ""
		if !p.By.IsZero() {
			by = p.By.Kind + " " + p.By.Namespace + "/" + p.By.Name
		}
		got[p.Name] = origin{by, p.Service, strings.Join(p.Matches, " ")}
		sum += p.Bytes
	}
	for name, want := range map[string]origin{
		"allow_any":                    {matches: "/*"},
		"web.a.svc.cluster.local:80":   {service: "web.a.svc.cluster.local", matches: "/*"},
		"vip.example.com:80":           {"VirtualService c/wildcard", "vip.example.com", "/w*"},
		"*.wild.example.com:80":        {"VirtualService c/longer-wildcard", "*.wild.example.com", "/*"},
		"nowhere.example.com:80":       {by: "VirtualService b/nowhere", matches: "/*"},
		"api.example.com:80":           {"VirtualService b/exact", "api.example.com", "/*"},
		"third.example.com:80":         {by: "VirtualService a/younger", matches: "/*"},
		"c1.c.svc.cluster.local:80":    {"VirtualService c/root", "c1.c.svc.cluster.local", "/dele/a* /dele*"},
		"multi.a.svc.cluster.local:80": {"VirtualService a/two", "multi.a.svc.cluster.local", "/*"},
	} {
		if got[name] != want {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
	// The rest is the name, validate_clusters, the body limit and ignore_port:
	// 4 + 2 + 6 + 2 bytes.
	if rest := r.Bytes - sum; rest != 14 {
		t.Errorf("the parts leave %d bytes", rest)
	}
}

// TestUnknownRoute has a name that no listener makes (RDS-13): name and
// validate_clusters, (2+7) + 2 bytes.
func TestUnknownRoute(t *testing.T) {
	s := readSidecars(t, "testdata/route/base.yaml")
	if r := s.route("a/client", "unknown"); r.Bytes != 11 || len(r.Parts) != 0 {
		t.Errorf("%d bytes, %d parts", r.Bytes, len(r.Parts))
	}
}
