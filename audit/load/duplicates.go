package load

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// identity is what the API server keeps one object of.
type identity struct {
	groupKind
	namespace, name string
}

// dropDuplicates keeps the last of the objects that are given more than once,
// as applying the input in its order would, and says where both are.
func (r *Result) dropDuplicates() {
	last := make(map[identity]int, len(r.Objects))
	ids := make([]identity, len(r.Objects))
	for i, o := range r.Objects {
		m, ok := o.Obj.(metav1.Object)
		if !ok {
			continue
		}
		ids[i] = identity{o.Obj.GetObjectKind().GroupVersionKind().GroupKind(), m.GetNamespace(), m.GetName()}
		last[ids[i]] = i
	}
	kept := r.Objects[:0]
	for i, o := range r.Objects {
		by, ok := last[ids[i]]
		if !ok || by == i {
			kept = append(kept, o)
			continue
		}
		again := r.Objects[by].Source
		r.Diagnostics = append(r.Diagnostics, result.Diagnostic{
			Source: o.Source,
			Object: result.Ref{Kind: ids[i].Kind, Namespace: ids[i].namespace, Name: ids[i].name, Source: o.Source},
			Text:   fmt.Sprintf("given again at %s; the last one counts", again),
			Kept:   true,
		})
	}
	clear(r.Objects[len(kept):])
	r.Objects = kept
}
