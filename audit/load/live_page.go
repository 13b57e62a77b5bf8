package load

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// metadataOnly asks for the metadata of objects, where the API server can leave out
// the rest.
const metadataOnly = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," + runtime.ContentTypeJSON

var metadataList = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList")

// page gets a page of a list. Objects that have to be left out become gaps of b.
func (l *live) page(ctx context.Context, k liveKind, gvr schema.GroupVersionResource, o metav1.ListOptions, b *snapshot.Builder) (runtime.Object, error) {
	kind, namespace := kinds[k.groupKind], l.options.OnlyNamespace
	if kind.cluster {
		namespace = ""
	}
	request := l.request(gvr).NamespaceIfScoped(namespace, namespace != "").
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	want := gvr.GroupVersion().WithKind(k.Kind + "List")
	switch {
	case kind.unmodelled:
		return k.itemByItem(ctx, request.SetHeader("Accept", metadataOnly), want, decodePartial, b)
	case kind.spec != nil:
		return k.itemByItem(ctx, request.SetHeader("Accept", runtime.ContentTypeJSON), want, kind.decodeStored(gvr.Version), b)
	}
	list, err := request.Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	is, _, err := scheme.Scheme.ObjectKinds(list)
	if err != nil {
		return nil, err
	}
	return list, sameList(is[0], want)
}

// sameList returns an error if an answer is of another kind than was asked for.
func sameList(is, want schema.GroupVersionKind) error {
	if is != want {
		return fmt.Errorf("the answer is no %s of %s but %q of %q", want.Kind, want.GroupVersion(), is.Kind, is.GroupVersion())
	}
	return nil
}

// itemByItem decodes the objects of a page one by one: one that cannot be decoded,
// with a value of a newer Istio or one that no schema keeps out, is left out alone.
func (k *liveKind) itemByItem(ctx context.Context, request *rest.Request, want schema.GroupVersionKind, decode func([]byte) (runtime.Object, error), b *snapshot.Builder) (runtime.Object, error) {
	answer := request.Do(ctx)
	if err := answer.Error(); err != nil { // unlike that of Raw, with what the API server says
		return nil, err
	}
	text, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	var page struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ListMeta   `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	if is := page.GroupVersionKind(); !kinds[k.groupKind].unmodelled || is != metadataList {
		if err := sameList(is, want); err != nil {
			return nil, err
		}
	}
	list := &metav1.List{ListMeta: page.Metadata}
	for _, item := range page.Items {
		obj, err := decode(item)
		if err == nil {
			list.Items = append(list.Items, runtime.RawExtension{Object: obj})
			continue
		}
		var about metav1.PartialObjectMetadata
		_ = json.Unmarshal(item, &about) // as far as it can be read
		k.leaveOut(b, &about, err)
	}
	return list, nil
}

// get gets an object of Kubernetes' core group; namespace is empty for cluster-scoped kinds.
func (l *live) get(ctx context.Context, resource, namespace, name string, into runtime.Object) error {
	return l.request(corev1.SchemeGroupVersion.WithResource(resource)).
		NamespaceIfScoped(namespace, namespace != "").Name(name).Do(ctx).Into(into)
}

// request begins to ask for a resource.
func (l *live) request(gvr schema.GroupVersionResource) *rest.Request {
	path := []string{"/apis", gvr.Group, gvr.Version}
	if gvr.Group == "" {
		path = []string{"/api", gvr.Version}
	}
	return l.client.Get().AbsPath(path...).Resource(gvr.Resource)
}
