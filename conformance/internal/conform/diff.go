package conform

import (
	"sort"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// The kinds of differences.
const (
	Missing = "missing" // istiod sends it, the plugin does not say so
	Extra   = "extra"   // the plugin says so, istiod does not send it
	Parts   = "parts"   // both have it, with other parts
	Absent  = "proxy"   // one side does not know the proxy
)

// Difference is one way in which a prediction is wrong.
type Difference struct {
	Kind string
	Type string
	Name string
	// Judge and Plugin hold what each side has: encoded parts that the other
	// has not.
	Judge, Plugin []string
	// Because is the plugin's reason.
	Because string
	// Proxies are those that it was found on.
	Proxies []string
}

// id is equal for the same difference on several proxies.
func (d Difference) id() string {
	return strings.Join([]string{d.Kind, d.Type, d.Name, strings.Join(d.Judge, "\n"), strings.Join(d.Plugin, "\n")}, "\x00")
}

// exclusions are what istiod does not make the same every time.
type exclusions map[string]bool

// exclude collects a report's unstable names and parts.
func exclude(r *report.Report) exclusions {
	out := exclusions{}
	for _, u := range r.Unstable {
		out[u.ID()] = true
	}
	return out
}

// has is whether a name (part "") or a part of a proxy is unstable.
func (e exclusions) has(p report.Proxy, typ, name, part string) bool {
	return e[report.Unstable{Namespace: p.Namespace, Proxy: p.Name, Type: typ, Name: name, Part: part}.ID()]
}

// compareProxy lists what differs on one proxy, by type.
func compareProxy(want report.Proxy, got Predicted, skip exclusions, namesOnly bool) []Difference {
	var out []Difference
	for _, t := range report.Types {
		seen := map[string]bool{}
		for _, r := range report.Merge(want.Resources[t]) {
			seen[r.Name] = true
			if skip.has(want, t, r.Name, "") {
				continue
			}
			mine, ok := got.Resources[t][r.Name]
			if !ok {
				out = append(out, Difference{Kind: Missing, Type: t, Name: r.Name, Judge: encoded(r.Parts)})
				continue
			}
			if namesOnly {
				continue
			}
			if d, differs := compareParts(want, t, r, mine, skip); differs {
				out = append(out, d)
			}
		}
		for name, mine := range got.Resources[t] {
			if !seen[name] && !skip.has(want, t, name, "") {
				out = append(out, Difference{Kind: Extra, Type: t, Name: name, Plugin: encoded(mine.Parts)})
			}
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].id() < out[j].id() })
	return out
}

// compareParts lists the parts that only one side has.
func compareParts(p report.Proxy, typ string, want report.Resource, got Resource, skip exclusions) (Difference, bool) {
	d := Difference{Kind: Parts, Type: typ, Name: want.Name}
	drop := func(parts []report.Part) []string {
		var kept []report.Part
		for _, part := range parts {
			if !skip.has(p, typ, want.Name, part.Key()) {
				kept = append(kept, part)
			}
		}
		return encoded(kept)
	}
	d.Judge, d.Plugin = subtract(drop(want.Parts), drop(got.Parts))
	return d, len(d.Judge)+len(d.Plugin) > 0
}

// encoded writes parts as JSON in one form: lists sorted, fields that mean
// nothing left out.
func encoded(parts []report.Part) []string {
	var out []string
	for _, p := range parts {
		p.Domains, p.To = report.Set(p.Domains), report.Set(p.To)
		if p.Rule != nil && *p.Rule == "" {
			p.Rule = nil
		}
		if p.Match != nil && *p.Match == "" {
			p.Match = nil
		}
		out = append(out, p.JSON())
	}
	sort.Strings(out)
	return out
}

// subtract lists what only a and what only b has, counting repetitions.
func subtract(a, b []string) (onlyA, onlyB []string) {
	count := map[string]int{}
	for _, x := range b {
		count[x]++
	}
	for _, x := range a {
		if count[x] > 0 {
			count[x]--
			continue
		}
		onlyA = append(onlyA, x)
	}
	for _, x := range b {
		if count[x] > 0 {
			count[x]--
			onlyB = append(onlyB, x)
		}
	}
	return onlyA, onlyB
}
