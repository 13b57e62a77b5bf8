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
	asked := l.mayServeOf(k)
	var err error
	for _, gvr := range asked {
		err = l.readVersion(ctx, k, gvr)
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	switch {
	case len(asked) == 0, apierrors.IsNotFound(err) && !l.served[asked[len(asked)-1]]:
		l.absent(k)
	case err != nil:
		l.unread(k, l.reason(ctx, k.resourceName(), err))
	}
}

// absent tells that the API server does not have a kind. Those that are not
// modelled need not be there.
func (l *live) absent(k liveKind) {
	switch kind := kinds[k.groupKind]; {
	case kind.unmodelled:
	case kind.spec != nil:
		l.gap(result.Assumed, result.Ref{Kind: k.Kind},
			"%s is not installed in the cluster: taken as none; missing: %s", kindName(k.groupKind), k.facts)
	default: // every Kubernetes has it
		l.unread(k, "the API server does not have it")
	}
}

func (l *live) unread(k liveKind, why string) {
	l.gap(result.Unread, result.Ref{Kind: k.Kind}, "cannot list %s: %s; missing: %s", k.resourceName(), why, k.facts)
}

// mayServeOf are the versions of a kind that are worth asking for.
func (l *live) mayServeOf(k liveKind) (list []schema.GroupVersionResource) {
	for _, version := range k.versions {
		gvr := schema.GroupVersionResource{Group: k.Group, Version: version, Resource: k.resource}
		if l.mayServe(gvr) {
			list = append(list, gvr)
		}
	}
	if len(list) > 0 || !kinds[k.groupKind].unmodelled {
		return list
	}
	for gvr := range l.served { // metadata are the same at any version
		if gvr.Group == k.Group && gvr.Resource == k.resource {
			return append(list, gvr)
		}
	}
	return nil
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
	seen := map[string]bool{} // continue tokens
	for n := 0; ; {
		page, err := l.page(ctx, k, gvr, options, b)
		if broken(ctx, err) {
			page, err = l.page(ctx, k, gvr, options, b)
		}
		if err == nil {
			err = ctx.Err()
		}
		if apierrors.IsNotFound(err) && options.Continue != "" {
			err = errors.New("it is gone, after a part of it: " + oneLine(err))
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
			return k.accept(b, obj)
		})
		if err != nil {
			return nil, err
		}
		l.meter.page(k.resourceName(), n-before)
		l.progress(k.resource, n)
		options.Continue = list.GetContinue()
		if options.Continue == "" {
			return b, nil
		}
		if seen[options.Continue] {
			return nil, errors.New("the API server gives the same page again")
		}
		seen[options.Continue] = true
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
