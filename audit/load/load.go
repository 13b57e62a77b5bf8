// Package load reads the objects of a mesh from files, standard input, a
// kustomization, a saved snapshot or a live cluster. It decodes them into the API's own types,
// each with the place that it came from, and says what it could not use.
//
// It refuses to complete or to interpret anything: what files leave out stays
// out. Of bad input it leaves out as little as it can: one document.
package load

import (
	"io"
	"io/fs"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/saved"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Options say what to read. Filenames, Recursive and Kustomize mean what -f, -R
// and -k mean to kubectl.
type Options struct {
	Filenames []string // files, directories, glob patterns, "-" for standard input
	Recursive bool     // also the directories in a directory
	Kustomize string   // directory of a kustomization; empty: none
	// MayBeMissing: a name that stands for no file is noted in Result.Missing;
	// else it is an error.
	MayBeMissing bool
	// Tree is where the names are looked for, with slashes and from its root;
	// nil: on the disk.
	Tree      fs.FS
	Stdin     io.Reader
	Namespace string // of objects that carry none; empty: "default"
	// Whole keeps all of each object, for who prints them; else running Pods
	// have only what completion and a snapshot read.
	Whole bool
}

// Object is one decoded object. Obj is a pointer to a type of k8s.io/api, or of
// istio.io/client-go: whatever version an Istio object is written in, it
// becomes the type of the newest one, since istiod makes no difference.
type Object struct {
	Obj    runtime.Object
	Source result.Source
	// TextLines are the lines of the file at which the texts of a ConfigMap
	// begin, by key; without those that are not written line by line.
	TextLines map[string]int
}

// Result is what was read, in the order of the input.
type Result struct {
	Objects        []Object
	Unmodelled     []snapshot.Meta // objects of kinds that istiod reads and the model does not
	UnmodelledJSON [][]byte        // the objects of Unmodelled, one each
	Diagnostics    []result.Diagnostic
	Ignored        map[string]int // objects of kinds that istiod does not read, by kind.group
	Gaps           []result.Gap   // files that could not be read
	Missing        []string       // names that stand for no file, where that may be
	// Saved is the saved snapshot that was among the files, which the objects
	// lie on top of; nil: none was.
	Saved *saved.Mesh
}

// Snapshot compacts the objects, on all processors. Objects that were added to
// r or changed between load and here count; a saved snapshot does not.
func (r *Result) Snapshot() *snapshot.Snapshot {
	size := len(r.Objects)/goruntime.GOMAXPROCS(0) + 1
	parts := slices.Collect(slices.Chunk(r.Objects, size))
	builders := make([]*snapshot.Builder, len(parts))
	var group sync.WaitGroup
	for i, part := range parts {
		builders[i] = snapshot.NewBuilder()
		group.Go(func() {
			for _, o := range part {
				if cm, ok := o.Obj.(*corev1.ConfigMap); ok {
					builders[i].AddConfigMap(cm, o.Source, o.TextLines)
					continue
				}
				builders[i].Add(o.Obj, o.Source)
			}
		})
	}
	group.Wait()
	b := snapshot.NewBuilder()
	for _, part := range builders {
		b.Absorb(part)
	}
	for _, m := range r.Unmodelled {
		b.AddUnmodelled(m)
	}
	for _, g := range r.Gaps {
		b.Gap(g)
	}
	return b.Build()
}

// seconds since 1970, 0 for the zero time.
func seconds(t metav1.Time) int64 {
	if t.Time.Equal(time.Time{}) {
		return 0
	}
	return t.Unix()
}

func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}
