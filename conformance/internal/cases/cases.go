// Package cases checks a judge's report against the expectations of the
// project's cases (expect.json).
package cases

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Expect is the part of expect.json that speaks about xDS.
type Expect struct {
	Proxy     string              `json:"proxy"`
	Present   map[string][]string `json:"present"`
	Absent    map[string][]string `json:"absent"`
	Numbers   map[string]float64  `json:"numbers"`
	Tolerance float64             `json:"tolerance_pct"`
	Proxies   []Expect            `json:"proxies"`
	Base      *Expect             `json:"base"`
	Head      *Expect             `json:"head"`
	Diff      *Diff               `json:"diff"`
}

// Diff holds the names that a change adds to and removes from a proxy.
type Diff struct {
	Proxy   string              `json:"proxy"`
	Added   map[string][]string `json:"added"`
	Removed map[string][]string `json:"removed"`
}

// Load reads a case's expectations.
func Load(dir string) (*Expect, error) {
	data, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		return nil, err
	}
	e := &Expect{}
	return e, json.Unmarshal(data, e)
}

// Check lists what of the expectations does not hold in a report.
func (e *Expect) Check(r *report.Report) []string {
	var out []string
	if len(e.Present)+len(e.Absent)+len(e.Numbers) > 0 {
		p, ok := find(r, e.Proxy)
		if !ok {
			return []string{"no proxy " + e.Proxy}
		}
		out = append(out, e.checkProxy(p)...)
	}
	for _, sub := range e.Proxies {
		out = append(out, sub.Check(r)...)
	}
	return out
}

// checkProxy lists what does not hold for one proxy.
func (e *Expect) checkProxy(p report.Proxy) []string {
	var out []string
	for typ, list := range e.Present {
		for _, want := range list {
			if !Holds(p, typ, want) {
				out = append(out, fmt.Sprintf("%s: %s missing: %s", e.Proxy, typ, want))
			}
		}
	}
	for typ, list := range e.Absent {
		for _, want := range list {
			if Holds(p, typ, want) {
				out = append(out, fmt.Sprintf("%s: %s present: %s", e.Proxy, typ, want))
			}
		}
	}
	for name, want := range e.Numbers {
		if got, ok := number(p, name); ok && math.Abs(got-want) > want*e.Tolerance/100 {
			out = append(out, fmt.Sprintf("%s: %s is %v, not %v", e.Proxy, name, got, want))
		}
	}
	return out
}

// number measures one of the numbers that cases name.
func number(p report.Proxy, name string) (float64, bool) {
	switch name {
	case "outbound_listeners":
		return count(p, "lds", func(n string) bool { return !strings.HasPrefix(n, "virtual") }), true
	case "outbound_clusters":
		return count(p, "cds", func(n string) bool { return strings.HasPrefix(n, "outbound|") }), true
	}
	if typ, ok := strings.CutSuffix(name, "_bytes"); ok {
		return float64(p.Bytes[typ]), true
	}
	if typ, ok := strings.CutSuffix(name, "_count"); ok {
		return float64(p.Counts[typ]), true
	}
	return 0, false
}

// count counts the resources of a type whose names are wanted.
func count(p report.Proxy, typ string, wanted func(string) bool) float64 {
	n := 0.0
	for _, r := range p.Resources[typ] {
		if wanted(r.Name) {
			n++
		}
	}
	return n
}

// find looks up a proxy by NS/NAME.
func find(r *report.Report, id string) (report.Proxy, bool) {
	for _, p := range r.Proxies {
		if p.ID() == id {
			return p, true
		}
	}
	return report.Proxy{}, false
}

// CheckDiff lists where the change from base to head is not the expected one.
func (d *Diff) CheckDiff(proxy string, base, head *report.Report) []string {
	if d.Proxy != "" {
		proxy = d.Proxy
	}
	a, _ := find(base, proxy)
	b, _ := find(head, proxy)
	var out []string
	for _, typ := range []string{"cds", "lds", "rds"} {
		was, is := names(a, typ), names(b, typ)
		out = append(out, same(typ+" added", d.Added[typ], minus(is, was))...)
		out = append(out, same(typ+" removed", d.Removed[typ], minus(was, is))...)
	}
	return out
}

// names is the set of a proxy's resource names of a type.
func names(p report.Proxy, typ string) map[string]bool {
	out := map[string]bool{}
	for _, r := range p.Resources[typ] {
		out[r.Name] = true
	}
	return out
}

// minus lists what is in a but not in b.
func minus(a, b map[string]bool) []string {
	var out []string
	for n := range a {
		if !b[n] {
			out = append(out, n)
		}
	}
	return report.Set(out)
}

// same compares two sets of names.
func same(what string, want, got []string) []string {
	w, g := strings.Join(report.Set(want), " "), strings.Join(got, " ")
	if w == g {
		return nil
	}
	return []string{fmt.Sprintf("%s: want [%s], got [%s]", what, w, g)}
}
