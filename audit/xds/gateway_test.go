package xds_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// router reads files and returns what the one router of the mesh is sent.
func router(t *testing.T, files ...string) (lds, rds []*result.Resource) {
	t.Helper()
	m := build(t, "", files...)
	b := m.builder
	for _, p := range m.view.Proxies {
		if p.Kind != mesh.RouterProxy {
			continue
		}
		s := m.scoper.For(p)
		lds, names := b.GatewayListeners(s, p)
		for _, name := range names {
			rds = append(rds, b.GatewayRoute(s, p, name))
		}
		return lds, rds
	}
	t.Fatal("no router")
	return nil, nil
}

// canonical writes resources as testdata/gateway/*.want has them: a line for
// each resource with its bytes, a line for each part as parts.md says.
func canonical(xdsType string, resources []*result.Resource) string {
	resources = slices.SortedFunc(slices.Values(resources), func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
	var b strings.Builder
	for _, r := range resources {
		fmt.Fprintf(&b, "%s %s %d\n", xdsType, r.Name, r.Bytes)
		for _, p := range r.Parts {
			line, _ := json.Marshal(result.Part{Name: p.Name, Match: p.Match, Domains: p.Domains, To: p.To})
			fmt.Fprintf(&b, "  %s\n", unescaped.Replace(string(line)))
		}
	}
	return b.String()
}

var unescaped = strings.NewReplacer(`\u003e`, ">", `\u003c`, "<", `\u0026`, "&")

// TestGateway compares with Istio 1.31: the .want files are the listeners and
// route configurations of its own generator for base.yaml and the case.
func TestGateway(t *testing.T) {
	eachCase(t, "gateway", func(t *testing.T, want string, files ...string) {
		lds, rds := router(t, files...)
		if diff := gocmp.Diff(want, canonical("lds", lds)+canonical("rds", rds)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestGatewayPartsNameWhatDecided(t *testing.T) {
	lds, rds := router(t, "testdata/gateway/base.yaml", "testdata/gateway/tcp.yaml")
	by := map[string]string{}
	for _, r := range append(lds, rds...) {
		for _, p := range r.Parts {
			name := r.Name + " " + p.Name
			if p.Match != nil {
				name += *p.Match
			}
			by[name] = p.By.Kind + " " + p.By.Namespace + "/" + p.By.Name
		}
	}
	for part, want := range map[string]string{
		"0.0.0.0_8443 sni:r.example.com":  "VirtualService auth/v6",
		"0.0.0.0_9000 ":                   "VirtualService auth/v5",
		"10.1.2.3_8080 ":                  "Gateway edge/g2",
		"http.8080.10.1.2.3 blackhole:80": "Gateway edge/g2",
		"10.1.2.4_8080 ":                  "VirtualService edge/v8",
	} {
		if by[part] != want {
			t.Errorf("%q is by %q, want %q", part, by[part], want)
		}
	}
}
