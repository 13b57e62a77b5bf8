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

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// page gets a page of a list. Objects that have to be left out become gaps of b.
func (l *live) page(ctx context.Context, k liveKind, gvr schema.GroupVersionResource, o metav1.ListOptions, b *snapshot.Builder) (runtime.Object, error) {
	kind, namespace := kinds[k.groupKind], l.options.OnlyNamespace
	if kind.cluster {
		namespace = ""
	}
	if kind.unmodelled {
		return l.metadata.Resource(gvr).Namespace(namespace).List(ctx, o)
	}
	request := l.request(gvr).NamespaceIfScoped(namespace, namespace != "").
		SpecificallyVersionedParams(&o, metav1.ParameterCodec, schema.GroupVersion{Version: "v1"})
	if kind.spec != nil {
		return istioPage(ctx, request, k, kind.versions[gvr.Version], b)
	}
	list, err := request.Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	is, _, err := scheme.Scheme.ObjectKinds(list)
	if err != nil {
		return nil, err
	}
	return list, k.isList(is[0].Kind)
}

// isList returns an error if an answer is of another kind than a list of k's objects.
func (k *liveKind) isList(kind string) error {
	if kind != k.Kind+"List" {
		return fmt.Errorf("the answer is no %sList but %q", k.Kind, kind)
	}
	return nil
}

// istioPage decodes the objects of a page one by one: one that cannot be decoded,
// with a value of a newer Istio or one that no schema keeps out, is left out alone.
func istioPage(ctx context.Context, request *rest.Request, k liveKind, make func() runtime.Object, b *snapshot.Builder) (runtime.Object, error) {
	text, err := request.SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var page struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	if err := k.isList(page.Kind); err != nil {
		return nil, err
	}
	list := &metav1.List{ListMeta: page.Metadata}
	for _, item := range page.Items {
		obj := make()
		err := json.Unmarshal(item, obj)
		if err == nil {
			list.Items = append(list.Items, runtime.RawExtension{Object: obj})
			continue
		}
		var about metav1.PartialObjectMetadata
		_ = json.Unmarshal(item, &about) // as far as it can be read
		b.Gap(liveGap(result.Unread, result.Ref{Kind: k.Kind, Namespace: about.Namespace, Name: about.Name},
			"cannot read it, as if it were not there: %s", oneLine(err)))
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
