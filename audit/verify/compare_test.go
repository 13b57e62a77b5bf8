package verify_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/verify"
)

// predicted is an audit of one proxy with one cluster and one route configuration.
func predicted() (*result.Audit, *result.Proxy) {
	a := &result.Audit{
		Mesh:    result.MeshInfo{ControlPlanes: []result.ControlPlane{{Revision: "default", Version: "1.31.0"}}},
		Proxies: []result.Proxy{{Namespace: "shop", Name: "web-0", Kind: result.Sidecar, Group: "g1", Revision: "default"}},
		Scopes:  []result.Scope{{ID: "s1"}},
		Groups:  []result.Group{{ID: "g1", Scope: "s1"}},
		Gaps: []result.Gap{
			{Kind: result.Unmodelled, Proxies: []string{"shop/web-0"}, Text: "EnvoyFilter shop/x"},
			{Kind: result.Unmodelled, Proxies: []string{"shop/other"}, Text: "of another proxy"},
		},
	}
	a.Scopes[0].Resources.CDS = []*result.Resource{{Name: "a", Bytes: 1000, Parts: []result.Part{{Type: "EDS", Rule: of("")}}}}
	a.Scopes[0].Resources.RDS = []*result.Resource{{Name: "80", Bytes: 500, Parts: []result.Part{
		{Name: "h:80", Domains: []string{"h"}, To: []string{"a"}, Bytes: 77, Service: "h"},
	}}}
	return a, &a.Proxies[0]
}

func actual(bytes bool, cds, rds []*result.Resource) *verify.Actual {
	a := &verify.Actual{From: "x", Bytes: bytes, Types: map[string]map[string]*result.Resource{"cds": {}, "rds": {}}, NotTold: map[string]string{}}
	for _, r := range cds {
		a.Types["cds"][r.Name] = r
	}
	for _, r := range rds {
		a.Types["rds"][r.Name] = r
	}
	return a
}

func route(bytes int64, to ...string) []*result.Resource {
	return []*result.Resource{{Name: "80", Bytes: bytes, Parts: []result.Part{{Name: "h:80", Domains: []string{"h"}, To: to}}}}
}

func cluster(name string, bytes int64) []*result.Resource {
	return []*result.Resource{{Name: name, Bytes: bytes, Parts: []result.Part{{Type: "EDS", Rule: of("")}}}}
}

func TestCompare(t *testing.T) {
	for name, test := range map[string]struct {
		actual *verify.Actual
		equal  bool
		differ string // in the JSON-like text of the types
	}{
		"equal":             {actual(true, cluster("a", 1000), route(500, "a")), true, ""},
		"no bytes":          {actual(false, cluster("a", 3), route(9, "a")), true, ""},
		"missing and extra": {actual(false, cluster("b", 1000), route(500, "a")), false, "cds missing [a] extra [b]"},
		"other target":      {actual(false, cluster("a", 1000), route(500, "c")), false, "rds 80: missing to [a], extra to [c]"},
		"1 % off":           {actual(true, cluster("a", 1010), route(500, "a")), true, "cds bytes a"},
		"more than 1 % off": {actual(true, cluster("a", 1012), route(500, "a")), false, "cds bytes a"},
	} {
		t.Run(name, func(t *testing.T) {
			a, p := predicted()
			v := verify.Compare(a, p, test.actual)
			if v.Equal != test.equal {
				t.Errorf("equal %v, want %v", v.Equal, test.equal)
			}
			if diff := cmp.Diff(test.differ, differences(v)); diff != "" {
				t.Error(diff)
			}
			if (v.Bytes != nil) != test.actual.Bytes {
				t.Errorf("bytes %v", v.Bytes)
			}
			may := strings.Join(v.May, "\n")
			if !v.Equal && (!strings.Contains(may, "EnvoyFilter shop/x") || strings.Contains(may, "another")) {
				t.Errorf("may explain: %s", may)
			}
		})
	}
}

// differences writes what a comparison found, for the table above.
func differences(v result.Verified) string {
	var words []string
	for _, c := range v.Types {
		if len(c.Missing)+len(c.Extra) > 0 {
			words = append(words, c.Type+" missing ["+strings.Join(c.Missing, " ")+"] extra ["+strings.Join(c.Extra, " ")+"]")
		}
		for _, d := range c.Differing {
			words = append(words, c.Type+" "+d.Name+": missing to ["+strings.Join(d.Missing[0].To, " ")+"], extra to ["+strings.Join(d.Extra[0].To, " ")+"]")
		}
		for _, r := range c.Resized {
			words = append(words, c.Type+" bytes "+r.Name)
		}
	}
	return strings.Join(words, "; ")
}

// TestCompareVersion: an istiod of another version than predicted is named.
func TestCompareVersion(t *testing.T) {
	a, p := predicted()
	real := actual(false, nil, nil)
	real.Istiod = "1.30.3"
	v := verify.Compare(a, p, real)
	if !strings.Contains(strings.Join(v.May, "\n"), "1.30.3; predicted for 1.31.0") {
		t.Errorf("may explain: %q", v.May)
	}
}
