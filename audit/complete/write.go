package complete

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	istioscheme "istio.io/client-go/pkg/clientset/versioned/scheme"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// Write prints the objects as one YAML document each, sorted by kind,
// namespace and name.
func Write(w io.Writer, r *load.Result) error {
	type document struct {
		kind, namespace, name string
		text                  []byte
	}
	var docs []document
	for _, o := range r.Objects {
		text, err := encode(o.Obj)
		if err != nil {
			return fmt.Errorf("%s: %w", o.Source, err)
		}
		d := document{kind: o.Obj.GetObjectKind().GroupVersionKind().Kind, text: text}
		if m, ok := o.Obj.(metav1.Object); ok {
			d.namespace, d.name = m.GetNamespace(), m.GetName()
		}
		docs = append(docs, d)
	}
	for i, m := range r.Unmodelled {
		text, err := encodeUnmodelled(r.UnmodelledJSON[i], m.Namespace)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Source, err)
		}
		docs = append(docs, document{kind: m.Kind, namespace: m.Namespace, name: m.Name, text: text})
	}
	slices.SortStableFunc(docs, func(x, y document) int {
		return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name), bytes.Compare(x.text, y.text))
	})
	for _, d := range docs {
		if _, err := fmt.Fprintf(w, "---\n%s", d.text); err != nil {
			return err
		}
	}
	return nil
}

// encodeUnmodelled writes an object as it was read, in the namespace that it
// was taken to be in.
func encodeUnmodelled(text []byte, namespace string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if meta, ok := fields["metadata"].(map[string]any); ok && namespace != "" {
		meta["namespace"] = namespace
	}
	return yaml.Marshal(fields)
}

// encode writes an object without the empty fields that the Go types add.
func encode(obj runtime.Object) ([]byte, error) {
	if obj.GetObjectKind().GroupVersionKind().Kind == "" {
		for _, s := range []*runtime.Scheme{scheme.Scheme, istioscheme.Scheme} {
			if kinds, _, err := s.ObjectKinds(obj); err == nil && len(kinds) > 0 {
				obj.GetObjectKind().SetGroupVersionKind(kinds[0])
				break
			}
		}
	}
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	if spec, ok := fields["spec"].(map[string]any); ok {
		if m := specMessage(obj); m != nil {
			keepRequired(m.ProtoReflect(), spec)
			writeNumbers(m.ProtoReflect().Descriptor(), spec)
		}
	}
	if status, ok := fields["status"].(map[string]any); ok && len(status) == 0 {
		delete(fields, "status")
	}
	if meta, ok := fields["metadata"].(map[string]any); ok && meta["creationTimestamp"] == nil {
		delete(meta, "creationTimestamp")
	}
	return yaml.Marshal(fields)
}
