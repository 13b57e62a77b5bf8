package scope

import (
	"slices"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// destination is a host that a VirtualService leads to.
type destination struct {
	host string
	// ports that its destinations name; nil: some name none, so all ports count.
	ports []int
	field string // of the first destination
}

// destinationsOf are the hosts that a VirtualService leads to, by route, mirror
// or mirrors, each once (SC-16; Istio virtualServiceDestinations). With a
// client namespace, http routes that only match other sourceNamespaces are left
// out; an empty one leaves out none.
func (v *virtualServices) destinationsOf(vs *mesh.VirtualService, clientNs string) []destination {
	if clientNs != "" && !slices.ContainsFunc(vs.Spec.GetHttp(), namesSourceNamespace) {
		clientNs = ""
	}
	if clientNs != "" {
		return collectDestinations(vs.Spec, clientNs)
	}
	known, ok := v.destinations[vs]
	if !ok {
		known = collectDestinations(vs.Spec, "")
		v.destinations[vs] = known
	}
	return known
}

func namesSourceNamespace(route *networking.HTTPRoute) bool {
	return slices.ContainsFunc(route.GetMatch(), func(m *networking.HTTPMatchRequest) bool { return m.GetSourceNamespace() != "" })
}

// servesNamespace reports an http route that may match requests from a
// namespace. istiod looks at the matches in order: one that names the
// namespace decides at once, one that names another counts unless such follows.
func servesNamespace(route *networking.HTTPRoute, ns string) bool {
	serves := true
	for _, m := range route.GetMatch() {
		switch m.GetSourceNamespace() {
		case "":
		case ns:
			return true
		default:
			serves = false
		}
	}
	return serves
}

func collectDestinations(spec *networking.VirtualService, clientNs string) []destination {
	c := destinationCollector{at: map[string]int{}}
	for i, route := range spec.GetHttp() {
		if clientNs != "" && !servesNamespace(route, clientNs) {
			continue
		}
		field := "spec.http[" + strconv.Itoa(i) + "]"
		for j, r := range route.GetRoute() {
			c.add(r.GetDestination(), field, "route", j)
		}
		c.add(route.GetMirror(), field, "mirror", -1)
		for j, m := range route.GetMirrors() {
			c.add(m.GetDestination(), field, "mirrors", j)
		}
	}
	for i, route := range spec.GetTcp() {
		for j, r := range route.GetRoute() {
			c.add(r.GetDestination(), "spec.tcp["+strconv.Itoa(i)+"]", "route", j)
		}
	}
	for i, route := range spec.GetTls() {
		for j, r := range route.GetRoute() {
			c.add(r.GetDestination(), "spec.tls["+strconv.Itoa(i)+"]", "route", j)
		}
	}
	return c.out
}

type destinationCollector struct {
	out []destination
	at  map[string]int
}

func (c *destinationCollector) add(d *networking.Destination, route, list string, index int) {
	if d == nil {
		return
	}
	port := int(d.GetPort().GetNumber())
	i, known := c.at[d.GetHost()]
	if !known {
		field := route + "." + list + ".host"
		if index >= 0 {
			field = route + "." + list + "[" + strconv.Itoa(index) + "].destination.host"
		}
		c.at[d.GetHost()] = len(c.out)
		c.out = append(c.out, destination{host: d.GetHost(), field: field})
		if port != 0 {
			c.out[len(c.out)-1].ports = []int{port}
		}
		return
	}
	have := &c.out[i]
	switch {
	case port == 0:
		have.ports = nil
	case have.ports != nil && !slices.Contains(have.ports, port):
		have.ports = append(have.ports, port)
	}
}

// pullIn adds the services that the listener's VirtualServices lead to, with
// the ports that they name, after what the listener asks for itself (SC-16 … SC-18).
func (b *importer) pullIn(l *EgressListener) {
	for _, vs := range l.VirtualServices {
		for _, d := range b.virtualServices.destinationsOf(vs, b.ns) {
			svc := b.view.Service(d.host, b.ns)
			if svc == nil {
				svc = b.pick(d.host)
			}
			if svc == nil {
				continue
			}
			ports := destinationPorts(svc, d)
			if l.MatchesPort() {
				ports = portsNumbered(svc.Ports, int(l.Spec.GetPort().GetNumber()))
			}
			if ports == nil && (l.MatchesPort() || d.ports != nil && len(svc.Ports) > 0) {
				if b.explains {
					b.rec.Excluded(svc.Host, result.Reason{Rule: "SC-18", Word: "virtualservice-destination", Object: vs.Ref(), Field: d.field,
						Text: "no port that the destination names is one of the service's: it is not brought in"})
				}
				continue
			}
			b.add(b.pulled(svc, ports, vs, d))
		}
	}
}

// pulled is a service that a VirtualService's destination brings in; one that
// the scope already has whole is not made again.
func (b *importer) pulled(svc *mesh.Service, ports []mesh.Port, vs *mesh.VirtualService, d destination) *Service {
	if at, ok := b.position[svc.Host]; ok {
		if have := b.services[at]; have.Service == svc && samePorts(have.Ports, svc.Ports) {
			return have
		}
	}
	return &Service{Service: svc, Ports: ports, Aliases: svc.Aliases, Pulled: true, Because: b.rec.Included(result.Reason{
		Rule: "SC-16", Word: "virtualservice-destination", Object: vs.Ref(), Field: d.field,
		Text: "VirtualService " + vs.Namespace + "/" + vs.Name + " leads to it: it gets clusters, but no listener, virtual host or DNS entry"})}
}

// destinationPorts are the service's ports that a destination names: all if it
// names none, nil if it has none of them.
func destinationPorts(svc *mesh.Service, d destination) []mesh.Port {
	if d.ports == nil {
		return svc.Ports
	}
	var ports []mesh.Port
	for _, p := range svc.Ports {
		if slices.Contains(d.ports, p.Number) {
			ports = append(ports, p)
		}
	}
	if len(ports) == len(svc.Ports) {
		return svc.Ports
	}
	return ports
}

// pick chooses the namespace of a host that the client's own namespace has not:
// a visible Kubernetes service, else the oldest visible one (SC-17). Without
// PILOT_SIDECAR_PICK_BEST_SERVICE_NAMESPACE the alphabet decides.
func (b *importer) pick(host string) *mesh.Service {
	var best *mesh.Service
	for _, svc := range b.visible.indexed(host) {
		if !b.visible.visible(svc, b.ns) {
			continue
		}
		switch {
		case best == nil:
			best = svc
		case b.view.Flags.PickBestServiceNamespace:
			if svc.Kubernetes && !best.Kubernetes || svc.Kubernetes == best.Kubernetes && svc.Created < best.Created {
				best = svc
			}
		case svc.Namespace < best.Namespace:
			best = svc
		}
	}
	return best
}
