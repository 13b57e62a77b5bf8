package mesh

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// targetIndex finds what leads to a workload.
type targetIndex struct {
	services  map[string][]*Service                 // Kubernetes ones, by namespace
	selecting map[selectorKey][]*Service            // Kubernetes ones with a selector, by one label of it
	instances map[string][]*workloadInstance        // WorkloadEntries that Kubernetes Services select, by address
	slices    map[string][]*snapshot.EndpointSlice  // by namespace
	addresses map[string]map[string][]ServiceTarget // endpoints of slices: namespace, address; made when asked for
}

// selectorKey is one label that a Service of a namespace selects by.
type selectorKey struct{ namespace, key, value string }

// entryTarget is a ServiceEntry endpoint.
type entryTarget struct {
	service *Service
	port    Port
	target  int
}

// serviceTargets fills the Targets of all proxies (IN-2; Istio
// pilot/pkg/serviceregistry/{kube/controller,serviceentry}/controller.go).
func (v *View) serviceTargets(snap *snapshot.Snapshot) {
	index := v.targetIndex(snap)
	for _, p := range v.Proxies {
		targets := append(v.kubernetesTargets(p, index), v.entryTargets(p)...)
		slices.SortStableFunc(targets, func(a, b ServiceTarget) int {
			return cmp.Or(cmp.Compare(a.Service.Created, b.Service.Created), strings.Compare(a.Service.Host, b.Service.Host))
		})
		p.Targets = targets
	}
}

func (v *View) targetIndex(snap *snapshot.Snapshot) *targetIndex {
	index := &targetIndex{
		services: map[string][]*Service{}, selecting: map[selectorKey][]*Service{},
		instances: map[string][]*workloadInstance{}, slices: map[string][]*snapshot.EndpointSlice{},
		addresses: map[string]map[string][]ServiceTarget{},
	}
	if v.Flags.K8sSelectWorkloadEntries {
		for _, w := range v.work.instances {
			if w.kind == workloadKindEntry && !w.onlyDNS {
				index.instances[w.row.Address] = append(index.instances[w.row.Address], w)
			}
		}
	}
	for _, s := range v.Services {
		if !s.Kubernetes {
			continue
		}
		index.services[s.Namespace] = append(index.services[s.Namespace], s)
		if keys := sortedKeys(s.Selector); len(keys) > 0 {
			key := selectorKey{s.Namespace, keys[0], s.Selector[keys[0]]}
			index.selecting[key] = append(index.selecting[key], s)
		}
	}
	for i := range snap.Slices {
		if slice := &snap.Slices[i]; v.readsSlice(slice) {
			index.slices[slice.Namespace] = append(index.slices[slice.Namespace], slice)
		}
	}
	return index
}

// kubernetesTargets are the targets of Kubernetes Services.
func (v *View) kubernetesTargets(p *Proxy, index *targetIndex) []ServiceTarget {
	if p.Cluster != v.Cluster {
		return nil
	}
	if w := instanceFor(p, index); w != nil {
		return workloadEntryTargets(w, index)
	}
	if v.pods.byKey[podKey{p.Namespace, p.Name}] == nil {
		return nil
	}
	var out []ServiceTarget
	selected := false
	for key, value := range p.Pod.Labels {
		for _, s := range index.selecting[selectorKey{p.Namespace, key, value}] {
			if selects(s.Selector, p.Pod.Labels) {
				selected = true
				out = append(out, selectedTargets(s, p.Pod)...)
			}
		}
	}
	if selected {
		return out
	}
	if index.addresses[p.Namespace] == nil {
		index.addresses[p.Namespace] = v.sliceTargets(index.slices[p.Namespace])
	}
	return slices.Clone(index.addresses[p.Namespace][p.IPs[0]])
}

// instanceFor is the WorkloadEntry that has the proxy's address, if any.
func instanceFor(p *Proxy, index *targetIndex) *workloadInstance {
	instances := index.instances[p.IPs[0]]
	if len(instances) == 0 {
		return nil
	}
	for _, w := range instances {
		if w.name == p.Name && w.namespace == p.Namespace {
			return w
		}
	}
	for _, w := range instances {
		if w.namespace == p.Namespace {
			return w
		}
	}
	return instances[0]
}

