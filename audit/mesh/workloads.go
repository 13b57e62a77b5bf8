package mesh

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const (
	unixPrefix             = "unix://"
	registrationAnnotation = "istio.io/autoRegistrationGroup"
	workloadKindPod        = 0
	workloadKindEntry      = 1
)

// workloadInstance is a WorkloadEntry or pod that services can select; its row
// has no port yet (Istio model.WorkloadInstance).
type workloadInstance struct {
	kind            int
	namespace, name string
	row             Endpoint
	ports           map[string]uint32
	onlyDNS         bool // a host name or unix socket: DNS ServiceEntries alone take it
}

// workloadInstances are all that services may select, ordered as a
// ServiceEntry's endpoints are: pods, then entries, by namespace and name.
func (v *View) workloadInstances(snap *snapshot.Snapshot) []*workloadInstance {
	var out []*workloadInstance
	for i := range snap.WorkloadEntries {
		entry := &snap.WorkloadEntries[i]
		if entry.Spec == nil || !v.reads(&entry.Meta) || !v.healthyEntry(snap, &entry.Meta) {
			continue
		}
		out = append(out, v.entryInstance(entry.Spec, &entry.Meta, mergedLabels(entry.Spec.GetLabels(), entry.Labels)))
	}
	if v.Flags.ServiceEntrySelectPods && v.selectsPods(snap) {
		for _, namespace := range sortedKeys(v.pods.byPlace) {
			for _, pod := range v.pods.byPlace[namespace] {
				out = append(out, v.podInstance(pod))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b *workloadInstance) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return out
}

// selectsPods reports a ServiceEntry with a workloadSelector, without which pods
// need not be looked at.
func (v *View) selectsPods(snap *snapshot.Snapshot) bool {
	return slices.ContainsFunc(snap.ServiceEntries, func(e snapshot.ServiceEntry) bool {
		return e.Spec.GetWorkloadSelector() != nil
	})
}

// healthyEntry reports whether istiod takes a WorkloadEntry's health as given
// or has seen it healthy (REG-14).
func (v *View) healthyEntry(snap *snapshot.Snapshot, m *snapshot.Meta) bool {
	return !v.Flags.WorkloadEntryHealthChecks || !snap.Unhealthy[m.Namespace+"/"+m.Name]
}

// mergedLabels joins spec labels and metadata labels; metadata wins.
func mergedLabels(spec, meta map[string]string) map[string]string {
	out := make(map[string]string, len(spec)+len(meta))
	for key, value := range spec {
		out[key] = value
	}
	for key, value := range meta {
		out[key] = value
	}
	return out
}

// entryInstance converts a WorkloadEntry (Istio
// convertWorkloadEntryToWorkloadInstance).
func (v *View) entryInstance(entry *networking.WorkloadEntry, m *snapshot.Meta, labels map[string]string) *workloadInstance {
	address := entry.GetAddress()
	locality := entry.GetLocality()
	if locality == "" {
		locality = v.labelledLocality(LabelsOf(labels))
	}
	network := firstNonEmpty(entry.GetNetwork(), labels[networkLabel])
	backend := &Backend{
		Locality: locality, Network: entry.GetNetwork(), Cluster: v.Cluster,
		Weight: entry.GetWeight(), Namespace: m.Namespace, Workload: m.Name, TLSMode: tlsDisabled,
		Labels: v.at(LabelsOf(labels), place{cluster: v.Cluster, locality: locality, network: network}),
	}
	if name, found := m.Labels[workloadNameLabel]; found {
		backend.Workload = name
	}
	if group, found := m.Annotations[registrationAnnotation]; found {
		backend.Workload = group
	}
	if account := entry.GetServiceAccount(); account != "" {
		backend.Identity, backend.TLSMode = v.Identity(m.Namespace, account), "istio"
	}
	if mode, found := labels[tlsModeLabel]; found {
		backend.TLSMode = mode
	}
	backend.MTLS = backend.TLSMode == "istio"
	_, err := netip.ParseAddr(address)
	return &workloadInstance{
		kind: workloadKindEntry, namespace: m.Namespace, name: m.Name, row: Endpoint{Backend: backend, Address: address}, ports: entry.GetPorts(),
		onlyDNS: strings.HasPrefix(address, unixPrefix) || address != "" && err != nil,
	}
}

func (v *View) podInstance(pod *snapshot.Pod) *workloadInstance {
	row := Endpoint{Backend: v.podBackend(pod), Address: pod.IPs[0], Health: Healthy}
	if v.Flags.DualStack && len(pod.IPs) > 1 {
		row.Extra = pod.IPs[1:]
	}
	ports := map[string]uint32{}
	for _, port := range pod.Ports {
		if _, found := ports[port.Name]; !found && port.Name != "" && port.Protocol == "TCP" && port.Port > 0 {
			ports[port.Name] = uint32(port.Port)
		}
	}
	return &workloadInstance{kind: workloadKindPod, namespace: pod.Namespace, name: pod.Name, row: row, ports: ports}
}

// addSelectedEntries appends the WorkloadEntries that Kubernetes Services select
// (REG-14; Istio collectWorkloadInstanceEndpoints). Istiod looks a port up by its
// number, so of two ports with one number the first gets the rows of both.
func (v *View) addSelectedEntries(rows map[HostNamespace][]Endpoint, workloads []*workloadInstance) {
	byNamespace := map[string][]*workloadInstance{}
	for _, w := range workloads {
		if w.kind == workloadKindEntry && !w.onlyDNS {
			byNamespace[w.namespace] = append(byNamespace[w.namespace], w)
		}
	}
	for _, s := range v.Services {
		if !s.Kubernetes || s.Resolution != ClientSideLB || s.External || len(byNamespace[s.Namespace]) == 0 {
			continue
		}
		key := HostNamespace{s.Host, s.Namespace}
		for i := range s.Ports {
			for _, w := range byNamespace[s.Namespace] {
				if !w.row.Labels.selectedBy(s.Selector) {
					continue
				}
				if row, ok := selectedEntry(s, s.Port(s.Ports[i].Number), w); ok {
					rows[key] = append(rows[key], row)
				}
			}
		}
	}
}

// selectedEntry is the row of a WorkloadEntry for one port of a Kubernetes
// Service (Istio serviceInstanceFromWorkloadInstance).
func selectedEntry(s *Service, port *Port, w *workloadInstance) (row Endpoint, ok bool) {
	target, name, explicit := serviceTargetPort(s, port)
	if target == 0 {
		target = port.Number
	}
	if name != "" {
		if number := w.ports[name]; number != 0 {
			target = int(number)
		} else if explicit {
			return Endpoint{}, false
		}
	}
	row = w.row
	row.Port, row.PortName, row.Kubernetes = target, port.Name, true
	return row, true
}

// serviceTargetPort is the target of a service port: a number, or a name that
// the Service writes (explicit) or that its port has (Istio findServiceTargetPort).
func serviceTargetPort(s *Service, port *Port) (number int, name string, explicit bool) {
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if p.Name != port.Name && int(p.Port) != port.Number {
			continue
		}
		if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal > 0 {
			return int(p.TargetPort.IntVal), p.Name, false
		}
		return 0, p.TargetPort.StrVal, true
	}
	return 0, "", false
}
