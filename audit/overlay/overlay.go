// Package overlay lays manifests on a mesh, as applying them to the cluster
// would: what has the same kind, namespace and name is replaced and keeps what
// the API server and istiod had set; what is new is younger than all there was
// and gets what completion makes up; pods of a changed workload, and endpoints
// of the services that select them, are predicted anew.
//
// It does not change the mesh that it lays on, and shares all that stays.
package overlay

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Key names an object. The kind of one that is not modelled is written kind.group.
type Key struct{ Kind, Namespace, Name string }

// Options are what happens beside laying the files on the mesh.
type Options struct {
	Overrides snapshot.Overrides // of the mesh that comes out
	Assigned  *complete.Assigned // addresses made up for another version of the mesh; nil: none
	Delete    []Key              // what is taken away with all that hangs on it; what is not there is passed over
}

// Apply lays the objects of files on base. It fills in the objects of files.
// What was wrong with the files stays in files.Diagnostics.
func Apply(base *snapshot.Snapshot, files *load.Result, o Options) *snapshot.Snapshot {
	l := &laying{
		base: base, tables: tablesOf(base), files: files, young: 1,
		given: map[Key]bool{}, gone: map[Key]bool{}, goneNamespaces: map[string]bool{},
		stay: map[Key]int{}, open: map[Key]bool{}, left: map[Key][]*snapshot.Pod{}, templates: map[Key]*snapshot.Pod{},
		remade: map[Key]bool{}, assigned: o.Assigned,
	}
	if l.assigned == nil {
		l.assigned = complete.NewAssigned()
	}
	for _, t := range l.tables {
		t.each(func(m *snapshot.Meta) { l.young = max(l.young, m.Created+1) })
	}
	for _, obj := range files.Objects {
		l.given[keyOf(obj)] = true
	}
	for i := range files.Unmodelled {
		m := &files.Unmodelled[i]
		l.given[Key{m.Kind, m.Namespace, m.Name}] = true
	}
	l.remove(o.Delete)
	l.inherit()
	l.workloads()
	l.services()
	input := l.input()
	complete.Apply(input, complete.Options{Overrides: o.Overrides, Around: l.around(), Assigned: l.assigned})
	return l.merged(l.rows(input), o.Overrides)
}

// laying is the state of one Apply.
type laying struct {
	base   *snapshot.Snapshot
	tables []table
	files  *load.Result
	young  int64 // creation time, in seconds since 1970, of what is new

	given          map[Key]bool // in the files
	gone           map[Key]bool
	goneNamespaces map[string]bool

	pods      map[Key][]*snapshot.Pod // base's, by workload; see podsOf
	stay      map[Key]int             // how many pods of a workload of the files stay
	open      map[Key]bool            // workloads of the files that do not say how many pods they have
	left      map[Key][]*snapshot.Pod // the pods that a predicted workload had
	templates map[Key]*snapshot.Pod   // of the workloads of the files
	moved     []podLabels             // of pods that come, go or change
	remade    map[Key]bool            // Services whose endpoints are made anew
	assigned  *complete.Assigned

	context map[any]bool // objects of base that completion needs to see
}

type podLabels struct {
	namespace string
	labels    map[string]string
}

func keyOf(o load.Object) Key {
	kind := o.Obj.GetObjectKind().GroupVersionKind().Kind
	m, ok := o.Obj.(metav1.Object)
	if !ok {
		return Key{Kind: kind}
	}
	if kind == "Ingress" {
		kind = "Ingress.networking.k8s.io" // noted as unmodelled
	}
	return Key{kind, m.GetNamespace(), m.GetName()}
}

// remove takes objects away. A namespace takes what is in it along.
func (l *laying) remove(keys []Key) {
	for _, k := range keys {
		if l.given[k] || l.find(k) == nil {
			continue
		}
		l.gone[k] = true
		switch k.Kind {
		case "Namespace":
			l.goneNamespaces[k.Name] = true
		case "Service":
			l.dropSlices(k)
		case "Pod":
			if p := l.pod(k); p != nil {
				l.movePod(p)
			}
		case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
			for _, p := range l.podsOf(k) {
				l.dropPod(p)
			}
			for i := range l.base.Workloads {
				if w := &l.base.Workloads[i]; w.Namespace == k.Namespace && w.Owner == (snapshot.OwnerRef{Kind: k.Kind, Name: k.Name}) {
					l.gone[metaKey(&w.Meta)] = true
				}
			}
		}
	}
}

