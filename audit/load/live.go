package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// LiveOptions say how to read a cluster.
type LiveOptions struct {
	Config        *rest.Config
	QPS           float32 // requests a second, over all kinds together; 0: 50
	Burst         int     // requests before QPS holds; 0: 100
	PageSize      int64   // objects in a page of a list; 0: 500
	OnlyNamespace string  // read this namespace only; empty: the whole mesh
	UserAgent     string  // empty: client-go's
	MaxAnswer     int64   // bytes that one answer may have; 0: 512 MB
	// Stats is filled with what was asked of the API server, whether reading
	// succeeds or not; nil: it is not wanted.
	Stats *result.APIStats
	// Progress is told how many objects of a kind have been read so far, by one
	// goroutine at a time; nil: nobody listens.
	Progress func(kind string, n int)
}

// parallelLists is how many kinds are listed at once.
const parallelLists = 8

// Live reads the mesh of a cluster. A kind that cannot be listed to its end is
// left out whole and becomes a gap. The error is for a cluster that cannot be
// reached at all and for a context that the caller cancelled; when its deadline
// passes, what was read until then is returned.
func Live(ctx context.Context, o LiveOptions) (*snapshot.Snapshot, error) {
	l, err := newLive(o)
	if err != nil {
		return nil, err
	}
	if o.Stats != nil {
		defer func() {
			*o.Stats = l.meter.stats(func(f flow) (level, schema string) { return l.flowNames(ctx, f) })
		}()
	}
	if err := within(ctx, l.discover); errors.Is(ctx.Err(), context.Canceled) {
		return nil, cancelled(ctx)
	} else if err != nil {
		return nil, fmt.Errorf("cannot reach the cluster at %s: %s%s", o.Config.Host, l.reason(ctx, "", err), waiting(ctx, o.Config))
	}
	group := errgroup.Group{}
	group.SetLimit(parallelLists)
	for _, k := range l.liveKinds() {
		group.Go(func() error {
			l.read(ctx, k)
			return nil
		})
	}
	_ = group.Wait() // the functions return none
	if o.OnlyNamespace != "" {
		l.readNamespace(ctx)
	} else {
		l.readMeshConfigs(ctx)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, cancelled(ctx)
	}
	return l.builder.Build(), nil
}

// within runs the first request, but gives up when ctx ends: the kubeconfig's
// credential plugin, which knows no deadline, may be waiting for somebody to log in.
func within(ctx context.Context, first func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- first(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waiting says what else than the API server may have taken all the time.
func waiting(ctx context.Context, config *rest.Config) string {
	if ctx.Err() == nil || config.ExecProvider == nil {
		return ""
	}
	return fmt.Sprintf(" (the kubeconfig's credential plugin %q may be waiting for a login)", config.ExecProvider.Command)
}

func cancelled(ctx context.Context) error { return fmt.Errorf("reading the cluster: %w", ctx.Err()) }

// live is the state of one reading.
type live struct {
	options   LiveOptions
	client    rest.Interface // for any group and version
	discovery *discovery.DiscoveryClient
	served    map[schema.GroupVersionResource]bool
	failed    map[schema.GroupVersion]error // groups whose discovery failed
	blind     bool                          // discovery is not allowed: every version is tried
	builder   *snapshot.Builder
	meter     *meter
	fairness  fairness

	mu sync.Mutex // guards options.Progress
}

func newLive(o LiveOptions) (*live, error) {
	if o.QPS == 0 {
		o.QPS = 50
	}
	if o.Burst == 0 {
		o.Burst = 100
	}
	if o.PageSize == 0 {
		o.PageSize = 500
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = 512_000_000
	}
	config := rest.CopyConfig(o.Config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst)
	if o.UserAgent != "" {
		config.UserAgent = o.UserAgent
	}
	l := &live{options: o, builder: snapshot.NewBuilder(), meter: newMeter(o.Config.Host, o.MaxAnswer)}
	config.Wrap(l.meter.wrap)
	if err := l.connect(config); err != nil {
		return nil, fmt.Errorf("client for the API server: %w", err)
	}
	l.builder.Partial(o.OnlyNamespace)
	return l, nil
}

// connect makes the clients, which share their connections.
func (l *live) connect(config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	if l.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, client); err != nil {
		return err
	}
	config.GroupVersion = &schema.GroupVersion{} // each request has its own
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	l.client, err = rest.UnversionedRESTClientForConfigAndClient(config, client)
	return err
}

// discover learns which versions of which kinds the API server has.
func (l *live) discover(ctx context.Context) error {
	_, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, discovery.ToDiscoveryInterfaceWithContext(l.discovery))
	var partly *discovery.ErrGroupDiscoveryFailed
	switch {
	case errors.As(err, &partly):
		l.failed = partly.Groups
	case apierrors.IsForbidden(err), apierrors.IsTooManyRequests(err):
		l.blind = true
	case err != nil:
		return err
	case len(lists) == 0:
		return errors.New("what answers there has no kinds: is it an API server?")
	}
	l.served = map[schema.GroupVersionResource]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			l.served[gv.WithResource(r.Name)] = true
		}
	}
	return nil
}

// mayServe reports whether it is worth asking for a resource.
func (l *live) mayServe(gvr schema.GroupVersionResource) bool {
	return l.blind || l.served[gvr] || l.failed[gvr.GroupVersion()] != nil
}

func (l *live) progress(kind string, n int) {
	if l.options.Progress == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.options.Progress(kind, n)
}

// gap notes a kind that was not read, and what is not known for it.
func (l *live) gap(kind result.GapKind, object result.Ref, format string, args ...any) {
	l.builder.Gap(liveGap(kind, object, format, args...))
}

func liveGap(kind result.GapKind, object result.Ref, format string, args ...any) result.Gap {
	return result.Gap{Kind: kind, Object: object, All: true, Text: fmt.Sprintf(format, args...)}
}
