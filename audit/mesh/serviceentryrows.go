package mesh

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// serviceEntryRows makes the endpoints of all ServiceEntry services, merged by
// host and namespace, oldest ServiceEntry first (REG-20; Istio
// mergeServicesInstancesByNamespaceHost).
func (v *View) serviceEntryRows(workloads []*workloadInstance) map[HostNamespace][]Endpoint {
	byNamespace := map[string][]*workloadInstance{}
	for _, w := range workloads {
		byNamespace[w.namespace] = append(byNamespace[w.namespace], w)
	}
	groups := map[HostNamespace][]*Service{}
	for _, s := range v.Services {
		if s.Entry != nil {
			key := HostNamespace{s.Host, s.Namespace}
			groups[key] = append(groups[key], s)
		}
	}
	rows := make(map[HostNamespace][]Endpoint, len(groups))
	for _, key := range sortedHosts(groups) {
		services := groups[key]
		slices.SortStableFunc(services, func(a, b *Service) int {
			return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.ObjectName, b.ObjectName))
		})
		roundRobin := map[int]bool{} // ports that already have a row
		for _, s := range services {
			for _, row := range v.entryRows(s, byNamespace[s.Namespace]) {
				if s.Resolution == DNSRoundRobinLB && roundRobin[row.ServicePort] {
					continue
				}
				roundRobin[row.ServicePort] = true
				rows[key] = append(rows[key], row)
				if port := s.Port(row.ServicePort); port != nil {
					v.work.entries[row.Address] = append(v.work.entries[row.Address], entryTarget{s, *port, row.Port})
				}
			}
		}
	}
	return rows
}

// resolvesByDNS reports the resolutions DNS and DNS_ROUND_ROBIN.
func (s *Service) resolvesByDNS() bool {
	return s.Resolution == DNSLB || s.Resolution == DNSRoundRobinLB
}

// entryRows are the endpoints of one ServiceEntry service.
func (v *View) entryRows(s *Service, workloads []*workloadInstance) []Endpoint {
	spec := s.Entry.Spec
	ports := spec.GetPorts()
	if selector := spec.GetWorkloadSelector(); selector != nil {
		var out []Endpoint
		for _, w := range workloads {
			if w.row.Labels.Include(selector.GetLabels()) && (!w.onlyDNS || s.resolvesByDNS()) {
				out = append(out, instanceRows(w, ports)...)
			}
		}
		return out
	}
	if len(spec.GetEndpoints()) == 0 {
		if s.resolvesByDNS() {
			return v.hostRows(s, ports)
		}
		return nil
	}
	var out []Endpoint
	for i, endpoint := range spec.GetEndpoints() {
		if endpoint == nil {
			continue
		}
		m := &snapshot.Meta{}
		if v.Behaviours.EntryEndpointNames {
			m.Namespace, m.Name = s.Namespace, s.ObjectName+"-"+strconv.Itoa(i)
		}
		out = append(out, instanceRows(v.entryInstance(endpoint, m, endpoint.GetLabels()), ports)...)
	}
	return out
}

// hostRows are the synthetic endpoints of a DNS ServiceEntry without endpoints:
// the host itself.
func (v *View) hostRows(s *Service, ports []*networking.ServicePort) []Endpoint {
	var out []Endpoint
	backend := &Backend{TLSMode: tlsDisabled}
	if v.Behaviours.EntryHostCluster {
		backend.Cluster = v.Cluster
	}
	if v.Behaviours.EntryEndpointNames {
		backend.Namespace, backend.Workload = s.Namespace, s.ObjectName
	}
	for _, port := range ports {
		if port == nil {
			continue
		}
		target := port.GetNumber()
		if port.GetTargetPort() > 0 {
			target = port.GetTargetPort()
		}
		out = append(out, Endpoint{
			Backend: backend, Address: s.Host, Port: int(target), PortName: port.GetName(), ServicePort: int(port.GetNumber()),
		})
	}
	return out
}

// instanceRows are a workload's endpoints, one for each ServiceEntry port; a unix
// socket has port 0 (Istio convertWorkloadInstanceToServiceInstance).
func instanceRows(w *workloadInstance, ports []*networking.ServicePort) []Endpoint {
	out := make([]Endpoint, 0, len(ports))
	for _, port := range ports {
		if port == nil {
			continue
		}
		row := w.row
		row.PortName, row.ServicePort = port.GetName(), int(port.GetNumber())
		row.Kubernetes = w.kind == workloadKindPod
		socket, isUnix := strings.CutPrefix(row.Address, unixPrefix)
		switch {
		case isUnix && len(row.Extra) == 0:
			row.Address = socket
		case w.ports[port.GetName()] > 0:
			row.Port = int(w.ports[port.GetName()])
		case port.GetTargetPort() > 0:
			row.Port = int(port.GetTargetPort())
		default:
			row.Port = int(port.GetNumber())
		}
		out = append(out, row)
	}
	return out
}
