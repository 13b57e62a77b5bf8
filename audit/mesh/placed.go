package mesh

import (
	"maps"
	"slices"
)

// Labels are a workload's labels as istiod knows them: those of its object, and
// those that istiod adds for its place (Istio
// pilot/pkg/serviceregistry/util/label AugmentLabels). The zero Labels: none.
// The replicas of a workload share the first, the pods of a node the second.
type Labels struct {
	own   map[string]string
	place *topology // wins, but over a network of its own; nil: none
}

// topology are the labels of a place. It is not changed once it is in use.
type topology struct {
	labels map[string]string
	beside map[place]*topology // with those of a second place; what there was need for
}

func (t *topology) lookup(name string) (value string, found bool) {
	if t != nil {
		value, found = t.labels[name]
	}
	return value, found
}

// LabelsOf are the labels of an object, which must not be changed any more.
func LabelsOf(own map[string]string) Labels { return Labels{own: own} }

// Lookup is a label's value, if there is such a label.
func (l Labels) Lookup(name string) (value string, found bool) {
	if value, found = l.place.lookup(name); found && (name != networkLabel || l.own[name] == "") {
		return value, true
	}
	value, found = l.own[name]
	return value, found
}

// Get is a label's value; empty if there is no such label.
func (l Labels) Get(name string) string {
	value, _ := l.Lookup(name)
	return value
}

// Empty reports that there is no label.
func (l Labels) Empty() bool { return len(l.own) == 0 && (l.place == nil || len(l.place.labels) == 0) }

// Include reports that all wanted labels are among them; no wanted ones always
// are (Istio pkg/config/labels SubsetOf).
func (l Labels) Include(want map[string]string) bool {
	for name, value := range want {
		if got, found := l.Lookup(name); !found || got != value {
			return false
		}
	}
	return true
}

// selectedBy is Kubernetes' selection: an empty selector selects nothing.
func (l Labels) selectedBy(selector map[string]string) bool {
	return len(selector) > 0 && l.Include(selector)
}

// Map is a copy of the labels.
func (l Labels) Map() map[string]string {
	out := maps.Clone(l.own)
	if out == nil {
		out = map[string]string{}
	}
	if l.place != nil {
		for name := range l.place.labels {
			out[name] = l.Get(name)
		}
	}
	return out
}

// place is where a workload is, as far as labels tell it.
type place struct{ cluster, locality, node, network string }

// at are the labels with those of a place added. A network that they have stays.
func (v *View) at(l Labels, p place) Labels {
	if l.place == nil {
		return Labels{own: l.own, place: v.topologyOf(p)}
	}
	merged := l.place.beside[p]
	if merged == nil {
		merged = &topology{labels: maps.Clone(l.place.labels), beside: map[place]*topology{}}
		for name, value := range v.topologyOf(p).labels {
			if name != networkLabel || merged.labels[name] == "" {
				merged.labels[name] = value
			}
		}
		l.place.beside[p] = merged
	}
	return Labels{own: l.own, place: merged}
}

func (v *View) topologyOf(p place) *topology {
	known := v.work.places[p]
	if known == nil {
		known = &topology{labels: map[string]string{}, beside: map[place]*topology{}}
		region, zone, subzone := splitLocality(p.locality)
		for name, value := range map[string]string{
			regionLabel: region, zoneLabel: zone, subzoneLabel: subzone, clusterLabel: p.cluster, hostnameLabel: p.node, networkLabel: p.network,
		} {
			if value != "" {
				known.labels[name] = value
			}
		}
		v.work.places[p] = known
	}
	return known
}

// SelectingLabels are the names of the labels by which policies, EnvoyFilters and
// Sidecars select workloads, sorted.
func (v *View) SelectingLabels() []string {
	names := map[string]bool{}
	note := func(selector map[string]string) {
		for name := range selector {
			names[name] = true
		}
	}
	for _, c := range v.EnvoyFilters {
		note(c.Spec.GetWorkloadSelector().GetLabels())
	}
	for _, c := range v.Sidecars {
		note(c.Spec.GetWorkloadSelector().GetLabels())
	}
	policies := v.Policies
	if policies == nil {
		policies = &Policies{}
	}
	for _, c := range policies.PeerAuthentications {
		note(c.Spec.GetSelector().GetMatchLabels())
	}
	for _, c := range policies.RequestAuthentications {
		note(c.Spec.GetSelector().GetMatchLabels())
	}
	for _, c := range policies.AuthorizationPolicies {
		note(c.Spec.GetSelector().GetMatchLabels())
	}
	for _, c := range policies.Telemetries {
		note(c.Spec.GetSelector().GetMatchLabels())
	}
	for _, c := range policies.WasmPlugins {
		note(c.Spec.GetSelector().GetMatchLabels())
	}
	return slices.Sorted(maps.Keys(names))
}
