package conform

import (
	"io"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// recorded is an answer with one proxy, which has the resources of
// prediction but for the bytes of one, and what istiod varies.
func recorded(sizes ...report.Size) *report.Report {
	r := &report.Report{Sizes: sizes, Proxies: []report.Proxy{{Namespace: "a", Name: "p", Resources: map[string][]report.Resource{
		"cds": {
			{Name: "shared", Bytes: 100, Parts: []report.Part{{Type: "EDS"}}},
			{Name: "inbound|80||", Bytes: 5, Parts: []report.Part{{Type: "ORIGINAL_DST"}}},
		},
		"lds": {{Name: "wrong", Bytes: 1, Parts: []report.Part{part("", "cluster a", "cluster b")}}},
	}}}}
	r.Sort()
	return r
}

// TestBars: the bytes of a cluster are 7 where istiod has 100, unless istiod
// has 7 at other times.
func TestBars(t *testing.T) {
	for name, c := range map[string]struct {
		sizes  []report.Size
		missed int
	}{
		"off":    {nil, 3}, // exact, total, cds
		"other":  {[]report.Size{{Namespace: "a", Proxy: "p", Type: "cds", Name: "shared", Bytes: []int{8, 100}}}, 3},
		"varies": {[]report.Size{{Namespace: "a", Proxy: "p", Type: "cds", Name: "shared", Bytes: []int{7, 100}}}, 0},
	} {
		pred, got, err := parsePrediction([]byte(strings.Replace(prediction, `{"kind": "unmodelled", "proxies": ["a/p"], "text": "EnvoyFilter"}, `, "", 1)))
		if err != nil {
			t.Fatal(err)
		}
		res, sum := &Result{}, &Summary{}
		compare(res, recorded(c.sizes...), pred, got, false)
		sum.Add(res)
		if len(res.Differences) != 0 || res.Equal != 1 {
			t.Errorf("%s: differences %+v, %d equal", name, res.Differences, res.Equal)
		}
		if missed := sum.Bars(io.Discard); len(missed) != c.missed {
			t.Errorf("%s: missed %q", name, missed)
		}
	}
}

// TestLater: what differs on a proxy that a kind modelled later may touch is
// no failure, and the proxy is not equal.
func TestLater(t *testing.T) {
	pred, got, err := parsePrediction([]byte(strings.Replace(prediction, `"EnvoyFilter"`, `"HTTPRoute.gateway.networking.k8s.io is not modelled"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	want := recorded()
	want.Proxies[0].Resources["rds"] = []report.Resource{{Name: "http.80"}}
	res := &Result{}
	compare(res, want, pred, got, false)
	if res.Failed() || res.Equal != 0 || res.Later != 1 || res.LaterDiffer != 1 {
		t.Errorf("result %+v", res)
	}
}
