package mesh

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func sortedHosts[V any](m map[HostNamespace]V) []HostNamespace {
	return slices.SortedFunc(maps.Keys(m), compareHosts)
}

func compareHosts(a, b HostNamespace) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Namespace, b.Namespace))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// mcsServiceLabel marks the EndpointSlices that multi-cluster services write.
const mcsServiceLabel = "multicluster.kubernetes.io/service-name"

// endpointTable fills Endpoints: the rows of each (host, namespace), those of
// ServiceEntries before those of Kubernetes, as istiod orders its registries'
// shards (Istio pilot/pkg/model/endpointshards.go).
func (v *View) endpointTable(snap *snapshot.Snapshot) {
	v.work.instances = v.workloadInstances(snap)
	external := v.serviceEntryRows(v.work.instances)
	kubernetes := v.sliceRows(snap)
	if v.Behaviours.HiddenWithoutEndpoints {
		v.withholdHidden(kubernetes)
	}
	if v.Flags.K8sSelectWorkloadEntries {
		v.addSelectedEntries(kubernetes, v.work.instances)
	}
	keys := slices.Concat(sortedHosts(external), sortedHosts(kubernetes))
	slices.SortFunc(keys, compareHosts)
	keys = slices.Compact(keys)
	total := 0
	for _, key := range keys {
		total += len(external[key]) + len(kubernetes[key])
	}
	v.Endpoints = &Endpoints{Rows: make([]Endpoint, 0, total), spans: make(map[HostNamespace][2]int, len(keys))}
	for _, key := range keys {
		start := len(v.Endpoints.Rows)
		v.Endpoints.Rows = append(v.Endpoints.Rows, external[key]...)
		v.Endpoints.Rows = append(v.Endpoints.Rows, kubernetes[key]...)
		v.Endpoints.spans[key] = [2]int{start, len(v.Endpoints.Rows)}
	}
}

// sliceRows makes the rows of all EndpointSlices, in the order of the slices'
// names; a second row of an address and port name is left out (EDS-6; Istio
// pilot/pkg/serviceregistry/kube/controller/endpointslice.go).
func (v *View) sliceRows(snap *snapshot.Snapshot) map[HostNamespace][]Endpoint {
	rows := map[HostNamespace][]Endpoint{}
	seen := map[HostNamespace]map[[2]string]bool{}
	for i := range snap.Slices {
		slice := &snap.Slices[i]
		if !v.readsSlice(slice) || slice.AddressType == "FQDN" {
			continue
		}
		key := HostNamespace{v.KubernetesHost(slice.Service, slice.Namespace), slice.Namespace}
		if seen[key] == nil {
			seen[key] = map[[2]string]bool{}
		}
		for _, row := range v.rowsOfSlice(slice, v.kubernetesByHost(key.Host)) {
			id := [2]string{row.Address, row.PortName}
			if !seen[key][id] {
				seen[key][id] = true
				rows[key] = append(rows[key], row)
			}
		}
	}
	return rows
}

// withholdHidden takes the rows of Services with exportTo "~" away: istiod does
// not send EndpointSlices on for them, though a proxy in the Service's namespace
// may get its cluster through a VirtualService. A WorkloadEntry that the Service
// selects makes istiod send all. So does a change of the Service after its
// slices, which no input tells of: istiod itself then differs from run to run
// (Istio pilot/pkg/serviceregistry/kube/controller/endpointslice.go
// serviceNeedsPush).
func (v *View) withholdHidden(rows map[HostNamespace][]Endpoint) {
	for key := range rows {
		s := v.kubernetesByHost(key.Host)
		if s == nil || !slices.Contains(s.ExportTo, "~") {
			continue
		}
		selected := v.Flags.K8sSelectWorkloadEntries && slices.ContainsFunc(v.work.instances, func(w *workloadInstance) bool {
			return w.kind == workloadKindEntry && !w.onlyDNS && w.namespace == s.Namespace && w.row.Labels.selectedBy(s.Selector)
		})
		if !selected {
			v.work.withheld[key] = rows[key]
			delete(rows, key)
		}
	}
}

// readsSlice reports a slice of a Service that the view sees.
func (v *View) readsSlice(slice *snapshot.EndpointSlice) bool {
	_, multicluster := slice.Labels[mcsServiceLabel]
	return slice.Service != "" && !multicluster && v.Selected(slice.Namespace)
}

// kubernetesByHost is the Kubernetes service of a host name; nil if none.
func (v *View) kubernetesByHost(host string) *Service {
	for _, s := range v.byHost[host] {
		if s.Kubernetes {
			return s
		}
	}
	return nil
}

