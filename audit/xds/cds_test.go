package xds_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// built is what one mesh is made of for a test.
type built struct {
	view    *mesh.View
	scoper  *scope.Scoper
	builder *xds.Builder
	rec     *scope.ReasonRecorder
}

func build(t *testing.T, version string, files ...string) built {
	t.Helper()
	read, err := load.Files(context.Background(), load.Options{Filenames: files})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range read.Diagnostics {
		t.Errorf("%s: %s", d.Source.File, d.Text)
	}
	snap := read.Snapshot()
	snap.Overrides.IstioVersion = version
	view := mesh.New(snap).Views[0]
	rec := scope.NewRecorder()
	scoper := scope.NewScoper(view, rec)
	return built{view, scoper, xds.New(view, scoper, rec), rec}
}

// clusters returns the clusters, load assignments and name table of a proxy.
func (m built) clusters(p *mesh.Proxy) (cds, eds, nds []*result.Resource) {
	s := m.scoper.For(p)
	cds = slices.Concat(m.builder.OutboundClusters(s, p), m.builder.InboundClusters(s, p))
	eds = m.builder.LoadAssignments(s, p, cds)
	if table := m.builder.NameTable(s, p); table != nil {
		nds = []*result.Resource{table}
	}
	return cds, eds, nds
}

// clusterLines writes resources as testdata/cluster/*.want has them, sorted by line.
func clusterLines(xdsType string, resources []*result.Resource) []string {
	var out []string
	for _, r := range resources {
		line := fmt.Sprintf("%s %s %d", xdsType, r.Name, r.Bytes)
		for _, p := range r.Parts {
			part, _ := json.Marshal(result.Part{Type: p.Type, Rule: p.Rule, Endpoints: p.Endpoints, Hosts: p.Hosts})
			line += "\n  " + string(part)
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestClusters compares with Istio 1.31: the .want files are the clusters, load
// assignments and name tables of its own generator for base.yaml and the case.
func TestClusters(t *testing.T) {
	eachCase(t, "cluster", func(t *testing.T, want string, files ...string) {
		expected := strings.Split(strings.ReplaceAll(strings.TrimSpace(want), "\n  ", "\x00  "), "\n")
		for i := range expected {
			expected[i] = strings.ReplaceAll(expected[i], "\x00", "\n")
		}
		slices.Sort(expected)
		m := build(t, "", files...)
		cds, eds, nds := m.clusters(m.view.Proxies[0])
		got := slices.Concat(clusterLines("cds", cds), clusterLines("eds", eds), clusterLines("nds", nds))
		if diff := gocmp.Diff(expected, got); diff != "" {
			t.Errorf("(-generator +model)\n%s", diff)
		}
	})
}

// TestClusterVersions: what older istiods write into an outbound cluster (SIZE-2,
// TRAP-24). Up to 1.30 there is no panic threshold, an empty message of 2
// bytes; up to 1.28 there is track_remaining, 2 bytes.
func TestClusterVersions(t *testing.T) {
	size := func(version string) int64 {
		m := build(t, version, "testdata/cluster/base.yaml", "testdata/cluster/ingress.yaml")
		cds, _, _ := m.clusters(m.view.Proxies[0])
		i := slices.IndexFunc(cds, func(r *result.Resource) bool { return r.Name == "outbound|80||one.shop.svc.cluster.local" })
		if i < 0 {
			t.Fatalf("%s: no cluster", version)
		}
		return cds[i].Bytes
	}
	now := size("1.31.0")
	for version, want := range map[string]int64{"1.30.3": now - 2, "1.28.10": now, "1.24.6": now} {
		if got := size(version); got != want {
			t.Errorf("%s: %d bytes, want %d", version, got, want)
		}
	}
}

// TestSharedResources: proxies of different namespaces share the resources of
// what they see alike, for the same reasons (a DestinationRule of its own
// namespace applies to a proxy by another step).
func TestSharedResources(t *testing.T) {
	m := build(t, "", "testdata/cluster/base.yaml", "testdata/cluster/inbound.yaml", "testdata/cluster/second.yaml")
	if len(m.view.Proxies) != 2 {
		t.Fatalf("%d proxies", len(m.view.Proxies))
	}
	byName := map[string]*result.Resource{}
	for i, p := range m.view.Proxies {
		s := m.scoper.For(p)
		clusters := m.builder.OutboundClusters(s, p)
		for _, r := range slices.Concat(clusters, m.builder.LoadAssignments(s, p, clusters)) {
			key := r.Name
			if len(r.Parts) > 0 {
				key += r.Parts[0].Type
			}
			if i == 1 && byName[key] != r && r.Service != "one.shop.svc.cluster.local" {
				t.Errorf("%s is built anew", r.Name)
			}
			byName[key] = r
		}
	}
}

// TestClusterGrowth: each occurrence of the host in the messages costs a byte
// for each character more, and an endpoint or a subset adds.
func TestClusterGrowth(t *testing.T) {
	total := func(files ...string) (n int, bytes int64) {
		m := build(t, "", files...)
		cds, eds, _ := m.clusters(m.view.Proxies[0])
		for _, r := range slices.Concat(cds, eds) {
			bytes += r.Bytes
		}
		return len(cds), bytes
	}
	clusters, bytes := total("testdata/cluster/base.yaml", "testdata/cluster/inbound.yaml")
	more, heavier := total("testdata/cluster/base.yaml", "testdata/cluster/inbound.yaml", "testdata/cluster/subset.yaml")
	if more != clusters+3 || heavier <= bytes {
		t.Errorf("a subset on 3 ports: %d clusters and %d bytes, before %d and %d", more, heavier, clusters, bytes)
	}
}
