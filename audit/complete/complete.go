// Package complete fills in what manifests leave out and a cluster would have:
// API defaults, cluster IPs, Pods with their proxies, EndpointSlices and
// allocated ServiceEntry addresses. One documented, deterministic rule
// (docs/completion.md) decides; whatever is made up carries the annotation
// mesh-audit/assumed and is told in a gap of kind assumed. What the input
// already has is never changed.
package complete

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// AssumedAnnotation marks an object that completion made.
const AssumedAnnotation = snapshot.AssumedAnnotation

// Options are what the rule needs beside the input.
type Options struct {
	Overrides snapshot.Overrides
	// Around is the mesh that the input will be laid on; nil: the input is whole.
	Around *Around
	// Assigned are addresses made up before, for the same objects in another
	// version of the mesh: they are taken again, and those that are made up now
	// are added. Nil: none.
	Assigned *Assigned
}

// Apply completes the objects of r in place and adds a gap for each kind of
// thing that it made up. Applying it again changes nothing.
func Apply(r *load.Result, o Options) {
	c := &completion{read: r, mesh: findMesh(r, o.Overrides), around: o.Around, assigned: o.Assigned}
	if c.around == nil {
		c.around = &Around{}
	}
	if c.assigned == nil {
		c.assigned = NewAssigned()
	}
	c.nodes = c.around.Nodes
	c.index()
	c.namespaces()
	c.clusterIPs()
	c.pods()
	c.endpointSlices()
	c.entryAddresses()
	c.wasmVersions()
	r.Gaps = append(r.Gaps, c.gaps()...)
}

// completion is the state of one Apply.
type completion struct {
	read     *load.Result
	mesh     meshFacts
	around   *Around
	assigned *Assigned

	namespace map[string]*corev1.Namespace
	services  []item[*corev1.Service]
	podItems  []item[*corev1.Pod]
	nodes     int
	minimum   map[target]int32 // HPA minimum by scale target
	sliced    map[target]bool  // services that have slices
	endpoints []item[*corev1.Endpoints]
	entries   []item[*networkingv1.ServiceEntry]

	madeIPs, madePods, madeSlices, madeAddresses, madeWorkloads, madeVersions, started, mirrored, leftOut int
}

// item is a typed object with its origin.
type item[T metav1.Object] struct {
	obj    T
	source result.Source
}

type target struct{ kind, namespace, name string }

// index sorts what the steps look up. Objects of one kind are taken by
// namespace and name, so that the order of the input does not matter.
func (c *completion) index() {
	c.namespace = map[string]*corev1.Namespace{}
	c.minimum = map[target]int32{}
	c.sliced = map[target]bool{}
	for _, o := range c.read.Objects {
		switch obj := o.Obj.(type) {
		case *corev1.Namespace:
			c.namespace[obj.Name] = obj
		case *corev1.Node:
			c.nodes++
		case *corev1.Service:
			c.services = append(c.services, item[*corev1.Service]{obj, o.Source})
		case *corev1.Pod:
			c.podItems = append(c.podItems, item[*corev1.Pod]{obj, o.Source})
		case *corev1.Endpoints:
			c.endpoints = append(c.endpoints, item[*corev1.Endpoints]{obj, o.Source})
		case *discoveryv1.EndpointSlice:
			c.sliced[target{"Service", obj.Namespace, obj.Labels[discoveryv1.LabelServiceName]}] = true
		case *autoscalingv2.HorizontalPodAutoscaler:
			ref := obj.Spec.ScaleTargetRef
			c.minimum[target{ref.Kind, obj.Namespace, ref.Name}] = ptr.Deref(obj.Spec.MinReplicas, 1)
		case *autoscalingv1.HorizontalPodAutoscaler:
			ref := obj.Spec.ScaleTargetRef
			c.minimum[target{ref.Kind, obj.Namespace, ref.Name}] = ptr.Deref(obj.Spec.MinReplicas, 1)
		case *networkingv1.ServiceEntry:
			c.entries = append(c.entries, item[*networkingv1.ServiceEntry]{obj, o.Source})
		}
	}
	sortItems(c.services)
	sortItems(c.podItems)
	sortItems(c.entries)
	sortItems(c.endpoints)
}

