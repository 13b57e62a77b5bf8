package plugin_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/plugin"
)

// diffJSON is what the command prints with -o json.
func diffJSON(t *testing.T, want int, args ...string) *result.Diff {
	t.Helper()
	status, out, errs := run(t, append([]string{"diff", "-o", "json"}, args...)...)
	if status != want {
		t.Fatalf("%v: exit status %d, want %d\n%s", args, status, want, errs)
	}
	d := &result.Diff{}
	if err := json.Unmarshal([]byte(out), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDiffCases: the names that a proxy gains and loses are those of the cases,
// which Istio's own generator confirmed.
func TestDiffCases(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/cases/*/base.yaml")
	if err != nil || len(dirs) < 6 {
		t.Fatalf("%d cases, %v", len(dirs), err)
	}
	for _, base := range dirs {
		dir := filepath.Dir(base)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(dir, "expect.json"))
			if err != nil {
				t.Fatal(err)
			}
			var c caseFile
			if err := json.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			if c.Diff == nil {
				t.Skip("a case of two sides without a diff")
			}
			namespace, pod, _ := strings.Cut(c.Diff.Proxy, "/")
			d := diffJSON(t, plugin.ExitYes, "--base", base, "--head", filepath.Join(dir, "head.yaml"), "-n", namespace, pod)
			gained, lost := namesOf(d)
			for _, xdsType := range []string{"lds", "rds", "cds"} {
				sameNames(t, xdsType+" gained", gained[xdsType], c.Diff.Added[xdsType])
				sameNames(t, xdsType+" lost", lost[xdsType], c.Diff.Removed[xdsType])
			}
			for _, change := range d.Changes {
				if len(change.Inputs) == 0 {
					t.Errorf("no cause: %+v", change)
				}
			}
		})
	}
}

// namesOf are the names of the resources that come and go.
func namesOf(d *result.Diff) (gained, lost map[string][]string) {
	gained, lost = map[string][]string{}, map[string][]string{}
	for _, c := range d.Changes {
		whole := c.Part == nil && (len(c.Before) == 0 || len(c.After) == 0)
		switch {
		case c.Kind == result.Gained && whole:
			gained[c.Type] = append(gained[c.Type], c.Resource)
		case c.Kind == result.Lost && whole:
			lost[c.Type] = append(lost[c.Type], c.Resource)
		case c.Kind == result.Moved && c.Part == nil && c.ToPart == nil:
			lost[c.Type] = append(lost[c.Type], c.Resource)
			gained[c.Type] = append(gained[c.Type], c.To)
		}
	}
	return gained, lost
}

// documents are the YAML documents of a recorded mesh.
func documents(t *testing.T, seed string) []string {
	t.Helper()
	return strings.Split(string(unzip(t, "../testdata/oracle/1.31/"+seed+".yaml.gz")), "\n---\n")
}

func writeMesh(t *testing.T, docs []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(docs, "\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// recorded are recorded meshes, some of them each time the tests run short.
func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../testdata/oracle/1.31/seed-*.yaml.gz")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded meshes, %v", len(files), err)
	}
	var out []string
	for i, f := range files {
		if i%3 == 0 {
			out = append(out, strings.TrimSuffix(filepath.Base(f), ".yaml.gz"))
		}
	}
	return out
}

// TestDiffOfItself: a mesh in another order of documents is no difference, in
// every format.
func TestDiffOfItself(t *testing.T) {
	for _, seed := range recorded(t) {
		t.Run(seed, func(t *testing.T) {
			t.Parallel()
			docs := documents(t, seed)
			base := writeMesh(t, docs)
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
			d := diffJSON(t, plugin.ExitOK, "--base", base, "--head", writeMesh(t, docs))
			if len(d.Changes)+len(d.Inputs)+len(d.Groups) != 0 {
				t.Errorf("%d changes, %d inputs, %d groups", len(d.Changes), len(d.Inputs), len(d.Groups))
			}
		})
	}
}

// edits drop each an object of a kind from a mesh.
var editKinds = []string{"Sidecar", "VirtualService", "DestinationRule", "Service", "ServiceEntry", "Gateway", "PeerAuthentication", "EndpointSlice"}

// TestDiffProperties drops one object at a time from recorded meshes: what is
// lost is gained the other way round, the dropped object is the cause, and
// saved reports compare as their sources do.
func TestDiffProperties(t *testing.T) {
	for i, seed := range recorded(t) {
		t.Run(seed, func(t *testing.T) {
			t.Parallel()
			docs := documents(t, seed)
			drop := -1
			for k := range editKinds {
				kind := editKinds[(i+k)%len(editKinds)]
				drop = slices.IndexFunc(docs, func(d string) bool { return strings.Contains("\n"+d, "\nkind: "+kind+"\n") })
				if drop >= 0 {
					break
				}
			}
			if drop < 0 {
				t.Skip("nothing to drop")
			}
			base, head := writeMesh(t, docs), writeMesh(t, slices.Delete(slices.Clone(docs), drop, drop+1))
			status, _, _ := run(t, "diff", "--base", base, "--head", head, "-o", "json")
			there := diffJSON(t, status, "--base", base, "--head", head)
			back := diffJSON(t, status, "--base", head, "--head", base)
			if diff := cmp.Diff(outline(there, false), outline(back, true)); diff != "" {
				t.Errorf("-there +back:\n%s", diff)
			}
			if len(there.Inputs) != 1 {
				t.Errorf("%d inputs changed, want the dropped one: %+v", len(there.Inputs), there.Inputs)
			}
			saved := diffJSON(t, status, "--base", save(t, base), "--head", save(t, head))
			saved.Base.Label, saved.Head.Label = base, head
			if diff := cmp.Diff(there, saved); diff != "" {
				t.Errorf("-sources +saved:\n%s", diff)
			}
		})
	}
}

// outline is what each change says, with the sides swapped if asked for.
func outline(d *result.Diff, swapped bool) []string {
	var out []string
	for _, c := range d.Changes {
		before, after, from, to := c.Before, c.After, c.Resource, c.To
		lost, gained := c.LostDomains, c.GainedDomains
		kind := c.Kind
		if swapped {
			before, after, lost, gained = after, before, gained, lost
			if to != "" {
				from, to = to, from
			}
			kind = map[result.ChangeKind]result.ChangeKind{result.Lost: result.Gained, result.Gained: result.Lost}[kind]
			if kind == "" {
				kind = c.Kind
			}
		}
		x, _ := json.Marshal([]any{before, after, lost, gained})
		out = append(out, fmt.Sprintf("%s %s %s > %s %s", kind, c.Type, from, to, x))
	}
	slices.Sort(out)
	return slices.Compact(out) // what callers see splits only what is lost
}

func save(t *testing.T, mesh string) string {
	t.Helper()
	status, out, errs := run(t, "scope", "-f", mesh, "-o", "json", "--resources", "--details")
	if status != plugin.ExitOK {
		t.Fatalf("exit status %d\n%s", status, errs)
	}
	file := filepath.Join(t.TempDir(), "saved.json")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
