package audit_test

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/demo"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/report"
)

func run(t *testing.T, r *load.Result) *result.Audit {
	t.Helper()
	complete.Apply(r, complete.Options{})
	return audited(t, r.Snapshot())
}

// read is the completed snapshot of a text without faults.
func read(t *testing.T, yaml string, o snapshot.Overrides) *snapshot.Snapshot {
	t.Helper()
	r, err := load.Bytes(t.Context(), "mesh.yaml", []byte(yaml), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		t.Fatalf("%d: %s", d.Source.Line, d.Text)
	}
	complete.Apply(r, complete.Options{})
	snap := r.Snapshot()
	snap.Overrides = o
	return snap
}

// audited is the whole answer for it.
func audited(t *testing.T, snap *snapshot.Snapshot) *result.Audit {
	t.Helper()
	a, err := audit.Run(snap, audit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// client is the only proxy with a name that starts so.
func client(t *testing.T, yaml string) (*result.Audit, *result.Group) {
	t.Helper()
	a := audited(t, read(t, yaml, snapshot.Overrides{}))
	for i := range a.Proxies {
		if strings.HasPrefix(a.Proxies[i].Name, "client-") {
			return a, a.GroupByID(a.Proxies[i].Group)
		}
	}
	t.Fatal("no client proxy")
	return nil, nil
}

// mesh has one client and one service of the given name, replicas and subsets.
func mesh(name string, replicas int, subsets ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: shop}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec: {containers: [{name: c, image: x}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: shop}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: backend}}
  template:
    metadata: {labels: {app: backend, version: v1}}
    spec: {containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: shop}
spec: {selector: {app: backend}, ports: [{name: http, port: 8080}]}
`, name, replicas)
	if len(subsets) > 0 {
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec:\n  host: %s\n  subsets:\n", name)
		for _, s := range subsets {
			fmt.Fprintf(&b, "  - {name: %s, labels: {version: v1}}\n", s)
		}
	}
	return b.String()
}

func find(t *testing.T, list []*result.Resource, name string) *result.Resource {
	t.Helper()
	for _, r := range list {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

// TestLongerHost: the host stands five times in a cluster's message with
// auto-mTLS: name, alt_stat_name, EDS service name, metadata and SNI; the short
// name stands once more, in the metadata. Nine letters more are 9 × 6 bytes
// (no length crosses a varint's limit: all stay below 128, or above).
func TestLongerHost(t *testing.T) {
	short, _ := client(t, mesh("backend", 1))
	long, _ := client(t, mesh("backendabcdefghi", 1))
	x := find(t, short.Scopes[0].Resources.CDS, "outbound|8080||backend.shop.svc.cluster.local")
	y := find(t, long.Scopes[0].Resources.CDS, "outbound|8080||backendabcdefghi.shop.svc.cluster.local")
	if got := y.Bytes - x.Bytes; got < 9*6 || got > 9*6+6 {
		t.Errorf("nine letters more cost %d bytes (%d → %d), want 54 and at most a length byte at each of six levels", got, x.Bytes, y.Bytes)
	}
}

// TestEndpointJoins: equal endpoints cost equal bytes, each with its framing.
func TestEndpointJoins(t *testing.T) {
	const name = "outbound|8080||backend.shop.svc.cluster.local"
	var bytes []int64
	for n := 3; n <= 5; n++ {
		a, g := client(t, mesh("backend", n))
		r := find(t, a.Scopes[0].Resources.EDS, name)
		if r.Endpoints != n || *r.Parts[0].Endpoints != n {
			t.Errorf("%d replicas: %d endpoints", n, r.Endpoints)
		}
		if g.Counts.Endpoints != n {
			t.Errorf("%d replicas: the group counts %d endpoints", n, g.Counts.Endpoints)
		}
		bytes = append(bytes, r.Bytes)
	}
	if first, second := bytes[1]-bytes[0], bytes[2]-bytes[1]; first != second || first < 100 {
		t.Errorf("an endpoint costs %d, then %d bytes", first, second)
	}
}

// TestSubsetAdded: a subset adds a cluster and a load assignment of its own.
func TestSubsetAdded(t *testing.T) {
	_, without := client(t, mesh("backend", 2))
	a, with := client(t, mesh("backend", 2, "v1"))
	subset := find(t, a.Scopes[0].Resources.CDS, "outbound|8080|v1|backend.shop.svc.cluster.local")
	if rule := subset.Parts[0].Rule; rule == nil || *rule != "shop/r" {
		t.Errorf("the subset's cluster names no rule: %+v", subset.Parts)
	}
	if with.Counts.CDS != without.Counts.CDS+1 || with.Counts.EDS != without.Counts.EDS+1 || with.Counts.Endpoints != without.Counts.Endpoints+2 {
		t.Errorf("counts %+v → %+v", without.Counts, with.Counts)
	}
	if with.Bytes.CDS <= without.Bytes.CDS+subset.Bytes-1 || with.Bytes.EDS <= without.Bytes.EDS {
		t.Errorf("bytes %+v → %+v", without.Bytes, with.Bytes)
	}
}

// TestOrderOfInput: the same objects in any order give the same report, byte
// for byte.
func TestOrderOfInput(t *testing.T) {
	var first []byte
	for seed := range 6 {
		r, err := demo.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rand.New(rand.NewSource(int64(seed))).Shuffle(len(r.Objects), func(i, j int) { r.Objects[i], r.Objects[j] = r.Objects[j], r.Objects[i] })
		var out bytes.Buffer
		if err := report.JSON(&out, run(t, r), report.DataOptions{Resources: true, Details: true}); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out.Bytes()
		}
		if diff := cmp.Diff(string(first), out.String()); diff != "" {
			t.Fatalf("seed %d:\n%s", seed, diff)
		}
	}
}

// TestSumsAgree: counts and bytes of a group are those of the resources that
// its proxies resolve to, and the totals are their sums.
func TestSumsAgree(t *testing.T) {
	r, err := demo.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a := run(t, r)
	var total, rows int64
	for i := range a.Groups {
		g := &a.Groups[i]
		all := a.Resolve(g)
		var counts result.Counts
		var size result.Bytes
		for _, xdsType := range result.Types {
			for _, res := range *all.Of(xdsType) {
				*counts.Of(xdsType)++
				counts.Endpoints += res.Endpoints
				*size.Of(xdsType) += res.Bytes
				size.Total += res.Bytes
			}
		}
		if counts != g.Counts || size != g.Bytes {
			t.Errorf("%s %s: %+v %+v, its resources are %+v %+v", g.ID, g.Workload, g.Counts, g.Bytes, counts, size)
		}
		total += g.Bytes.Total * int64(g.Proxies)
		rows += int64(g.Counts.Endpoints * g.Proxies)
	}
	if total != a.Mesh.Totals.Bytes || rows != a.Mesh.Totals.EndpointRows || a.Mesh.Totals.Connections != len(a.Proxies) {
		t.Errorf("totals %+v, want %d bytes, %d rows, %d connections", a.Mesh.Totals, total, rows, len(a.Proxies))
	}
}

// TestSelection narrows what is answered, not what is computed.
func TestSelection(t *testing.T) {
	r, err := demo.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole := run(t, r)
	one, err := audit.Run(r.Snapshot(), audit.Options{Select: audit.Selection{Namespace: "shop", Workload: "deployment/cart-v1"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(one.Proxies) != 2 || one.Mesh.Proxies != len(whole.Proxies) {
		t.Fatalf("%d proxies of %d", len(one.Proxies), one.Mesh.Proxies)
	}
	p := whole.Find("shop", one.Proxies[0].Name)
	if got, want := one.GroupByID(one.Proxies[0].Group).Bytes, whole.GroupByID(p.Group).Bytes; got != want {
		t.Errorf("alone %+v, in the whole mesh %+v", got, want)
	}
}
