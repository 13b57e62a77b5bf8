// Package validation says what Istio refuses: of its own kinds of objects, what
// its validation webhook turns away; of the mesh config and meshNetworks, what
// istiod itself does not take. Only what Istio calls an error is, none of its
// warnings.
//
// The rules are those of Istio 1.31, pkg/config/validation.
package validation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	telemetryv1 "istio.io/client-go/pkg/apis/telemetry/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Problem is one thing that Istio refuses.
type Problem struct {
	Field string // for example "spec.http[0].timeout"; empty: no single field
	Text  string // what is wrong with its value
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Text
	}
	return p.Field + ": " + p.Text
}

// These annotations mark what istiod itself makes of Gateway API objects, for
// which names follow other rules.
const (
	routeSemantics   = "internal.istio.io/route-semantics"
	gatewaySemantics = "internal.istio.io/gateway-semantics"
	dryRun           = "istio.io/dry-run"
)

// Object is what Istio's webhook refuses of an object, in the order of its
// fields; none for kinds that are not Istio's own.
func Object(obj runtime.Object) []Problem {
	m, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	c := &checker{namespace: m.GetNamespace(), annotations: m.GetAnnotations()}
	spec := field("spec")
	switch o := obj.(type) {
	case *networkingv1.ServiceEntry:
		c.serviceEntry(spec, &o.Spec, m.GetLabels())
	case *networkingv1.WorkloadEntry:
		c.workloadEntry(spec, &o.Spec, nil, true)
	case *networkingv1.WorkloadGroup:
		c.workloadGroup(spec, &o.Spec)
	case *networkingv1.VirtualService:
		c.virtualService(spec, &o.Spec)
	case *networkingv1.DestinationRule:
		c.destinationRule(spec, &o.Spec)
	case *networkingv1.Gateway:
		c.gateway(spec, &o.Spec, m.GetName())
	case *networkingv1.Sidecar:
		c.sidecar(spec, &o.Spec)
	case *networkingv1alpha3.EnvoyFilter:
		c.envoyFilter(spec, &o.Spec)
	case *networkingv1beta1.ProxyConfig:
		c.matchLabels(spec.key("selector"), o.Spec.GetSelector().GetMatchLabels())
		c.notNegative(spec.key("concurrency"), o.Spec.GetConcurrency().GetValue())
	case *securityv1.PeerAuthentication:
		c.peerAuthentication(spec, &o.Spec)
	case *securityv1.RequestAuthentication:
		c.requestAuthentication(spec, &o.Spec)
	case *securityv1.AuthorizationPolicy:
		c.authorizationPolicy(spec, &o.Spec)
	case *telemetryv1.Telemetry:
		c.telemetry(spec, &o.Spec)
	case *extensionsv1alpha1.WasmPlugin:
		c.wasmPlugin(spec, &o.Spec)
	default:
		return nil
	}
	if _, policy := obj.(*securityv1.AuthorizationPolicy); !policy && c.annotations[dryRun] != "" {
		c.refuse(field("metadata").key("annotations").key(dryRun), "only an AuthorizationPolicy can have it")
	}
	return c.problems
}

// checker collects problems of one object, or of the mesh config.
type checker struct {
	namespace   string
	annotations map[string]string
	problems    []Problem
}

func (c *checker) refuse(at *path, format string, args ...any) {
	c.problems = append(c.problems, Problem{Field: at.String(), Text: fmt.Sprintf(format, args...)})
}

// path leads to a field. It is written out only where something is refused.
type path struct {
	parent *path
	name   string
	index  int // of a list's element; -1: the path is a field's
}

func field(name string) *path { return &path{nil, name, -1} }

func (p *path) key(name string) *path { return &path{p, name, -1} }

func (p *path) item(i int) *path { return &path{p, "", i} }

func (p *path) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return p.parent.String() + "[" + strconv.Itoa(p.index) + "]"
	case p.parent == nil:
		return p.name
	}
	return p.parent.String() + "." + p.name
}

// sorted are the keys of a map in the one order that reports have.
func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