func (l *laying) dropPod(p *snapshot.Pod) {
	l.gone[metaKey(&p.Meta)] = true
	l.movePod(p)
}

func (l *laying) movePod(p *snapshot.Pod) {
	l.moved = append(l.moved, podLabels{p.Namespace, p.Labels})
}

func metaKey(m *snapshot.Meta) Key { return Key{m.Kind, m.Namespace, m.Name} }

// isGone reports whether an object of base is not in what comes out.
func (l *laying) isGone(m *snapshot.Meta) bool {
	return l.goneNamespaces[m.Namespace] || l.gone[metaKey(m)]
}

// replaced reports whether a row of base is not in what comes out as it was.
func (l *laying) replaced(m *snapshot.Meta) bool { return l.given[metaKey(m)] || l.isGone(m) }

// input is what completion has to see: the files, and of base what decides how
// they are completed.
func (l *laying) input() *load.Result {
	in := &load.Result{Objects: slices.Clone(l.files.Objects), Unmodelled: l.files.Unmodelled}
	l.context = map[any]bool{}
	add := func(k Key, obj load.Object) {
		if !l.given[k] && !l.gone[k] && !l.goneNamespaces[k.Namespace] {
			l.context[obj.Obj] = true
			in.Objects = append(in.Objects, obj)
		}
	}
	b := l.base
	for i := range b.Namespaces {
		m := &b.Namespaces[i].Meta
		add(metaKey(m), load.Object{Obj: &corev1.Namespace{TypeMeta: typeOf("v1", "Namespace"), ObjectMeta: objectMeta(m)}})
	}
	for i := range b.Istiods {
		add(metaKey(&b.Istiods[i].Meta), load.Object{Obj: restoreIstiod(&b.Istiods[i])})
	}
	for i := range b.ConfigMaps {
		m := &b.ConfigMaps[i].Meta
		add(metaKey(m), load.Object{Obj: &corev1.ConfigMap{TypeMeta: typeOf("v1", "ConfigMap"), ObjectMeta: objectMeta(m), Data: b.ConfigMaps[i].Data}})
	}
	for i := range b.Webhooks {
		add(metaKey(&b.Webhooks[i].Meta), load.Object{Obj: restoreWebhook(&b.Webhooks[i])})
	}
	selectors := map[string][]map[string]string{} // of the services to be made anew, by namespace
	for _, obj := range l.files.Objects {
		if s, ok := obj.Obj.(*corev1.Service); ok && len(s.Spec.Selector) > 0 && !l.sliced(s.Namespace, s.Name) {
			selectors[s.Namespace] = append(selectors[s.Namespace], s.Spec.Selector)
		}
	}
	for i := range b.Services {
		s := &b.Services[i]
		if k := metaKey(&s.Meta); l.remade[k] && !l.given[k] {
			add(k, load.Object{Obj: &corev1.Service{TypeMeta: typeOf("v1", "Service"), ObjectMeta: objectMeta(&s.Meta), Spec: *s.Spec.DeepCopy()}, Source: s.Source})
			selectors[s.Namespace] = append(selectors[s.Namespace], s.Spec.Selector)
		}
	}
	if len(selectors) == 0 {
		return in
	}
	for i := range b.Pods {
		p := &b.Pods[i]
		if len(p.IPs) > 0 && slices.ContainsFunc(selectors[p.Namespace], func(s map[string]string) bool { return selects(s, p.Labels) }) {
			add(metaKey(&p.Meta), load.Object{Obj: restorePod(p), Source: p.Source})
		}
	}
	return in
}

