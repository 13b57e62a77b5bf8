package scope

import (
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// importer computes what one Sidecar, default scope or router imports in a
// namespace (Istio pilot/pkg/model/sidecar.go).
type importer struct {
	*Scoper
	from    source
	sidecar *sidecarConfig // nil: the default scope, or a router
	ns      string

	services []*Service // the scope-wide set so far, one for each host
	position map[string]int
}

// allHosts is the hosts list of the default egress listener.
var allHosts = []string{"*/*"}

// listener imports what one egress listener asks for; spec nil is the default one.
func (b *importer) listener(index int, spec *networking.IstioEgressListener) *EgressListener {
	l := &EgressListener{Index: index, Spec: spec}
	list := spec.GetHosts()
	if spec == nil {
		list = allHosts
	}
	hosts := parseEgressHosts(list, b.ns, b.view.Behaviours.EgressExclusions)
	l.VirtualServices = b.importVirtualServices(l, hosts)
	l.Services = b.importServices(l, hosts)
	return l
}

// candidates are the services that the hosts may match, in istiod's order (SC-10).
func (b *importer) candidates(hosts *egressHosts) []*mesh.Service {
	owners := hosts.namespaces()
	switch {
	case owners == nil:
		return b.visible.services(b.ns)
	case !hosts.exact || !b.view.Behaviours.ExactHostLookup:
		return b.visible.ofNamespaces(b.ns, owners)
	}
	var out []*mesh.Service
	for owner, set := range hosts.byNamespace {
		for host := range set.exact {
			if svc := b.view.Service(host, owner); svc != nil && b.visible.visible(svc, b.ns) {
				out = append(out, svc)
			}
		}
	}
	slices.SortFunc(out, func(x, y *mesh.Service) int { return x.Index - y.Index })
	return out
}

// importServices selects the services of one listener: by hosts, port and
// aliases, then one namespace for each host name (SC-9, SC-12 … SC-14).
func (b *importer) importServices(l *EgressListener, hosts *egressHosts) []*Service {
	because := b.hostReasons(l)
	candidates := b.candidates(hosts)
	var out []*Service
	for _, svc := range candidates {
		if hosts.excluded(svc.Host, svc.Namespace) {
			b.turnAway(l, svc, "SC-7", "sidecar-hosts", "a host entry that begins with ~ excludes it")
			continue
		}
		taken := b.match(l, svc, hosts.byNamespace[svc.Namespace], because)
		if taken == nil {
			taken = b.match(l, svc, hosts.any, because)
		}
		if taken != nil {
			out = append(out, taken)
		}
	}
	if b.explains {
		b.tellUnmatched(l, hosts)
	}
	return b.oneNamespace(l, out)
}

// match imports a service by the entries for one namespace; nil: they do not
// match, or the listener's port is not among the service's.
func (b *importer) match(l *EgressListener, svc *mesh.Service, set *hostSet, because func(*mesh.Service, int) result.ReasonID) *Service {
	if set == nil {
		return nil
	}
	entry, ok := set.matchService(svc.Host)
	if !ok {
		return nil
	}
	why := because(svc, entry)
	ports := svc.Ports
	if l.MatchesPort() {
		number := int(l.Spec.GetPort().GetNumber())
		if ports = portsNumbered(svc.Ports, number); len(ports) == 0 {
			b.turnAway(l, svc, "SC-12", "sidecar-egress-port", "the egress listener is for port "+strconv.Itoa(number)+", which the service has not")
			return nil
		}
	}
	aliases := svc.Aliases
	if len(aliases) > 0 {
		aliases = slices.DeleteFunc(slices.Clone(aliases), func(a mesh.AliasName) bool {
			_, ok := set.matchService(a.Host)
			return !ok
		})
	}
	if len(ports) == len(svc.Ports) && len(aliases) == len(svc.Aliases) {
		return b.plain(svc, why)
	}
	return &Service{Service: svc, Ports: ports, Aliases: aliases, Because: why}
}

// portsNumbered is the first port with the number alone; nil if there is none.
func portsNumbered(ports []mesh.Port, number int) []mesh.Port {
	for i := range ports {
		if ports[i].Number == number {
			return ports[i : i+1 : i+1]
		}
	}
	return nil
}

// oneNamespace leaves each host name the services of one namespace: the
// client's own, else that of a Kubernetes service, else the first (SC-14;
// PILOT_UNIFIED_SIDECAR_SCOPE false prefers no Kubernetes service).
func (b *importer) oneNamespace(l *EgressListener, services []*Service) []*Service {
	chosen := map[string]*Service{}
	for _, svc := range services {
		if !b.visible.contested[svc.Host] {
			continue
		}
		have := chosen[svc.Host]
		switch {
		case have == nil, svc.Namespace == b.ns:
			chosen[svc.Host] = svc
		case b.view.Flags.UnifiedSidecarScope && svc.Kubernetes && !have.Kubernetes && have.Namespace != b.ns:
			chosen[svc.Host] = svc
		}
	}
	if len(chosen) == 0 {
		return services
	}
	return slices.DeleteFunc(services, func(svc *Service) bool {
		winner := chosen[svc.Host]
		if winner == nil || winner.Namespace == svc.Namespace {
			return false
		}
		b.turnAway(l, svc.Service, "SC-14", "host-shadowed", "the service of the same host name in namespace "+winner.Namespace+" is taken instead")
		return true
	})
}

// hostReasons words why an entry of a listener imports a service, once for
// each entry; a router's reason needs no listener.
func (b *importer) hostReasons(l *EgressListener) func(*mesh.Service, int) result.ReasonID {
	if b.from != fromSidecar {
		why := b.rec.Included(result.Reason{Rule: "SC-4", Word: "visible",
			Text: "a gateway gets every service that is visible to its namespace; Sidecars do not narrow it"})
		return func(svc *mesh.Service, _ int) result.ReasonID { return b.becauseVisible(svc, why) }
	}
	if b.sidecar == nil {
		why := b.rec.Included(result.Reason{Rule: "SC-2", Word: "default-scope",
			Text: "no Sidecar applies: istiod's default scope imports every visible service"})
		return func(svc *mesh.Service, _ int) result.ReasonID { return b.becauseVisible(svc, why) }
	}
	if l.Spec == nil {
		why := b.rec.Included(result.Reason{Rule: "SC-5", Word: "sidecar-hosts", Object: b.sidecar.Ref(), Field: "spec.egress",
			Text: "the Sidecar has no egress: it imports every visible service, as */* would"})
		return func(*mesh.Service, int) result.ReasonID { return why }
	}
	ids := map[int]result.ReasonID{}
	return func(_ *mesh.Service, entry int) result.ReasonID {
		id, ok := ids[entry]
		if !ok {
			id = b.rec.Included(result.Reason{Rule: "SC-9", Word: "sidecar-hosts", Object: b.sidecar.Ref(), Field: egressField(l.Index, entry),
				Text: "egress host " + strconv.Quote(l.Spec.GetHosts()[entry]) + " imports it"})
			ids[entry] = id
		}
		return id
	}
}
