package plugin_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// recording is what Istio's own generators sent to the proxies of a mesh
// (conformance/record.sh).
type recording struct {
	Module       string `json:"module"`
	IstioVersion string `json:"istioVersion"`
	Proxies      []struct {
		Namespace string           `json:"namespace"`
		Name      string           `json:"name"`
		Resources result.Resources `json:"resources"`
	} `json:"proxies"`
	// Unstable is what istiod does not make the same every time, Sizes of which
	// resources the bytes alone.
	Unstable []struct{ Namespace, Proxy, Type, Name string } `json:"unstable"`
	Sizes    []struct {
		Namespace, Proxy, Type, Name string
		Bytes                        []int64
	} `json:"sizes"`
}

// TestOracle compares the command's answer with the recordings: the names and
// parts of every resource of every proxy, and its bytes.
func TestOracle(t *testing.T) {
	files, err := filepath.Glob("../testdata/oracle/*/*.json.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".json.gz")
		id := strings.TrimPrefix(filepath.ToSlash(name), "../testdata/oracle/")
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			mesh := filepath.Join(t.TempDir(), "mesh.yaml")
			if err := os.WriteFile(mesh, unzip(t, name+".yaml.gz"), 0o600); err != nil {
				t.Fatal(err)
			}
			line, which, _ := strings.Cut(id, "/")
			var args []string
			if which == "demo" && line != "1.31" { // without an istiod that tells its version
				args = []string{"--istio-version", line}
			}
			want := compareRecording(t, unzip(t, file), mesh, args...)
			if want.IstioVersion != line || want.Module == "" {
				t.Errorf("recorded with %q, Istio %q", want.Module, want.IstioVersion)
			}
		})
	}
}

// TestRegressions does so for small meshes that were once predicted wrongly, and
// for those that set many fields of the API (api-*).
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("../testdata/regressions/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d regressions, %v", len(files), err)
	}
	for _, mesh := range files {
		t.Run(strings.TrimSuffix(filepath.Base(mesh), ".yaml"), func(t *testing.T) {
			t.Parallel()
			answer, err := os.ReadFile(strings.TrimSuffix(mesh, ".yaml") + ".json")
			if err != nil {
				t.Fatal(err)
			}
			compareRecording(t, answer, mesh)
		})
	}
}

func compareRecording(t *testing.T, answer []byte, mesh string, args ...string) recording {
	t.Helper()
	var want recording
	if err := json.Unmarshal(answer, &want); err != nil {
		t.Fatal(err)
	}
	have := scopeJSON(t, mesh, args...)
	want.compare(t, have)
	allAttributed(t, have)
	return want
}

// allAttributed: what services and the remainder weigh is all that istiod sends,
// and what a service weighs is at least its clusters and load assignments.
func allAttributed(t *testing.T, a *result.Audit) {
	t.Helper()
	least := map[string]int64{}
	for i := range a.Groups {
		g := &a.Groups[i]
		s := a.ScopeByID(g.Scope)
		for _, r := range append(slices.Clone(s.Resources.CDS), s.Resources.EDS...) {
			least[r.Service] += r.Bytes * int64(g.Proxies)
		}
	}
	var sum int64
	of := map[string]int64{}
	for _, s := range a.Services {
		sum += s.Total
		of[s.Host] += s.Total
	}
	for _, r := range a.Remainder {
		sum += r.Total
		if r.Total <= 0 {
			t.Errorf("remainder %s: %d bytes", r.Name, r.Total)
		}
	}
	if sum != a.Mesh.Totals.Bytes {
		t.Errorf("services and remainder weigh %d bytes, all is %d", sum, a.Mesh.Totals.Bytes)
	}
	for host, bytes := range least {
		if host != "" && of[host] < bytes {
			t.Errorf("%s: %d bytes, its clusters and load assignments weigh %d", host, of[host], bytes)
		}
	}
}

func unzip(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (want *recording) compare(t *testing.T, a *result.Audit) {
	t.Helper()
	if len(a.Proxies) != len(want.Proxies) {
		t.Errorf("%d proxies, want %d", len(a.Proxies), len(want.Proxies))
	}
	for _, p := range want.Proxies {
		id := p.Namespace + "/" + p.Name
		have := resourcesOf(t, a, id)
		for _, xdsType := range result.Types {
			shaky := map[string]bool{}
			for _, u := range want.Unstable {
				if u.Namespace == p.Namespace && u.Proxy == p.Name && u.Type == xdsType {
					shaky[u.Name] = true
				}
			}
			got, sent := index(*have.Of(xdsType)), index(*p.Resources.Of(xdsType))
			for _, s := range want.Sizes {
				if s.Namespace == p.Namespace && s.Proxy == p.Name && s.Type == xdsType && slices.Contains(s.Bytes, sum(got[s.Name])) {
					sameBytes(sent[s.Name], got[s.Name])
				}
			}
			compareType(t, id+" "+xdsType, got, sent, shaky)
		}
	}
}

// sum is the bytes of the resources of one name.
func sum(list []*result.Resource) int64 {
	var n int64
	for _, r := range list {
		n += r.Bytes
	}
	return n
}

// sameBytes takes for recorded bytes what istiod sends at other times.
func sameBytes(recorded, predicted []*result.Resource) {
	for i := range min(len(recorded), len(predicted)) {
		recorded[i].Bytes = predicted[i].Bytes
	}
}

func index(list []*result.Resource) map[string][]*result.Resource {
	out := map[string][]*result.Resource{}
	for _, r := range list {
		out[r.Name] = append(out[r.Name], r)
	}
	return out
}

// compareType compares one type's resources but the shaky names, which istiod
// does not make the same every time.
func compareType(t *testing.T, where string, have, want map[string][]*result.Resource, shaky map[string]bool) {
	t.Helper()
	for name := range want {
		switch {
		case shaky[name]:
		case len(have[name]) != len(want[name]):
			t.Errorf("%s: %d of %s, istiod sends %d", where, len(have[name]), name, len(want[name]))
		case canonical(have[name]) != canonical(want[name]):
			t.Errorf("%s %s:\n  have %s\n  want %s", where, name, canonical(have[name]), canonical(want[name]))
		}
	}
	for name := range have {
		if want[name] == nil && !shaky[name] {
			t.Errorf("%s: istiod does not send %s", where, name)
		}
	}
}

// canonical is bytes and the compared fields of the parts (result.Part), as text.
func canonical(list []*result.Resource) string {
	type form struct {
		Bytes int64
		Parts []string
	}
	var out []form
	for _, r := range list {
		f := form{Bytes: r.Bytes}
		for _, p := range r.Parts {
			p.Service, p.Matches, p.Names, p.By, p.Bytes, p.Digest = "", nil, nil, result.Ref{}, 0, 0
			p.Fails, p.TLS = nil, ""
			text, _ := json.Marshal(p)
			f.Parts = append(f.Parts, string(text))
		}
		slices.Sort(f.Parts)
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y form) int { return cmp.Compare(x.Bytes, y.Bytes) })
	text, _ := json.Marshal(out)
	return string(text)
}
