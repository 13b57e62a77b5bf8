package conform

import (
	"math"
	"slices"
	"sort"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Total is the pseudo type for all types together.
const Total = "total"

// Result is the comparison of one mesh.
type Result struct {
	Mesh    string
	Err     error
	Proxies int
	// Equal counts the proxies without any difference, and without gaps.
	Equal int
	// Gapped counts the proxies for which the plugin names gaps, Later those of
	// them that are left out of the rest, because of kinds modelled later, and
	// LaterDiffer those of these that differ.
	Gapped, Later, LaterDiffer int
	// Types holds the figures for each type.
	Types map[string]*Figures
	// Differences lists what differs, each once.
	Differences []Difference
	// Unstable counts what was left out of the comparison.
	Unstable int
	// Rules are the ids of the rules that the mesh touches.
	Rules []string
	// Sizes lists the resources with the largest errors.
	Sizes []SizeError
	// Gaps are the texts of the plugin's gaps.
	Gaps []string
}

// Figures count what differs in one type.
type Figures struct {
	Exact, Missing, Extra, Parts int
	// Errors holds the relative error of the bytes of each proxy.
	Errors []float64
}

// SizeError is a resource whose predicted bytes are off.
type SizeError struct {
	Proxy, Type, Name string
	Judge, Plugin     int
}

// Error is the relative error.
func (s SizeError) Error() float64 { return relative(s.Plugin, s.Judge) }

// relative is the error of got against want.
func relative(got, want int) float64 {
	if got == want {
		return 0
	}
	return math.Abs(float64(got-want)) / math.Max(float64(want), 1)
}

// compare fills a result from both answers.
func compare(res *Result, want *report.Report, pred *Prediction, got map[string]Predicted, namesOnly bool) {
	skip := exclude(want)
	res.Unstable = len(want.Unstable) + len(want.Sizes)
	takeSizes(want, got)
	all := map[string]*Difference{}
	seen := map[string]bool{}
	for _, p := range want.Proxies {
		seen[p.ID()] = true
		res.Proxies++
		mine, ok := got[p.ID()]
		if !ok {
			add(all, Difference{Kind: Absent, Name: p.ID(), Judge: []string{p.Kind}}, p.ID())
			continue
		}
		diffs := compareProxy(p, mine, skip, namesOnly)
		if mine.Later {
			res.later(mine, len(diffs) > 0)
			continue
		}
		for _, d := range diffs {
			d.Because = pred.explain(mine.Resources[d.Type][d.Name])
			add(all, d, p.ID())
		}
		res.count(p, mine, diffs)
	}
	for id, mine := range got {
		if !seen[id] {
			add(all, Difference{Kind: Absent, Name: id, Plugin: []string{mine.Kind}}, id)
		}
	}
	for _, d := range all {
		res.Differences = append(res.Differences, *d)
	}
	sort.Slice(res.Differences, func(i, j int) bool { return res.Differences[i].id() < res.Differences[j].id() })
	for _, d := range pred.Diagnostics {
		res.Gaps = append(res.Gaps, "diagnostic: "+d.Text)
	}
	res.Gaps = report.Set(res.Gaps)
}

// add records a difference on a proxy.
func add(all map[string]*Difference, d Difference, proxy string) {
	if all[d.id()] == nil {
		all[d.id()] = &d
	}
	all[d.id()].Proxies = append(all[d.id()].Proxies, proxy)
}

// later counts a proxy that is left out because of kinds modelled later.
func (res *Result) later(mine Predicted, differs bool) {
	res.Gaps = append(res.Gaps, mine.Gaps...)
	res.Gapped++
	res.Later++
	if differs {
		res.LaterDiffer++
	}
}

// count adds one proxy to the figures.
func (res *Result) count(p report.Proxy, mine Predicted, diffs []Difference) {
	if res.Types == nil {
		res.Types = map[string]*Figures{}
		for _, t := range append([]string{Total}, report.Types...) {
			res.Types[t] = &Figures{}
		}
	}
	res.Gaps = append(res.Gaps, mine.Gaps...)
	switch {
	case len(mine.Gaps) > 0:
		res.Gapped++
	case len(diffs) == 0:
		res.Equal++
	}
	wrong := map[string]bool{}
	for _, d := range diffs {
		f := res.Types[d.Type]
		wrong[d.Type] = true
		switch d.Kind {
		case Missing:
			f.Missing++
		case Extra:
			f.Extra++
		case Parts:
			f.Parts++
		}
	}
	sum := 0
	for _, t := range report.Types {
		f := res.Types[t]
		if !wrong[t] {
			f.Exact++
		}
		bytes := 0
		for _, r := range mine.Resources[t] {
			bytes += r.Bytes
		}
		sum += bytes
		f.Errors = append(f.Errors, relative(bytes, p.Bytes[t]))
		res.sizes(p, t, mine)
	}
	res.Types[Total].Errors = append(res.Types[Total].Errors, relative(sum, p.Bytes[Total]))
	if len(wrong) == 0 {
		res.Types[Total].Exact++
	}
}

// sizes records the resources of a type whose bytes are off.
func (res *Result) sizes(p report.Proxy, typ string, mine Predicted) {
	for _, r := range report.Merge(p.Resources[typ]) {
		if m, ok := mine.Resources[typ][r.Name]; ok && m.Bytes != r.Bytes {
			res.Sizes = append(res.Sizes, SizeError{Proxy: p.ID(), Type: typ, Name: r.Name, Judge: r.Bytes, Plugin: m.Bytes})
		}
	}
}

// takeSizes replaces the recorded bytes of resources that istiod makes with
// other bytes at times by the predicted ones, where it makes these too.
func takeSizes(want *report.Report, got map[string]Predicted) {
	for _, s := range want.Sizes {
		mine, ok := got[s.Namespace+"/"+s.Proxy].Resources[s.Type][s.Name]
		if !ok || !slices.Contains(s.Bytes, mine.Bytes) {
			continue
		}
		for _, p := range want.Proxies {
			if p.Namespace != s.Namespace || p.Name != s.Proxy {
				continue
			}
			total, first := 0, -1
			for i, r := range p.Resources[s.Type] {
				if r.Name != s.Name {
					continue
				}
				total += r.Bytes
				if first < 0 {
					first = i
				}
			}
			if first < 0 {
				continue
			}
			p.Resources[s.Type][first].Bytes += mine.Bytes - total
			p.Bytes[s.Type] += mine.Bytes - total
			p.Bytes[Total] += mine.Bytes - total
		}
	}
}

// Failed is whether names or parts differ, or the mesh could not be compared.
func (res *Result) Failed() bool { return res.Err != nil || len(res.Differences) > 0 }
