package xds_test

import (
	"compress/gzip"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// What proxies get by sharing (scopes, groups, memos, added sizes) is what each
// gets when it is built alone with nothing shared, whatever one changes in the
// input: a key that leaves out what the bytes read fails these tests.

// TestSharing changes a sample of all fields of the recorded meshes, the same in
// each run; MESH_AUDIT_CHANGES says how many of each mesh, MESH_AUDIT_SEED which.
func TestSharing(t *testing.T) {
	changes, seed, step := number(t, "MESH_AUDIT_CHANGES", 0), number(t, "MESH_AUDIT_SEED", 1), 1
	if changes == 0 {
		changes, step = 6, 6
	}
	files, err := filepath.Glob("../../testdata/oracle/1.31/*.yaml.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d meshes, %v", len(files), err)
	}
	for i := 0; i < len(files); i += step {
		t.Run(filepath.Base(files[i]), func(t *testing.T) {
			t.Parallel()
			snap := recorded(t, files[i])
			compareSharing(t, snap, "as it is")
			random := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			compareChanged(t, snap, sample(random, sites(snap), changes))
		})
	}
}

// TestSharingOfPods changes each field of a small mesh, and gives one replica of
// each workload whatever the model reads of pods.
func TestSharingOfPods(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/sharing.yaml")
	if err != nil {
		t.Fatal(err)
	}
	read, err := load.Bytes(t.Context(), "sharing.yaml", text, "")
	if err != nil || len(read.Diagnostics) > 0 {
		t.Fatal(err, read.Diagnostics)
	}
	complete.Apply(read, complete.Options{})
	snap := read.Snapshot()
	compareSharing(t, snap, "as it is")
	list := sites(snap)
	for i := 0; i < len(list); i += 10 {
		compareChanged(t, snap, list[i:i+1])
	}
	owners := map[snapshot.OwnerRef]bool{}
	for i := range snap.Pods {
		p := &snap.Pods[i]
		if p.Proxy == nil || owners[p.Owner] {
			continue
		}
		owners[p.Owner] = true
		for _, change := range podSites(t, snap, i) {
			undo := change.apply()
			compareSharing(t, snap, change.path, p.Owner)
			undo()
		}
	}
}

func compareChanged(t *testing.T, snap *snapshot.Snapshot, changes []site) {
	t.Helper()
	for _, change := range changes {
		undo := change.apply()
		compareSharing(t, snap, change.path)
		undo()
	}
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// sample takes n of the list at random.
func sample(random *rand.Rand, list []site, n int) []site {
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(n, len(list))]
}

func recorded(t *testing.T, file string) *snapshot.Snapshot {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	read, err := load.Bytes(t.Context(), filepath.Base(file), text, "")
	if err != nil {
		t.Fatal(err)
	}
	return read.Snapshot()
}

// compareSharing compares what the proxies of a mesh get together with what
// each gets alone: all, or those of the given owners.
func compareSharing(t *testing.T, snap *snapshot.Snapshot, what string, of ...snapshot.OwnerRef) {
	t.Helper()
	for _, view := range mesh.New(snap).Views {
		together := project(view, view.Proxies)
		for _, p := range view.Proxies {
			if len(of) > 0 && !slices.Contains(of, p.Pod.Owner) {
				continue
			}
			id := p.Namespace + "/" + p.Name
			alone := project(view, []*mesh.Proxy{p})
			if diff := gocmp.Diff(alone[id], together[id]); diff != "" {
				t.Errorf("%s: %s: alone (-), together (+):\n%s", what, id, diff)
				break
			}
		}
	}
}

// project is the bytes of each resource of each proxy, by "type name".
func project(view *mesh.View, proxies []*mesh.Proxy) map[string]map[string]int64 {
	rec := scope.NewRecorder()
	out := map[string]map[string]int64{}
	for _, s := range xds.New(view, scope.NewScoper(view, rec), rec).Project(proxies, func(int) {}).Scopes {
		for _, g := range s.Groups {
			sizes := map[string]int64{}
			for _, t := range result.Types {
				for _, r := range slices.Concat(*s.Resources.Of(t), *g.Resources.Of(t)) {
					sizes[t+" "+r.Name] += r.Bytes
				}
				for _, r := range *g.Resized.Of(t) {
					sizes[t+" "+r.Name] = r.Bytes
				}
				for _, name := range *g.Without.Of(t) {
					delete(sizes, t+" "+name)
				}
			}
			for _, p := range g.Members {
				out[p.Namespace+"/"+p.Name] = sizes
			}
		}
	}
	return out
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