func (v *View) rowsOfSlice(slice *snapshot.EndpointSlice, s *Service) []Endpoint {
	var out []Endpoint
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		health := v.healthOf(endpoint, s)
		for _, address := range endpoint.Addresses {
			pod, expected := v.podOf(slice, endpoint, address)
			if pod == nil && expected {
				continue
			}
			var extra []string
			if v.Flags.DualStack && expected && len(pod.IPs) > 1 && s != nil && len(s.VIPs) > 1 {
				if slice.AddressType == "IPv6" {
					continue
				}
				address, extra = pod.IPs[0], pod.IPs[1:]
			}
			out = append(out, v.portRows(slice, pod, address, extra, health)...)
		}
	}
	return out
}

func (v *View) portRows(slice *snapshot.EndpointSlice, pod *snapshot.Pod, address string, extra []string, health Health) []Endpoint {
	backend := v.podBackend(pod)
	if backend.Network == "" {
		if network := v.network(address, nil); network != "" {
			located := *backend
			located.Network, located.Labels = network, v.at(backend.Labels, place{network: network})
			backend = &located
		}
	}
	out := make([]Endpoint, 0, len(slice.Ports))
	for i := range slice.Ports {
		out = append(out, Endpoint{
			Backend: backend, Address: address, Extra: extra, Port: slice.Ports[i].Port, PortName: slice.Ports[i].Name,
			Health: health, Kubernetes: true,
		})
	}
	return out
}

// podOf finds an endpoint's pod: the one that targetRef names, which istiod
// waits for (expected), else a ready one of the namespace with the address.
func (v *View) podOf(slice *snapshot.EndpointSlice, endpoint *snapshot.SliceEndpoint, address string) (pod *snapshot.Pod, expected bool) {
	if endpoint.TargetKind == "Pod" {
		return v.pods.byKey[podKey{endpoint.TargetNamespace, endpoint.TargetName}], true
	}
	for _, candidate := range v.pods.byIP[address] {
		if candidate.Namespace == slice.Namespace {
			return candidate, false
		}
	}
	return nil, false
}

// healthOf is the health that istiod keeps for an endpoint (EDS-5, TRAP-40).
func (v *View) healthOf(endpoint *snapshot.SliceEndpoint, s *Service) Health {
	isOr := func(flag *bool, absent bool) bool { return flag == nil && absent || flag != nil && *flag }
	terminating := isOr(endpoint.Terminating, true)
	switch {
	case isOr(endpoint.Ready, true):
		return Healthy
	case s != nil && v.drains(s) && isOr(endpoint.Serving, true) && terminating:
		return Draining
	case s != nil && terminating && v.Behaviours.TerminatingEndpoints:
		return Terminating
	}
	return Unhealthy
}

// drains reports a service with persistent sessions, whose terminating
// endpoints are kept.
func (v *View) drains(s *Service) bool {
	for _, label := range []string{v.Flags.PersistentSessionLabel, v.Flags.PersistentSessionHeaderLabel} {
		if label != "" && s.Labels[label] != "" {
			return true
		}
	}
	return false
}

// EndpointsByPort are the rows of a service port as clusters take them: those of
// the Kubernetes registry by the port's name, those of ServiceEntries by its
// number. The services of one host and namespace share them: the last one that
// has any for a port number decides by its own port names (Istio
// pilot/pkg/model/push_context.go initServiceRegistry).
func (v *View) EndpointsByPort(svc *Service, port int) []*Endpoint {
	rows := v.Endpoints.Of(svc.Host, svc.Namespace)
	if len(rows) == 0 {
		return nil
	}
	services := v.byHost[svc.Host]
	for i := len(services) - 1; i >= 0; i-- {
		if s := services[i]; s.Namespace == svc.Namespace && s.Port(port) != nil {
			if out := s.rowsOfPort(rows, port); len(out) > 0 {
				return out
			}
		}
	}
	return nil
}

func (s *Service) rowsOfPort(rows []Endpoint, port int) []*Endpoint {
	numbers := make(map[string]int, len(s.Ports)) // of two ports with one name, the last counts
	for _, p := range s.Ports {
		numbers[p.Name] = p.Number
	}
	var out []*Endpoint
	for i := range rows {
		row := &rows[i]
		number, found := row.ServicePort, row.ServicePort != 0
		if !found {
			number, found = numbers[row.PortName]
		}
		if found && number == port {
			out = append(out, row)
		}
	}
	return out
}
