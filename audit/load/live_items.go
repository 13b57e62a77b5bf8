package load

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	istioscheme "istio.io/client-go/pkg/clientset/versioned/scheme"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// undecoded reports that a page of one of Istio's kinds came, but could not be
// decoded: with a value of a newer Istio, or one that no schema keeps out.
func undecoded(ctx context.Context, k liveKind, err error) bool {
	var connection *url.Error
	var status apierrors.APIStatus
	return err != nil && kinds[k.groupKind].spec != nil && ctx.Err() == nil &&
		!errors.As(err, &connection) && !errors.As(err, &status) && !errors.Is(err, errBrokeOff) && !errors.Is(err, errTooLarge)
}

// itemByItem gets a page and decodes its objects one by one. Those that cannot be
// decoded are left out, each with a gap.
func (l *live) itemByItem(ctx context.Context, k liveKind, v liveVersion, namespace string, o metav1.ListOptions) (runtime.Object, error) {
	text, err := l.istio.NetworkingV1().RESTClient().Get().AbsPath("/apis", k.Group, v.name).
		NamespaceIfScoped(namespace, namespace != "").Resource(k.resource).VersionedParams(&o, istioscheme.ParameterCodec).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var page struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	list := &metav1.List{ListMeta: page.Metadata}
	for _, item := range page.Items {
		obj := kinds[k.groupKind].versions[v.name]()
		err := json.Unmarshal(item, obj)
		if err == nil {
			list.Items = append(list.Items, runtime.RawExtension{Object: obj})
			continue
		}
		var about metav1.PartialObjectMetadata
		_ = json.Unmarshal(item, &about) // as far as it can be read
		l.gap(result.Unread, result.Ref{Kind: k.Kind, Namespace: about.Namespace, Name: about.Name},
			"cannot read it, as if it were not there: %s", oneLine(err))
	}
	return list, nil
}
