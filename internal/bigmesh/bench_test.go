package bigmesh_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	yamlv3 "go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/xds"
	"github.com/mesh-audit/mesh-audit/internal/bigmesh"
	"github.com/mesh-audit/mesh-audit/report"
)

// shapes are those that take less than a second or two each; docs/scale.md has
// the figures of the larger ones, which are measured as processes.
var shapes = []string{"open", "scoped", "shared", "unshared", "edge", "headless"}

func snapshotOf(s bigmesh.Shape) *snapshot.Snapshot {
	b := snapshot.NewBuilder()
	for o := range s.Objects() {
		b.Add(o, result.Source{})
	}
	return b.Build()
}

func jsonOf(b *testing.B, s bigmesh.Shape) []byte {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	for o := range s.Objects() {
		if err := e.Encode(o); err != nil {
			b.Fatal(err)
		}
	}
	return text.Bytes()
}

// cpu is the processor time that this process has used, user and system.
func cpu(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// each runs a stage for every shape; prepare is not measured. Beside the usual
// columns it reports the processor time, since some stages use all processors
// and the garbage collector always does.
func each(b *testing.B, stage func(b *testing.B, s bigmesh.Shape) (run func())) {
	for _, name := range shapes {
		b.Run(name, func(b *testing.B) {
			run := stage(b, bigmesh.Shapes[name])
			b.ReportAllocs()
			start := cpu(b)
			for b.Loop() {
				run()
			}
			b.ReportMetric(float64(cpu(b)-start)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

// BenchmarkLoad decodes JSON documents.
func BenchmarkLoad(b *testing.B) {
	each(b, func(b *testing.B, s bigmesh.Shape) func() {
		text := jsonOf(b, s)
		b.SetBytes(int64(len(text)))
		return func() { loaded(b, text) }
	})
}

// loaded reads a text as the command reads a file.
func loaded(b *testing.B, text []byte) *load.Result {
	files := fstest.MapFS{"mesh": &fstest.MapFile{Data: text}}
	r, err := load.Files(b.Context(), load.Options{Filenames: []string{"mesh"}, Tree: files})
	if err != nil || len(r.Diagnostics) > 0 {
		b.Fatal(err, r.Diagnostics)
	}
	return r
}

// BenchmarkYAML decodes the first objects of the mesh "files", 2,000 or as many as
// BIGMESH_OBJECTS says, as YAML: as the loader does, with all of scope after it,
// and for comparison merely into the same types, document by document on all
// processors: with the loader's library, and with sigs.k8s.io/yaml, which tells no
// lines.
func BenchmarkYAML(b *testing.B) {
	var text bytes.Buffer
	var documents [][]byte
	objects, err := strconv.Atoi(cmp.Or(os.Getenv("BIGMESH_OBJECTS"), "2000"))
	if err != nil {
		b.Fatal(err)
	}
	for o := range bigmesh.Shapes["files"].Objects() {
		if len(documents) == objects {
			break
		}
		document, err := yaml.Marshal(o)
		if err != nil {
			b.Fatal(err)
		}
		documents = append(documents, document)
		text.WriteString("---\n")
		text.Write(document)
	}
	run := func(name string, stage func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(text.Len()))
			start := cpu(b)
			for b.Loop() {
				stage()
			}
			b.ReportMetric(float64(cpu(b)-start)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
	run("load", func() { loaded(b, text.Bytes()) })
	run("scope", func() {
		r := loaded(b, text.Bytes())
		complete.Apply(r, complete.Options{})
		if err := report.Scope(io.Discard, audited(b, r.Snapshot()), report.ScopeOptions{}); err != nil {
			b.Fatal(err)
		}
	})
	for name, decode := range map[string]func([]byte, any) error{
		"parse":      throughAny,
		"parse-sigs": func(document []byte, into any) error { return yaml.Unmarshal(document, into) },
	} {
		run(name, func() {
			var group errgroup.Group
			group.SetLimit(runtime.GOMAXPROCS(0))
			for _, document := range documents {
				group.Go(func() error { return parseInto(document, decode) })
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// throughAny decodes with the library that the loader uses, which does not know
// the types' JSON names.
func throughAny(document []byte, into any) error {
	var value any
	if err := yamlv3.Unmarshal(document, &value); err != nil {
		return err
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// parseInto decodes a document into the type of its kind.
func parseInto(document []byte, decode func([]byte, any) error) error {
	kind := ""
	for line := range bytes.Lines(document) {
		if name, ok := bytes.CutPrefix(line, []byte("kind: ")); ok {
			kind = string(bytes.TrimSpace(name))
		}
	}
	types := map[string]any{
		"Pod": &corev1.Pod{}, "Service": &corev1.Service{}, "Namespace": &corev1.Namespace{}, "Node": &corev1.Node{}, "ConfigMap": &corev1.ConfigMap{},
		"Deployment": &appsv1.Deployment{}, "EndpointSlice": &discoveryv1.EndpointSlice{},
		"Sidecar": &networkingv1.Sidecar{}, "VirtualService": &networkingv1.VirtualService{},
		"DestinationRule": &networkingv1.DestinationRule{}, "ServiceEntry": &networkingv1.ServiceEntry{},
	}
	into := types[kind]
	if into == nil {
		return fmt.Errorf("no type for kind %q", kind)
	}
	return decode(document, into)
}

// BenchmarkSnapshot compacts what was loaded, and completes it (in vain).
func BenchmarkSnapshot(b *testing.B) {
	each(b, func(b *testing.B, s bigmesh.Shape) func() {
		r := loaded(b, jsonOf(b, s))
		return func() {
			complete.Apply(r, complete.Options{})
			r.Snapshot()
		}
	})
}

// BenchmarkMesh makes the registry and the proxies.
func BenchmarkMesh(b *testing.B) {
	each(b, func(_ *testing.B, s bigmesh.Shape) func() {
		snap := snapshotOf(s)
		return func() { mesh.New(snap) }
	})
}

// BenchmarkScope finds the scope of every proxy.
func BenchmarkScope(b *testing.B) {
	each(b, func(_ *testing.B, s bigmesh.Shape) func() {
		view := mesh.New(snapshotOf(s)).Views[0]
		return func() {
			scoper := scope.NewScoper(view, scope.NewRecorder())
			for _, p := range view.Proxies {
				scoper.For(p)
			}
		}
	})
}

// BenchmarkXDS makes the resources of every proxy, its scope included.
func BenchmarkXDS(b *testing.B) {
	each(b, func(_ *testing.B, s bigmesh.Shape) func() {
		view := mesh.New(snapshotOf(s)).Views[0]
		return func() {
			rec := scope.NewRecorder()
			xds.New(view, scope.NewScoper(view, rec), rec).Project(view.Proxies, func(int) {})
		}
	})
}

// BenchmarkRun is from a snapshot to the result.
func BenchmarkRun(b *testing.B) {
	each(b, func(b *testing.B, s bigmesh.Shape) func() {
		snap := snapshotOf(s)
		return func() { audited(b, snap) }
	})
}

func audited(b *testing.B, snap *snapshot.Snapshot) *result.Audit {
	a, err := audit.Run(snap, audit.Options{Brief: true})
	if err != nil {
		b.Fatal(err)
	}
	return a
}

// BenchmarkReport writes the table, and JSON without and with resources.
func BenchmarkReport(b *testing.B) {
	formats := map[string]func(*result.Audit) error{
		"table":     func(a *result.Audit) error { return report.Scope(io.Discard, a, report.ScopeOptions{}) },
		"json":      func(a *result.Audit) error { return report.JSON(io.Discard, a, report.DataOptions{}) },
		"resources": func(a *result.Audit) error { return report.JSON(io.Discard, a, report.DataOptions{Resources: true}) },
	}
	for name, write := range formats {
		b.Run(name, func(b *testing.B) {
			each(b, func(b *testing.B, s bigmesh.Shape) func() {
				a := audited(b, snapshotOf(s))
				return func() {
					if err := write(a); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkWhole is from JSON to the table.
func BenchmarkWhole(b *testing.B) {
	each(b, func(b *testing.B, s bigmesh.Shape) func() {
		text := jsonOf(b, s)
		return func() {
			r := loaded(b, text)
			complete.Apply(r, complete.Options{})
			if err := report.Scope(io.Discard, audited(b, r.Snapshot()), report.ScopeOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFile is BenchmarkWhole for the file that BIGMESH_FILE names, stage by
// stage in one go: for profiles of meshes that are too large for the others.
func BenchmarkFile(b *testing.B) {
	file := os.Getenv("BIGMESH_FILE")
	if file == "" {
		b.Skip("BIGMESH_FILE is not set")
	}
	stages := map[string]time.Duration{}
	for b.Loop() {
		start := cpu(b)
		stage := func(name string) {
			now := cpu(b)
			stages[name] += now - start
			start = now
		}
		r, err := load.Files(b.Context(), load.Options{Filenames: []string{file}})
		if err != nil {
			b.Fatal(err)
		}
		stage("load")
		var snap *snapshot.Snapshot
		if r.Saved != nil {
			snap = r.Saved.Snapshot
		} else {
			complete.Apply(r, complete.Options{})
			stage("complete")
			snap = r.Snapshot()
			r = nil
			stage("snapshot")
		}
		a := audited(b, snap)
		stage("run")
		if err := report.Scope(io.Discard, a, report.ScopeOptions{}); err != nil {
			b.Fatal(err)
		}
		stage("report")
	}
	for name, used := range stages {
		b.ReportMetric(used.Seconds()/float64(b.N), name+"-cpu-s/op")
	}
}

// BenchmarkDiff compares a mesh with itself but for one Sidecar, from two
// snapshots to the answer, and reports how many times the processor time of one
// scope, from a snapshot to its result, that is. The mesh is the one in the file
// that BIGMESH_FILE names, else the shape "scoped".
func BenchmarkDiff(b *testing.B) {
	base := benchSnapshot(b)
	head := *base
	head.Sidecars = slices.Clone(head.Sidecars)
	last := &head.Sidecars[len(head.Sidecars)-1]
	last.Spec = &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: []string{"./*"}}}}
	var scopes, diffs time.Duration
	for b.Loop() {
		start := cpu(b)
		audited(b, base)
		scopes += cpu(b) - start
		runtime.GC() // what one leaves behind is not the other's

		start = cpu(b)
		before, err := audit.Compute(base, audit.Options{Details: true})
		if err != nil {
			b.Fatal(err)
		}
		after, err := before.Change(&head, nil)
		if err != nil {
			b.Fatal(err)
		}
		if d := audit.Compare(before.Audit, after, "base", "head"); d.Summary.Changed == 0 {
			b.Fatal("no proxy changes")
		}
		diffs += cpu(b) - start
		runtime.GC()
	}
	b.ReportMetric(scopes.Seconds()*1000/float64(b.N), "scope-cpu-ms/op")
	b.ReportMetric(diffs.Seconds()*1000/float64(b.N), "diff-cpu-ms/op")
	b.ReportMetric(diffs.Seconds()/scopes.Seconds(), "times-scope")
}

func benchSnapshot(b *testing.B) *snapshot.Snapshot {
	file := os.Getenv("BIGMESH_FILE")
	if file == "" {
		return snapshotOf(bigmesh.Shapes["scoped"])
	}
	r, err := load.Files(b.Context(), load.Options{Filenames: []string{file}})
	if err != nil {
		b.Fatal(err)
	}
	if r.Saved != nil {
		return r.Saved.Snapshot
	}
	complete.Apply(r, complete.Options{})
	return r.Snapshot()
}
