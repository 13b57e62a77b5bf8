package audit_test

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func readSnapshot(t *testing.T, file string) *snapshot.Snapshot {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, string(text), snapshot.Overrides{})
}

// without is the list less its element i.
func without[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }

// changes are copies of a snapshot with one object each taken away or changed,
// by what was done.
func changes(snap *snapshot.Snapshot) map[string]*snapshot.Snapshot {
	out := map[string]*snapshot.Snapshot{}
	add := func(what string, m *snapshot.Meta, change func(s *snapshot.Snapshot)) {
		changed := *snap
		change(&changed)
		out[fmt.Sprintf("%s %s %s/%s", what, m.Kind, m.Namespace, m.Name)] = &changed
	}
	for i := range snap.Sidecars {
		m := &snap.Sidecars[i].Meta
		add("delete", m, func(s *snapshot.Snapshot) { s.Sidecars = without(s.Sidecars, i) })
		add("narrow", m, func(s *snapshot.Snapshot) {
			s.Sidecars = slices.Clone(s.Sidecars)
			s.Sidecars[i].Spec = &networking.Sidecar{
				WorkloadSelector: s.Sidecars[i].Spec.GetWorkloadSelector(), Egress: []*networking.IstioEgressListener{{Hosts: []string{"./*"}}},
			}
		})
	}
	for i := range snap.AuthorizationPolicies {
		m := &snap.AuthorizationPolicies[i].Meta
		add("delete", m, func(s *snapshot.Snapshot) { s.AuthorizationPolicies = without(s.AuthorizationPolicies, i) })
		add("deny", m, func(s *snapshot.Snapshot) {
			s.AuthorizationPolicies = slices.Clone(s.AuthorizationPolicies)
			s.AuthorizationPolicies[i].Spec = &security.AuthorizationPolicy{}
		})
	}
	for i := range snap.RequestAuthentications {
		add("delete", &snap.RequestAuthentications[i].Meta, func(s *snapshot.Snapshot) { s.RequestAuthentications = without(s.RequestAuthentications, i) })
	}
	for i := range snap.Telemetries {
		add("delete", &snap.Telemetries[i].Meta, func(s *snapshot.Snapshot) { s.Telemetries = without(s.Telemetries, i) })
	}
	// Kinds that reach further.
	for i := range min(2, len(snap.PeerAuthentications)) {
		add("delete", &snap.PeerAuthentications[i].Meta, func(s *snapshot.Snapshot) { s.PeerAuthentications = without(s.PeerAuthentications, i) })
	}
	for i := range min(2, len(snap.DestinationRules)) {
		add("delete", &snap.DestinationRules[i].Meta, func(s *snapshot.Snapshot) { s.DestinationRules = without(s.DestinationRules, i) })
	}
	for i := range min(2, len(snap.Services)) {
		add("delete", &snap.Services[i].Meta, func(s *snapshot.Snapshot) { s.Services = without(s.Services, i) })
	}
	return out
}

// What is taken from the audit before a change is what computing anew tells.
func TestChangeIsRun(t *testing.T) {
	files, err := filepath.Glob("../testdata/oracle/1.31/*.yaml.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d meshes, %v", len(files), err)
	}
	alone, least, step := 0, 8, 4
	if testing.Short() {
		least, step = 2, 20
	}
	for i := 0; i < len(files); i += step {
		file := files[i]
		snap := readSnapshot(t, file)
		for what, changed := range changes(snap) {
			base := snap
			if len(what)%2 == 0 { // the other way round
				base, changed = changed, base
			}
			before, err := audit.Compute(base, audit.Options{Details: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, few := before.Touches(changed); few {
				alone++
			}
			got, err := before.Change(changed, nil)
			if err != nil {
				t.Fatal(err)
			}
			want, err := audit.Run(changed, audit.Options{Details: true})
			if err != nil {
				t.Fatal(err)
			}
			orderReasons(got)
			orderReasons(want)
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(result.Ref{})); diff != "" {
				t.Errorf("%s: %s (-anew +from before):\n%.3000s", filepath.Base(file), what, diff)
			}
		}
	}
	if alone < least {
		t.Errorf("only %d changes computed few namespaces alone", alone)
	}
}

// orderReasons numbers the reasons that resources name by their text.
func orderReasons(a *result.Audit) {
	seen := map[*result.Resource]bool{}
	var all []*result.Resource
	collect := func(r *result.Resources) {
		for _, t := range result.Types {
			for _, r := range *r.Of(t) {
				if !seen[r] {
					seen[r] = true
					all = append(all, r)
				}
			}
		}
	}
	for i := range a.Scopes {
		collect(&a.Scopes[i].Resources)
	}
	for i := range a.Groups {
		collect(&a.Groups[i].Resources)
	}
	texts := map[string]result.Reason{}
	text := func(id result.ReasonID) string { return fmt.Sprintf("%+v", a.Reasons[id]) }
	for _, r := range all {
		for _, id := range r.Because {
			texts[text(id)] = a.Reasons[id]
		}
	}
	var order []string
	for t := range texts {
		order = append(order, t)
	}
	slices.SortFunc(order, cmp.Compare[string])
	reasons := make([]result.Reason, len(order))
	ids := map[string]result.ReasonID{}
	for i, t := range order {
		ids[t], reasons[i] = result.ReasonID(i), texts[t]
	}
	for _, r := range all {
		because := make([]result.ReasonID, len(r.Because))
		for i, id := range r.Because {
			because[i] = ids[text(id)]
		}
		r.Because = because
	}
	a.Reasons = reasons
}
