package plugin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/plugin"
)

// waiting are the cases whose expectations need a feature that is not there yet.
var waiting = map[string]string{
	"45-gateway-api-allowedroutes-same-ignores-foreign-route": "Gateway API is not modelled yet",
}

// expectation is what expect.json says of one proxy (see testdata/cases/README.md).
type expectation struct {
	Proxy   string              `json:"proxy"`
	Present map[string][]string `json:"present"`
	Absent  map[string][]string `json:"absent"`
	Numbers map[string]int64    `json:"numbers"`
}

type caseFile struct {
	expectation
	Tolerance float64       `json:"tolerance_pct"`
	Proxies   []expectation `json:"proxies"`
	Base      *sideFile     `json:"base"`
	Head      *sideFile     `json:"head"`
	Diff      *struct {
		Proxy          string
		Added, Removed map[string][]string
	} `json:"diff"`
}

type sideFile struct {
	expectation
	Tolerance float64 `json:"tolerance_pct"`
}

// TestCases runs the command on each case, whose right answers come from
// Istio's own generator.
func TestCases(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/cases/*-*")
	if err != nil || len(dirs) < 25 {
		t.Fatalf("%d cases, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			if why := waiting[filepath.Base(dir)]; why != "" {
				t.Skip(why)
			}
			t.Parallel()
			checkCase(t, dir)
		})
	}
}

func checkCase(t *testing.T, dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	var c caseFile
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if c.Base == nil {
		a := scopeJSON(t, filepath.Join(dir, "input.yaml"))
		c.expectation.check(t, a, c.Tolerance)
		for _, e := range c.Proxies {
			e.check(t, a, c.Tolerance)
		}
		return
	}
	base, head := scopeJSON(t, filepath.Join(dir, "base.yaml")), scopeJSON(t, filepath.Join(dir, "head.yaml"))
	c.Base.check(t, base, max(c.Tolerance, c.Base.Tolerance))
	c.Head.check(t, head, max(c.Tolerance, c.Head.Tolerance))
	if c.Diff == nil {
		return
	}
	before, after := resourcesOf(t, base, c.Diff.Proxy), resourcesOf(t, head, c.Diff.Proxy)
	for _, xdsType := range []string{"lds", "rds", "cds"} {
		x, y := names(*before.Of(xdsType)), names(*after.Of(xdsType))
		sameNames(t, xdsType+" added", without(y, x), c.Diff.Added[xdsType])
		sameNames(t, xdsType+" removed", without(x, y), c.Diff.Removed[xdsType])
	}
}

// scopeJSON is what the command prints with -o json --resources --details.
func scopeJSON(t *testing.T, file string, args ...string) *result.Audit {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	args = append([]string{"scope", "-f", file, "-o", "json", "--resources", "--details"}, args...)
	if status := plugin.Main(t.Context(), args, streams); status != plugin.ExitOK {
		t.Fatalf("exit status %d\n%s", status, errs.String())
	}
	a := &result.Audit{}
	if err := json.Unmarshal(out.Bytes(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func resourcesOf(t *testing.T, a *result.Audit, proxy string) result.Resources {
	t.Helper()
	namespace, name, _ := strings.Cut(proxy, "/")
	p := a.Find(namespace, name)
	if p == nil {
		t.Fatalf("no proxy %s in the answer", proxy)
	}
	return a.Resolve(a.GroupByID(p.Group))
}

func (e *expectation) check(t *testing.T, a *result.Audit, tolerance float64) {
	t.Helper()
	if e.Proxy == "" {
		return
	}
	have := resourcesOf(t, a, e.Proxy)
	for xdsType, list := range e.Present {
		for _, want := range list {
			if !holds(*have.Of(xdsType), want) {
				t.Errorf("%s: %s lacks %s\nhas %s", e.Proxy, xdsType, want, strings.Join(describe(*have.Of(xdsType), want), "\n    "))
			}
		}
	}
	for xdsType, list := range e.Absent {
		for _, unwanted := range list {
			if holds(*have.Of(xdsType), unwanted) {
				t.Errorf("%s: %s has %s", e.Proxy, xdsType, unwanted)
			}
		}
	}
	e.checkNumbers(t, a, have, tolerance)
}

func (e *expectation) checkNumbers(t *testing.T, a *result.Audit, have result.Resources, tolerance float64) {
	t.Helper()
	namespace, name, _ := strings.Cut(e.Proxy, "/")
	for key, want := range e.Numbers {
		var got int64
		switch key {
		case "outbound_listeners":
			for _, r := range have.LDS {
				if r.Name != "virtualInbound" && r.Name != "virtualOutbound" {
					got++
				}
			}
		case "outbound_clusters":
			for _, r := range have.CDS {
				if strings.HasPrefix(r.Name, "outbound|") {
					got++
				}
			}
		case "total_bytes":
			got = a.GroupByID(a.Find(namespace, name).Group).Bytes.Total
		default:
			continue
		}
		margin := 0.0
		if key == "total_bytes" {
			margin = float64(want) * tolerance / 100
		}
		if diff := float64(got - want); diff > margin || diff < -margin {
			t.Errorf("%s: %s is %d, want %d ± %.0f", e.Proxy, key, got, want, margin)
		}
	}
}

// holds reports whether the resources have what the notation asks for:
// NAME, NAME @ ns/rule, LISTENER [default | sni:HOST] -> TARGET,
// CONFIG # DOMAIN [-> CLUSTER].
func holds(list []*result.Resource, notation string) bool {
	left, target, hasTarget := strings.Cut(notation, " -> ")
	if name, rule, ok := strings.Cut(left, " @ "); ok {
		return slices.ContainsFunc(list, func(r *result.Resource) bool {
			return r.Name == name && len(r.Parts) > 0 && r.Parts[0].Rule != nil && *r.Parts[0].Rule == rule
		})
	}
	if name, domain, ok := strings.Cut(left, " # "); ok {
		return anyPart(list, name, func(p *result.Part) bool {
			return slices.Contains(p.Domains, domain) && (!hasTarget || slices.Contains(p.To, target))
		})
	}
	name, match, hasMatch := strings.Cut(left, " ")
	if !hasTarget {
		return slices.ContainsFunc(list, func(r *result.Resource) bool { return r.Name == notation })
	}
	to := "cluster " + target
	if rds, ok := strings.CutPrefix(target, "rds:"); ok {
		to = "rds " + rds
	}
	return anyPart(list, name, func(p *result.Part) bool {
		if !slices.Contains(p.To, to) {
			return false
		}
		return !hasMatch || p.Match != nil && slices.Contains(strings.Fields(*p.Match), match)
	})
}

func anyPart(list []*result.Resource, name string, hit func(*result.Part) bool) bool {
	for _, r := range list {
		if r.Name != name {
			continue
		}
		for i := range r.Parts {
			if hit(&r.Parts[i]) {
				return true
			}
		}
	}
	return false
}

// describe shows what there is under the name that was asked for, else all names.
func describe(list []*result.Resource, notation string) []string {
	name := strings.FieldsFunc(notation, func(r rune) bool { return r == ' ' })[0]
	for _, r := range list {
		if r.Name == name {
			text, _ := json.MarshalIndent(r, "    ", " ")
			return []string{string(text)}
		}
	}
	return names(list)
}

func names(list []*result.Resource) []string {
	var out []string
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}

func sameNames(t *testing.T, what string, have, want []string) {
	t.Helper()
	have, want = slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))
	if !slices.Equal(have, want) {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}
