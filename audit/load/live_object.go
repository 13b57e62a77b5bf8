package load

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func decodePartial(text []byte) (runtime.Object, error) {
	obj := &metav1.PartialObjectMetadata{}
	return obj, json.Unmarshal(text, obj)
}

// decodeStored decodes one of Istio's objects as istiod decodes what is stored
// (Istio pilot/pkg/config/kube/crdclient). A status that is not read, or cannot be,
// is none.
func (k kind) decodeStored(version string) func([]byte) (runtime.Object, error) {
	return func(text []byte) (runtime.Object, error) {
		if nestedDeeper(text, maxDepth) {
			return nil, fmt.Errorf("nested more than %d deep", maxDepth)
		}
		var stored struct {
			metav1.PartialObjectMetadata `json:",inline"`
			Spec, Status                 json.RawMessage
		}
		if err := json.Unmarshal(text, &stored); err != nil {
			return nil, err
		}
		obj := k.versions[version]()
		obj.GetObjectKind().SetGroupVersionKind(stored.GroupVersionKind())
		*obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta) = stored.ObjectMeta
		if len(stored.Spec) > 0 && string(stored.Spec) != "null" {
			if err := json.Unmarshal(stored.Spec, k.spec(obj)); err != nil {
				return nil, fmt.Errorf("spec: %w", err)
			}
		}
		if k.status != nil && len(stored.Status) > 0 {
			readStatus(stored.Status, k.status(obj))
		}
		return obj, nil
	}
}

// nestedDeeper reports whether lists and objects of a JSON text stand in each other
// more than so many times. Decoding takes the time of the square of the depth.
func nestedDeeper(text []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > most {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// leaveOut names an object that is not read.
func (k *liveKind) leaveOut(b *snapshot.Builder, about metav1.Object, err error) {
	b.Gap(liveGap(result.Unread, result.Ref{Kind: k.Kind, Namespace: about.GetNamespace(), Name: about.GetName()},
		"cannot read it, as if it were not there: %s", oneLine(err)))
}

// isObject returns an error if an object of a list cannot be one of the kind.
func (k *liveKind) isObject(obj runtime.Object, m metav1.Object) error {
	is := obj.GetObjectKind().GroupVersionKind().Kind
	switch {
	case is != "" && is != k.Kind && is != "PartialObjectMetadata":
		return fmt.Errorf("it stands in a list of %s but is a %s", k.Kind, is)
	case m.GetName() == "":
		return errors.New("it has no name")
	case m.GetNamespace() == "" && !kinds[k.groupKind].cluster:
		return errors.New("it has no namespace")
	}
	return nil
}

// accept adds an object of a list to b, or names it where it cannot be one of the kind.
func (k *liveKind) accept(b *snapshot.Builder, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	if err := k.isObject(obj, m); err != nil {
		k.leaveOut(b, m, err)
		return nil
	}
	if !kinds[k.groupKind].unmodelled {
		b.Add(obj, result.Source{})
		return nil
	}
	b.AddUnmodelled(snapshot.Meta{
		Kind: kindName(k.groupKind), Namespace: m.GetNamespace(), Name: m.GetName(),
		Labels: m.GetLabels(), Annotations: m.GetAnnotations(), Created: seconds(m.GetCreationTimestamp()),
	})
	return nil
}