func workloadEntryTargets(w *workloadInstance, index *targetIndex) []ServiceTarget {
	var out []ServiceTarget
	for _, s := range index.services[w.namespace] {
		if s.Resolution != ClientSideLB || !w.row.Labels.selectedBy(s.Selector) {
			continue
		}
		for i := range s.Ports {
			if s.Ports[i].Protocol == UDP {
				continue
			}
			if row, ok := selectedEntry(s, &s.Ports[i], w); ok {
				out = append(out, ServiceTarget{Service: s, Port: s.Ports[i], TargetPort: row.Port})
			}
		}
	}
	return out
}

// selectedTargets are the ports of a Service that selects the pod, each target
// port and protocol once (Istio GetProxyServiceTargetsByPod).
func selectedTargets(s *Service, pod *snapshot.Pod) []ServiceTarget {
	var out []ServiceTarget
	for i := range s.Spec.Ports {
		written := &s.Spec.Ports[i]
		port := s.portNamed(written.Name)
		target, found := podPort(pod, written)
		if port == nil || !found {
			continue
		}
		if !slices.ContainsFunc(out, func(t ServiceTarget) bool {
			return t.TargetPort == target && t.Port.Protocol == port.Protocol
		}) {
			out = append(out, ServiceTarget{Service: s, Port: *port, TargetPort: target})
		}
	}
	return out
}

// portNamed is the first port with the name; nil if none.
func (s *Service) portNamed(name string) *Port {
	for i := range s.Ports {
		if s.Ports[i].Name == name {
			return &s.Ports[i]
		}
	}
	return nil
}

// podPort resolves a Service port's target: a number (0 stands for the port's
// own, as the API server writes), or a container port by name and protocol (Istio
// FindPort).
func podPort(pod *snapshot.Pod, port *corev1.ServicePort) (number int, found bool) {
	if port.TargetPort.Type == intstr.Int {
		if port.TargetPort.IntVal == 0 {
			return int(port.Port), true
		}
		return port.TargetPort.IntValue(), true
	}
	protocol := firstNonEmpty(string(port.Protocol), string(corev1.ProtocolTCP))
	for _, p := range pod.Ports {
		if p.Name == port.TargetPort.StrVal && p.Protocol == protocol {
			return p.Port, true
		}
	}
	return 0, false
}

// sliceTargets are the endpoints of a namespace's slices by address: for each
// slice, all of its Service's. They count for pods that no Service selects.
func (v *View) sliceTargets(list []*snapshot.EndpointSlice) map[string][]ServiceTarget {
	out := map[string][]ServiceTarget{}
	for _, slice := range list {
		host := v.KubernetesHost(slice.Service, slice.Namespace)
		s := v.kubernetesByHost(host)
		if s == nil {
			continue
		}
		rows := v.work.withheld[HostNamespace{host, slice.Namespace}]
		if rows == nil {
			rows = v.Endpoints.Of(host, slice.Namespace)
		}
		for i := range rows {
			row := &rows[i]
			if !row.Kubernetes || row.ServicePort != 0 || row.Health == Unknown {
				continue
			}
			if port := s.portNamed(row.PortName); port != nil {
				out[row.Address] = append(out[row.Address], ServiceTarget{Service: s, Port: *port, TargetPort: row.Port})
			}
		}
	}
	return out
}

// entryTargets are the ServiceEntry endpoints with one of the proxy's addresses
// in its own namespace.
func (v *View) entryTargets(p *Proxy) []ServiceTarget {
	var out []ServiceTarget
	for _, ip := range p.IPs {
		for _, t := range v.work.entries[ip] {
			if t.service.Namespace == p.Namespace {
				out = append(out, ServiceTarget{Service: t.service, Port: t.port, TargetPort: t.target})
			}
		}
	}
	return out
}
