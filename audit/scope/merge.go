package scope

import (
	"maps"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// plainKey is a service taken as the registry has it, for one reason.
type plainKey struct {
	index   int
	because result.ReasonID
	pulled  bool
}

// plain is the service with all ports and aliases; scopes share it.
func (s *Scoper) plain(svc *mesh.Service, because result.ReasonID) *Service {
	key := plainKey{svc.Index, because, false}
	if have := s.plains[key]; have != nil {
		return have
	}
	made := &Service{Service: svc, Ports: svc.Ports, Aliases: svc.Aliases, Because: because}
	s.plains[key] = made
	return made
}

// becauseVisible is why a scope that asks for every visible service has this
// one: its own exportTo, if it has any, else the given reason.
func (s *Scoper) becauseVisible(svc *mesh.Service, otherwise result.ReasonID) result.ReasonID {
	if len(svc.ExportTo) == 0 {
		return otherwise
	}
	return s.rec.Included(s.visible.reason(svc))
}

// add puts a service into the scope-wide set, which has one for each host
// name: the first, but a Kubernetes service replaces one that is none, and
// objects of one kind, namespace and shape merge their ports (SC-20; Istio
// appendSidecarServices).
func (b *importer) add(svc *Service) {
	at, found := b.position[svc.Host]
	if !found {
		b.position[svc.Host] = len(b.services)
		b.services = append(b.services, svc)
		return
	}
	have := b.services[at]
	switch {
	case have.Kubernetes && !svc.Kubernetes:
		b.shadowed(svc, have, "a Kubernetes Service has the host name")
		return
	case !have.Kubernetes && svc.Kubernetes:
		b.services[at] = svc
		b.shadowed(have, svc, "a Kubernetes Service has the host name")
		return
	case samePorts(have.Ports, svc.Ports):
		if have.Service != svc.Service {
			b.shadowed(svc, have, "an older one has the host name and the same ports")
		}
		b.services[at] = widened(have, svc, have.Ports)
		return
	case !mergeable(have.Service, svc.Service):
		b.shadowed(svc, have, "an older one has the host name and differs in namespace, resolution, labels, selector or exportTo")
		return
	}
	ports := slices.Clone(have.Ports)
	for _, p := range svc.Ports {
		if !slices.ContainsFunc(ports, func(q mesh.Port) bool { return q.Number == p.Number }) {
			ports = append(ports, p)
		}
	}
	b.services[at] = widened(have, svc, ports)
}

// widened is have with the ports, no longer only pulled in if svc is not.
func widened(have, svc *Service, ports []mesh.Port) *Service {
	explicit := have.Pulled && !svc.Pulled
	if !explicit && len(ports) == len(have.Ports) {
		return have
	}
	merged := *have
	merged.Ports = ports
	if explicit {
		merged.Pulled, merged.Because = false, svc.Because
	}
	return &merged
}

// samePorts compares as istiod does, without target ports.
func samePorts(a, b []mesh.Port) bool {
	return slices.EqualFunc(a, b, func(p, q mesh.Port) bool {
		return p.Name == q.Name && p.Number == q.Number && p.Protocol == q.Protocol
	})
}

// mergeable reports two services of one host name whose ports istiod merges.
func mergeable(a, b *mesh.Service) bool {
	return a.Namespace == b.Namespace && a.Resolution == b.Resolution && a.Kubernetes == b.Kubernetes &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Selector, b.Selector) && sameSet(a.ExportTo, b.ExportTo)
}

func sameSet(a, b []string) bool {
	covers := func(x, y []string) bool {
		return !slices.ContainsFunc(y, func(e string) bool { return !slices.Contains(x, e) })
	}
	return covers(a, b) && covers(b, a)
}

// finish closes the scope-wide set.
func (b *importer) finish(egress []*EgressListener) *imported {
	out := &imported{egress: egress, services: b.services, byHost: make(map[string]*Service, len(b.services))}
	for _, svc := range b.services {
		out.byHost[svc.Host] = svc
		switch svc.TrafficDistribution {
		case "":
		case "PreferSameNode":
			out.nodeDependent = true
			out.localityDependent = true
		default:
			out.localityDependent = true
		}
		out.nodeDependent = out.nodeDependent || svc.NodeLocal
	}
	return out
}
