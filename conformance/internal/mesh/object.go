// Package mesh reads a mesh from YAML and says what istiod would read of it.
package mesh

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is one object of the input and where it was written.
type Object struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// JSON is the whole object.
	JSON []byte `json:"-"`
	// File is where it was read from.
	File string `json:"-"`
}

// clusterScoped lists the kinds that have no namespace.
var clusterScoped = map[string]bool{
	"Namespace": true, "Node": true, "GatewayClass": true, "IngressClass": true,
	"MutatingWebhookConfiguration": true, "ValidatingWebhookConfiguration": true,
	"ClusterRole": true, "ClusterRoleBinding": true, "PersistentVolume": true,
	"CustomResourceDefinition": true, "StorageClass": true, "PriorityClass": true,
	"ClusterTrustBundle": true, "APIService": true,
}

// unknownAge is the creation time of objects that tell none: older than any
// real one, and set, because istiod's store for tests would take the current
// time for a zero one, but only for Istio's own kinds.
const unknownAge = "1970-01-01T00:00:00Z"

// newObject reads an object's metadata, and puts it into the namespace
// "default" if it has to have one and names none. Objects that do not tell
// when they were created are equally old.
func newObject(file string, raw []byte) (Object, error) {
	o := Object{File: file, JSON: raw}
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, fmt.Errorf("%s: %w", o, err)
	}
	if o.Kind == "" || o.APIVersion == "" {
		return o, fmt.Errorf("%s: an object without apiVersion or kind", file)
	}
	if o.Namespace == "" && !clusterScoped[o.Kind] {
		o.Namespace = metav1.NamespaceDefault
	}
	var err error
	o.JSON, err = editMeta(raw, func(meta map[string]any) {
		if o.Namespace != "" {
			meta["namespace"] = o.Namespace
		}
		if o.CreationTimestamp.IsZero() {
			meta["creationTimestamp"] = unknownAge
		}
	})
	return o, err
}

// editMeta changes the metadata of an encoded object.
func editMeta(raw []byte, edit func(map[string]any)) ([]byte, error) {
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	meta, _ := m["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		m["metadata"] = meta
	}
	edit(meta)
	return json.Marshal(m)
}

// GVK is the object's group, version and kind.
func (o Object) GVK() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
}

// String names the object and its file.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return fmt.Sprintf("%s: %s %s", o.File, o.Kind, name)
}

// id is the same for two versions of one object.
func (o Object) id() string {
	return o.GVK().Group + "/" + o.Kind + "/" + o.Namespace + "/" + o.Name
}
