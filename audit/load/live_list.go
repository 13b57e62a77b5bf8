package load

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// read lists a kind at the first version that the server has. The kind is in
// the snapshot whole, or there is a gap.
func (l *live) read(ctx context.Context, k liveKind) {
	var err error
	for _, gvr := range l.mayServeOf(k) {
		err = l.readVersion(ctx, k, gvr)
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	switch {
	case err == nil && len(l.mayServeOf(k)) > 0, kinds[k.groupKind].unmodelled && (err == nil || apierrors.IsNotFound(err)):
	case (err == nil || apierrors.IsNotFound(err)) && !k.builtin():
		l.gap(result.Assumed, result.Ref{Kind: k.Kind},
			"%s is not installed in the cluster: taken as none; missing: %s", kindName(k.groupKind), k.facts)
	default:
		if err == nil {
			err = errors.New("the API server does not have it")
		}
		l.gap(result.Unread, result.Ref{Kind: k.Kind}, "cannot list %s: %s; missing: %s", k.resourceName(), l.reason(ctx, k.resourceName(), err), k.facts)
	}
}

// mayServeOf are the versions of a kind that are worth asking for.
func (l *live) mayServeOf(k liveKind) (list []schema.GroupVersionResource) {
	for _, version := range k.versions {
		gvr := schema.GroupVersionResource{Group: k.Group, Version: version, Resource: k.resource}
		if l.mayServe(gvr) {
			list = append(list, gvr)
		}
	}
	return list
}

// builtin: every Kubernetes has the kind, so that its absence is a failure.
func (k *liveKind) builtin() bool {
	return !strings.HasSuffix(k.Group, ".io") || k.Group == "discovery.k8s.io"
}

func (k *liveKind) resourceName() string { return liveResource(k.resource, k.Group) }

// liveResource is resource.group, as kubectl writes it.
func liveResource(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// readVersion lists all pages into a builder of their own. A list that expires
// on the way is begun again, once.
func (l *live) readVersion(ctx context.Context, k liveKind, gvr schema.GroupVersionResource) error {
	b, err := l.pages(ctx, k, gvr)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		b, err = l.pages(ctx, k, gvr)
	}
	if err != nil {
		return err
	}
	l.builder.Absorb(b)
	return nil
}

func (l *live) pages(ctx context.Context, k liveKind, gvr schema.GroupVersionResource) (*snapshot.Builder, error) {
	b := snapshot.NewBuilder()
	options := metav1.ListOptions{Limit: l.options.PageSize}
	for n := 0; ; {
		page, err := l.page(ctx, k, gvr, options, b)
		if broken(ctx, err) {
			page, err = l.page(ctx, k, gvr, options, b)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		before := n
		list, err := meta.ListAccessor(page)
		if err != nil {
			return nil, fmt.Errorf("the answer is no list: %w", err)
		}
		err = meta.EachListItem(page, func(obj runtime.Object) error {
			n++
			if !kinds[k.groupKind].unmodelled {
				b.Add(obj, result.Source{})
				return nil
			}
			return addMetadata(b, k, obj)
		})
		if err != nil {
			return nil, err
		}
		l.meter.page(k.resourceName(), n-before)
		l.progress(k.resource, n)
		token := list.GetContinue()
		switch token {
		case "":
			return b, nil
		case options.Continue:
			return nil, errors.New("the API server gives the same page again")
		}
		options.Continue = token
		options.Limit = l.nextPage(list)
	}
}

// nextPage is how many objects the page after this one may have: those that are
// left, where they are no more than a tenth over a page.
func (l *live) nextPage(list metav1.ListInterface) int64 {
	size := l.options.PageSize
	if left := list.GetRemainingItemCount(); left != nil && *left > size && *left <= size+size/10 {
		return *left
	}
	return size
}

func addMetadata(b *snapshot.Builder, k liveKind, obj runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	b.AddUnmodelled(snapshot.Meta{
		Kind: kindName(k.groupKind), Namespace: m.GetNamespace(), Name: m.GetName(),
		Labels: m.GetLabels(), Annotations: m.GetAnnotations(), Created: seconds(m.GetCreationTimestamp()),
	})
	return nil
}

// broken reports whether a page did not come whole, for a reason that may have
// passed: it is asked for once more. What client-go itself asks for again (a
// connection that is refused or closed before there is an answer, 429, 5xx with
// Retry-After) is not.
func broken(ctx context.Context, err error) bool {
	return errors.Is(err, errBrokeOff) && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded)
}

// reason says in a few words why the requests for a resource failed.
func (l *live) reason(ctx context.Context, resource string, err error) string {
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge.Error() + fmt.Sprintf(" (more than %d MB for a page of %d objects; --chunk-size asks for smaller pages)", l.options.MaxAnswer/1_000_000, l.options.PageSize)
	case apierrors.IsTooManyRequests(err):
		return l.rejection(ctx, resource)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return "no whole answer within --request-timeout"
	case errors.Is(err, context.DeadlineExceeded):
		return "the deadline passed"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, errBrokeOff):
		return errBrokeOff.Error() + ", twice"
	case apierrors.IsForbidden(err):
		return "forbidden: " + oneLine(err)
	default:
		return oneLine(err)
	}
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
