package snapshot

import (
	"strconv"
	"strings"
	"sync"

	extensions "istio.io/api/extensions/v1alpha1"
	meta "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Builder collects objects and makes a Snapshot of them. Each object is
// compacted when it is added and may be dropped or changed afterwards by its
// owner, except for the spec of an Istio kind, which the Snapshot keeps. A
// Builder may be used by several goroutines.
type Builder struct {
	mu     sync.Mutex
	intern interner
	snap   Snapshot

	endpoints []legacyEndpoints
	ingresses ingressFilter
}

// NewBuilder returns an empty Builder.
func NewBuilder() *Builder {
	return &Builder{intern: newInterner()}
}

// Gap notes something that the snapshot does not hold.
func (b *Builder) Gap(g result.Gap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snap.Gaps = append(b.snap.Gaps, g)
}

// Partial says that only one namespace was read.
func (b *Builder) Partial(namespace string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.snap.Partial = namespace
}

// AddUnmodelled notes an object of a kind that istiod reads and the model does
// not. The kind is written kind.group, as kubectl does, since "Gateway" alone
// would be ambiguous.
func (b *Builder) AddUnmodelled(m Meta) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m.Labels = b.intern.labels(m.Labels)
	m.Annotations = b.intern.annotations(m.Annotations, keepAnnotation)
	b.snap.Unmodelled = append(b.snap.Unmodelled, m)
}

// metaOf keeps what the model reads of an object's metadata.
func (b *Builder) metaOf(kind string, m *metav1.ObjectMeta, src result.Source) Meta {
	meta := Meta{
		Kind:        kind,
		Namespace:   b.intern.string(m.Namespace),
		Name:        strings.Clone(m.Name),
		Labels:      b.intern.labels(m.Labels),
		Annotations: b.intern.annotations(m.Annotations, keepAnnotation),
		Source:      src,
	}
	if !m.CreationTimestamp.IsZero() {
		meta.Created = m.CreationTimestamp.Unix()
	}
	return meta
}

// istioConfig is a Config of each kind that keeps its own list.
type istioConfig interface {
	*networking.WorkloadEntry | *networking.WorkloadGroup | *networking.DestinationRule |
		*networking.VirtualService | *networking.Gateway | *networking.Sidecar |
		*networkingv1beta1.ProxyConfig | *security.PeerAuthentication |
		*security.RequestAuthentication | *security.AuthorizationPolicy |
		*telemetry.Telemetry | *extensions.WasmPlugin
}

func addConfig[S istioConfig](b *Builder, list *[]Config[S], kind string, m *metav1.ObjectMeta, spec S, src result.Source) {
	*list = append(*list, Config[S]{Meta: b.metaOf(kind, m, src), Spec: spec})
}

// addWasmPlugin keeps the version too: istiod sends it to the proxies.
func (b *Builder) addWasmPlugin(o *extensionsv1alpha1.WasmPlugin, src result.Source) {
	addConfig(b, &b.snap.WasmPlugins, "WasmPlugin", &o.ObjectMeta, &o.Spec, src)
	b.snap.WasmPlugins[len(b.snap.WasmPlugins)-1].ResourceVersion = strings.Clone(o.ResourceVersion)
}

func (b *Builder) addServiceEntry(m *metav1.ObjectMeta, spec *networking.ServiceEntry, status *networking.ServiceEntryStatus, src result.Source) {
	se := ServiceEntry{Config: Config[*networking.ServiceEntry]{Meta: b.metaOf("ServiceEntry", m, src), Spec: spec}}
	for _, a := range status.GetAddresses() {
		se.Allocated = append(se.Allocated, AllocatedAddress{Host: a.GetHost(), Address: a.GetValue()})
	}
	b.snap.ServiceEntries = append(b.snap.ServiceEntries, se)
}

func (b *Builder) addEnvoyFilter(m *metav1.ObjectMeta, spec *networking.EnvoyFilter, src result.Source) {
	b.snap.EnvoyFilters = append(b.snap.EnvoyFilters, EnvoyFilter{
		Config: Config[*networking.EnvoyFilter]{Meta: b.metaOf("EnvoyFilter", m, src), Spec: spec},
	})
}

// healthChecked is the annotation of a WorkloadEntry whose status says whether
// it is healthy.
const healthChecked = "proxy.istio.io/health-checks-enabled"

func (b *Builder) addWorkloadEntry(m *metav1.ObjectMeta, spec *networking.WorkloadEntry, status *meta.IstioStatus, src result.Source) {
	addConfig(b, &b.snap.WorkloadEntries, "WorkloadEntry", m, spec, src)
	checked, err := strconv.ParseBool(m.Annotations[healthChecked])
	if err != nil || !checked {
		return
	}
	for _, c := range status.GetConditions() {
		if c.GetType() == "Healthy" && c.GetStatus() == string(corev1.ConditionTrue) {
			return
		}
	}
	if b.snap.Unhealthy == nil {
		b.snap.Unhealthy = map[string]bool{}
	}
	b.snap.Unhealthy[m.Namespace+"/"+m.Name] = true
}