func (l *laying) around() *complete.Around {
	return &complete.Around{
		Addresses: l.addresses,
		Nodes:     len(l.base.Nodes),
		Sliced:    l.sliced,
		Running: func(kind, namespace, name string) int {
			k := Key{kind, namespace, name}
			if !l.given[k] {
				return math.MaxInt // base's own, which has what it has
			}
			return l.stay[k]
		},
	}
}

// addresses yields those in use in base. Those of pods that go are theirs who
// come instead.
func (l *laying) addresses(yield func(string) bool) {
	b := l.base
	for i := range b.Services {
		for _, ip := range append(b.Services[i].Spec.ClusterIPs, b.Services[i].Spec.ClusterIP) {
			if !yield(ip) {
				return
			}
		}
	}
	for i := range b.Pods {
		for _, ip := range b.Pods[i].IPs {
			if !yield(ip) {
				return
			}
		}
	}
	for i := range b.ServiceEntries {
		for _, a := range b.ServiceEntries[i].Allocated {
			if !yield(a.Address) {
				return
			}
		}
	}
}

// rows compacts what completion made of the input, without what is base's.
func (l *laying) rows(input *load.Result) *snapshot.Snapshot {
	kept := *input
	kept.Objects = slices.DeleteFunc(slices.Clone(input.Objects), func(o load.Object) bool { return l.context[o.Obj] })
	kept.Gaps = append(slices.Clone(l.files.Gaps), input.Gaps...)
	rows := kept.Snapshot()
	l.dropMadeNamespaces(rows)
	for i := range rows.Workloads {
		if w := &rows.Workloads[i]; l.open[metaKey(&w.Meta)] {
			w.Replicas = l.workload(metaKey(&w.Meta)).Replicas
		}
	}
	for _, t := range tablesOf(rows) {
		t.each(func(m *snapshot.Meta) {
			if m.Created != 0 {
				return
			}
			m.Created = l.young
			if have := l.find(metaKey(m)); have != nil {
				m.Created = have.Created
			}
		})
	}
	l.resettle(rows)
	return rows
}

// dropMadeNamespaces keeps, of the namespaces that nobody wrote, those that the
// files' objects need.
func (l *laying) dropMadeNamespaces(rows *snapshot.Snapshot) {
	needed := map[string]bool{}
	for k := range l.given {
		needed[k.Namespace] = true
	}
	rows.Namespaces = slices.DeleteFunc(rows.Namespaces, func(n snapshot.Namespace) bool {
		return n.Implied || n.Annotations[complete.AssumedAnnotation] != "" && !needed[n.Name]
	})
}

// merged is base with the rows on top.
func (l *laying) merged(rows *snapshot.Snapshot, overrides snapshot.Overrides) *snapshot.Snapshot {
	out := *l.base
	added := tablesOf(rows)
	for i, t := range tablesOf(&out) {
		t.merge(added[i], l.replaced)
	}
	out.Unhealthy = laidOver(l.base.Unhealthy, rows.Unhealthy, l.replaced, l.base.WorkloadEntries)
	out.Balancers = laidOver(l.base.Balancers, rows.Balancers, l.isGone, l.base.Services)
	for i := range out.Services { // a status stays as long as the Service is balanced
		s := &out.Services[i]
		if key := s.Namespace + "/" + s.Name; l.given[metaKey(&s.Meta)] && s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(rows.Balancers[key]) == 0 {
			delete(out.Balancers, key)
		}
	}
	out.Gaps = append(slices.Clone(l.base.Gaps), rows.Gaps...)
	out.Overrides = overrides
	out.ImplyNamespaces()
	return &out
}

// laidOver is what is noted of objects by "namespace/name", without what is
// gone of the list and with what was added.
func laidOver[V, S any](noted, added map[string]V, gone func(*snapshot.Meta) bool, list []snapshot.Config[S]) map[string]V {
	if len(noted) == 0 {
		return maps.Clone(added)
	}
	out := maps.Clone(noted)
	for i := range list {
		if m := &list[i].Meta; gone(m) {
			delete(out, m.Namespace+"/"+m.Name)
		}
	}
	maps.Copy(out, added)
	return out
}
