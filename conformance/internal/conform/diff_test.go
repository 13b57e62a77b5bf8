package conform

import (
	"testing"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// prediction is a plugin's answer with a scope, a group and an override.
const prediction = `{
 "proxies": [{"namespace": "a", "name": "p", "kind": "sidecar", "group": "g"}],
 "groups": [{"id": "g", "scope": "s",
  "resources": {"cds": [{"name": "inbound|80||", "bytes": 5, "parts": [{"type": "ORIGINAL_DST", "rule": ""}]}]},
  "without": {"lds": ["gone"]}, "resized": {"cds": [{"name": "shared", "bytes": 7}]}}],
 "scopes": [{"id": "s", "resources": {
  "cds": [{"name": "shared", "bytes": 6, "because": [0], "parts": [{"type": "EDS"}]}],
  "lds": [{"name": "gone", "bytes": 1}, {"name": "wrong", "bytes": 1, "parts": [{"match": "", "to": ["cluster b", "cluster a"]}]}]}}],
 "reasons": [{"rule": "VIS-1", "text": "exported to all"}],
 "gaps": [{"kind": "unmodelled", "proxies": ["a/p"], "text": "EnvoyFilter"}, {"kind": "assumed", "all": true, "text": "x"}]
}`

func TestPrediction(t *testing.T) {
	p, got, err := parsePrediction([]byte(prediction))
	if err != nil {
		t.Fatal(err)
	}
	x := got["a/p"]
	if n := x.Resources["cds"]["shared"].Bytes; n != 7 {
		t.Errorf("resized bytes are %d", n)
	}
	if _, ok := x.Resources["lds"]["gone"]; ok {
		t.Error("a resource that the group is without is there")
	}
	if len(x.Gaps) != 1 || x.Gaps[0] != "EnvoyFilter" {
		t.Errorf("gaps: %v", x.Gaps)
	}
	if why := p.explain(x.Resources["cds"]["shared"]); why != "VIS-1 exported to all" {
		t.Errorf("reason: %q", why)
	}
}

// TestTwoOfOneName: two resources of one name have the bytes of both, as the
// judge's have.
func TestTwoOfOneName(t *testing.T) {
	_, got, err := parsePrediction([]byte(`{"proxies": [{"namespace": "a", "name": "p", "group": "g"}], "groups": [{"id": "g", "scope": "s"}],
 "scopes": [{"id": "s", "resources": {"lds": [{"name": "added", "bytes": 3}, {"name": "added", "bytes": 4}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := got["a/p"].Resources["lds"]["added"].Bytes; n != 7 {
		t.Errorf("%d bytes", n)
	}
}

// part makes a filter chain.
func part(match string, to ...string) report.Part { return report.Part{Match: &match, To: to} }

func TestCompareProxy(t *testing.T) {
	_, got, err := parsePrediction([]byte(prediction))
	if err != nil {
		t.Fatal(err)
	}
	rule := ""
	want := report.Proxy{Namespace: "a", Name: "p", Resources: map[string][]report.Resource{
		"cds": {
			{Name: "shared", Parts: []report.Part{{Type: "EDS", Rule: &rule}}},
			{Name: "inbound|80||", Parts: []report.Part{{Type: "ORIGINAL_DST"}}},
			{Name: "missing"},
		},
		"lds": {{Name: "wrong", Parts: []report.Part{part("", "cluster a", "cluster b"), part("default", "cluster c")}}},
	}}
	diffs := compareProxy(want, got["a/p"], nil, false)
	if len(diffs) != 2 || diffs[0].Kind != Missing || diffs[1].Kind != Parts {
		t.Fatalf("differences: %+v", diffs)
	}
	if len(diffs[1].Judge) != 1 || len(diffs[1].Plugin) != 0 {
		t.Errorf("only the default chain differs: %+v", diffs[1])
	}
	skip := exclude(&report.Report{Unstable: []report.Unstable{
		{Namespace: "a", Proxy: "p", Type: "cds", Name: "missing"},
		{Namespace: "a", Proxy: "p", Type: "lds", Name: "wrong", Part: "default"},
	}})
	if diffs := compareProxy(want, got["a/p"], skip, false); len(diffs) != 0 {
		t.Errorf("unstable parts are compared: %+v", diffs)
	}
}