func sortItems[T metav1.Object](items []item[T]) {
	slices.SortStableFunc(items, func(x, y item[T]) int {
		return cmp.Or(cmp.Compare(x.obj.GetNamespace(), y.obj.GetNamespace()), cmp.Compare(x.obj.GetName(), y.obj.GetName()))
	})
}

// add puts a made object into the input, marked; its origin is that of the
// object it was made for.
func (c *completion) add(obj interface {
	runtime.Object
	metav1.Object
}, source result.Source) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AssumedAnnotation] = "true"
	obj.SetAnnotations(annotations)
	c.read.Objects = append(c.read.Objects, load.Object{Obj: obj, Source: source})
}

// namespaces makes those that objects name and the input lacks, and labels each
// with its name as the API server does.
func (c *completion) namespaces() {
	wanted := map[string]bool{c.mesh.root: true}
	for _, o := range c.read.Objects {
		if m, ok := o.Obj.(metav1.Object); ok && m.GetNamespace() != "" {
			wanted[m.GetNamespace()] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if c.namespace[name] != nil {
			continue
		}
		ns := &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		}
		c.namespace[name] = ns
		c.add(ns, result.Source{})
	}
	for _, ns := range c.namespace {
		if ns.Labels[corev1.LabelMetadataName] == "" {
			ns.Labels = maps.Clone(ns.Labels)
			if ns.Labels == nil {
				ns.Labels = map[string]string{}
			}
			ns.Labels[corev1.LabelMetadataName] = ns.Name
		}
	}
}

// wasmVersion stands for what the API server would give: istiod sends it with
// the plugin's config (SIZE-27). It is as long as those of clusters often are.
const wasmVersion = "10000000"

func (c *completion) wasmVersions() {
	for _, o := range c.read.Objects {
		if plugin, ok := o.Obj.(*extensionsv1alpha1.WasmPlugin); ok && plugin.ResourceVersion == "" {
			plugin.ResourceVersion = wasmVersion
			c.madeVersions++
		}
	}
}

func (c *completion) gaps() []result.Gap {
	var out []result.Gap
	say := func(n int, format string, args ...any) {
		if n > 0 {
			out = append(out, result.Gap{Kind: result.Assumed, Text: fmt.Sprintf(format, args...)})
		}
	}
	say(c.madeIPs, "cluster IPs of %d Services from %s, in order of namespace and name", c.madeIPs, serviceNetwork)
	say(c.madePods, "Pods of %d workloads from their templates (%d in all), with addresses from %s", c.madeWorkloads, c.madePods, podNetwork)
	say(c.started, "%d Pods without a status run, with addresses from %s", c.started, podNetwork)
	say(c.mirrored, "EndpointSlices mirrored from Endpoints: %d", c.mirrored)
	say(c.madeSlices, "EndpointSlices from Services' selectors: %d", c.madeSlices)
	say(c.madeAddresses, "auto-allocated ServiceEntry addresses from %s and %s: %d", entryNetwork, entryNetwork6, c.madeAddresses)
	say(c.madeVersions, "resourceVersions of %d WasmPlugins, which istiod sends: %d digits long", c.madeVersions, len(wasmVersion))
	if c.leftOut > 0 {
		out = append(out, result.Gap{Kind: result.Unmodelled, All: true, Text: fmt.Sprintf("%d Pods that workloads ask for are left out: at most %d of a workload are made, and as many as %s has addresses", c.leftOut, maxReplicas, podNetwork)})
	}
	return out
}

// replicas tells how many Pods a workload runs: the HPA's minimum, else its own number.
func (c *completion) replicas(kind string, meta metav1.ObjectMeta, written *int32) int {
	n := ptr.Deref(written, 1)
	if minimum, ok := c.minimum[target{kind, meta.Namespace, meta.Name}]; ok && (written == nil || minimum > n) {
		n = minimum
	}
	return int(max(0, n))
}
