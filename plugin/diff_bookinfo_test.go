package plugin_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/plugin"
)

// judgedChange is what one proxy loses and gains by two runs of Istio's own
// generators (conformance/cmd/edits -base -head -o): type, resource and part.
type judgedChange struct{ Lost, Gained []string }

// TestDiffBookinfo: a change set on a small mesh. What is lost and gained was
// recorded from the judge; what callers see is Envoy's behaviour.
func TestDiffBookinfo(t *testing.T) {
	const dir = "../testdata/diff/bookinfo"
	for name, c := range map[string]struct {
		cause string
		sees  []string // prefixes, of any change
	}{
		"sidecar-added":     {"Sidecar books/default", []string{"connection closed by outboundTrafficPolicy"}},
		"exportto-narrowed": {"Service partners/library", []string{"connection closed by outboundTrafficPolicy"}},
		"protocol-tcp":      {"ServiceEntry books/covers", []string{"listener 203.0.113.9_8000 instead"}},
		"gateway-filter":    {"Deployment istio-system/istiod", nil},
		"subset-removed":    {"DestinationRule books/reviews", []string{"503 NC"}},
		"host-removed":      {"VirtualService books/bookinfo", []string{"404 NR"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(dir, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want map[string]judgedChange
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			for proxy, change := range want {
				want[proxy] = judgedChange{canonicalLines(t, change.Lost), canonicalLines(t, change.Gained)}
			}
			d := diffJSON(t, plugin.ExitYes, "--base", filepath.Join(dir, "base.yaml"), "--head", filepath.Join(dir, name+".yaml"))
			if diff := cmp.Diff(want, expand(t, d)); diff != "" {
				t.Errorf("-istiod +diff:\n%s", diff)
			}
			if len(d.Inputs) != 1 {
				t.Fatalf("inputs: %+v", d.Inputs)
			}
			if in := d.Inputs[0].Ref(); in.Kind+" "+in.Namespace+"/"+in.Name != c.cause {
				t.Errorf("cause %+v, want %s", in, c.cause)
			}
			var sees []string
			for _, change := range d.Changes {
				if change.Sees != "" && !slices.Contains(sees, change.Sees) {
					sees = append(sees, change.Sees)
				}
			}
			if !slices.EqualFunc(sees, c.sees, strings.HasPrefix) {
				t.Errorf("callers see %q, want %q", sees, c.sees)
			}
		})
	}
}

// expand tells a diff's changes for each proxy as the judge's difference does.
func expand(t *testing.T, d *result.Diff) map[string]judgedChange {
	t.Helper()
	groups, audiences := map[string][]string{}, map[string][]string{}
	for _, g := range d.Groups {
		for _, p := range g.Proxies {
			groups[g.ID] = append(groups[g.ID], g.Namespace+"/"+p)
		}
	}
	for _, a := range d.Audiences {
		for _, g := range a.Groups {
			audiences[a.ID] = append(audiences[a.ID], groups[g]...)
		}
	}
	out := map[string]judgedChange{}
	for _, c := range d.Changes {
		lost, gained := linesOf(t, c.Type, c.Resource, c.Before), linesOf(t, c.Type, strings.TrimSpace(c.To), c.After)
		if c.To == "" {
			gained = linesOf(t, c.Type, c.Resource, c.After)
		}
		both := slices.Clone(lost)
		lost = without(lost, gained)
		gained = without(gained, both)
		for _, proxy := range audiences[c.Audience] {
			if len(lost)+len(gained) > 0 {
				was := out[proxy]
				out[proxy] = judgedChange{append(was.Lost, lost...), append(was.Gained, gained...)}
			}
		}
	}
	for proxy, change := range out {
		out[proxy] = judgedChange{slices.Sorted(slices.Values(change.Lost)), slices.Sorted(slices.Values(change.Gained))}
	}
	return out
}

func linesOf(t *testing.T, xdsType, name string, parts []result.Part) []string {
	t.Helper()
	var out []string
	for _, p := range parts {
		p.Service, p.Matches, p.By, p.Bytes, p.Digest, p.Fails, p.TLS = "", nil, result.Ref{}, 0, 0, nil, ""
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, xdsType+"\t"+name+"\t"+string(text))
	}
	return canonicalLines(t, out)
}

// canonicalLines writes each line's part with its keys sorted.
func canonicalLines(t *testing.T, lines []string) []string {
	t.Helper()
	var out []string
	for _, line := range lines {
		words := strings.SplitN(line, "\t", 3)
		var part map[string]any
		if err := json.Unmarshal([]byte(words[2]), &part); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, words[0]+"\t"+words[1]+"\t"+string(text))
	}
	slices.Sort(out)
	return out
}
