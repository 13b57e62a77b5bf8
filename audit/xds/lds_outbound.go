package xds

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// OutboundListeners are the listeners that all sidecars of a scope share:
// those of services, http_proxy and virtualOutbound (LDS-1; Istio
// pilot/pkg/networking/core/listener.go). p is a proxy of the scope; its own
// pod's headless listeners are there too (Listener.OwnAddress). Sorted by name.
func (b *Builder) OutboundListeners(s *scope.Scope, p *mesh.Proxy) []*Listener {
	if b.view.Config.GetProxyListenPort() <= 0 {
		return nil
	}
	o := &outboundBuilder{
		Builder: b, s: s, p: p, entries: map[listenerKey]*listenerEntry{},
		http10: b.view.Flags.HTTP10 || p.Metadata.HTTP10, patches: b.patchesFor(p),
		shape: &listenerShape{b: b, s: s, built: p, key: b.listenerKeyOf(s, p)}, own: ownSizesOf(p),
	}
	o.shapeID = b.listeners.shapeID(o.shape.key + o.catchAllCluster() + strconv.FormatBool(allowAnyDynamicDNS(s)))
	if spec := b.tracingSpec(b.telemetries(p), outboundClass); spec != nil {
		o.conventional = spec.provider.GetOpentelemetry().GetServiceAttributeEnrichment() ==
			meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS
	}
	for _, e := range s.Egress {
		o.addEgress(e)
	}
	var out []*Listener
	for _, key := range o.keys {
		out = append(out, o.build(o.entries[key]))
	}
	out = append(out, o.httpProxy(), o.virtualOutbound())
	out = append(out, o.added()...)
	out = slices.DeleteFunc(out, func(l *Listener) bool { return l == nil })
	slices.SortStableFunc(out, func(x, y *Listener) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// outboundBuilder collects the outbound listeners of one scope.
type outboundBuilder struct {
	*Builder
	s       *scope.Scope
	p       *mesh.Proxy
	entries map[listenerKey]*listenerEntry
	keys    []listenerKey // of entries, in order of addition
	http10  bool
	patches *envoyPatches

	shape        *listenerShape
	shapeID      string // of all that listeners depend on beside their own services
	own          ownSizes
	conventional bool
}

type listenerKey struct {
	bind string
	port int
}

// binding is where a listener binds: the first address names it.
type binding struct {
	addresses []string // empty: each service decides
	toPort    bool     // a real port, not only what is redirected to the proxy
}

func (b binding) primary() string {
	if len(b.addresses) == 0 {
		return ""
	}
	return b.addresses[0]
}

// listenerEntry is a listener that services are still being added to.
type listenerEntry struct {
	port     mesh.Port
	bind     binding
	locked   bool // made for an earlier egress listener: nothing may be added
	chains   []*chain
	matched  map[string]bool // matchKey of each; nil until something is merged
	protocol mesh.Protocol
	// ownAddress is set while all that was added is for a headless endpoint.
	ownAddress string
	service    string // the host name of the first service
	several    bool   // there are more
	because    []result.ReasonID
}

// addition is one service port to be added.
type addition struct {
	service *scope.Service
	port    mesh.Port
	bind    binding
	cidrs   []string
	// endpoint is the pod address that a headless service's listener is for.
	endpoint        string
	virtualServices []*mesh.VirtualService
}

// addEgress adds what one egress listener asks for (LDS-3..5).
func (o *outboundBuilder) addEgress(e *scope.EgressListener) {
	bind := o.egressBinding(e.Spec)
	if e.CatchAll() {
		for _, key := range o.keys {
			o.entries[key].locked = true
		}
		for _, svc := range e.Services {
			for _, port := range svc.Ports {
				if !o.canBind(o.p, bind.toPort, bind.primary(), port.Number, port.Protocol, true) {
					o.rec.Excluded(svc.Host, o.reserved(port.Number))
					continue
				}
				o.addPort(addition{service: svc, port: port, bind: bind, virtualServices: e.VirtualServices})
			}
		}
		return
	}
	set := e.Spec.GetPort()
	port := mesh.Port{Name: set.GetName(), Number: int(set.GetNumber()), Protocol: mesh.ParseProtocol(set.GetProtocol())}
	if !o.canBind(o.p, bind.toPort, bind.primary(), port.Number, port.Protocol, true) {
		o.rec.Excluded(listenerName(bind.primary(), port.Number), o.reserved(port.Number))
		return
	}
	for _, svc := range e.Services {
		o.add(addition{service: svc, port: port, bind: bind, virtualServices: e.VirtualServices})
	}
}

func (o *outboundBuilder) reserved(port int) result.Reason {
	return result.Reason{Rule: "LDS-3", Text: "the proxy itself uses port " + strconv.Itoa(port) + ", or may not bind to it"}
}

func (o *outboundBuilder) egressBinding(spec *networking.IstioEgressListener) binding {
	bind := binding{toPort: o.p.Metadata.Interception == "NONE" ||
		spec.GetCaptureMode() == networking.CaptureMode_NONE || strings.HasPrefix(spec.GetBind(), unixPrefix)}
	switch {
	case spec.GetBind() != "":
		bind.addresses = []string{spec.GetBind()}
	case bind.toPort:
		bind.addresses = localhosts(o.p)
	}
	return bind
}

// addPort adds a service port of a catch-all egress listener: a headless
// service that is not HTTP gets a listener for each endpoint address (HL-1..4).
func (o *outboundBuilder) addPort(a addition) {
	svc := a.service
	headless := a.bind.primary() == "" && svc.Resolution == mesh.Passthrough &&
		svc.AddressFor(o.p) == unspecifiedIPv4 && (a.port.Protocol.IsTCP() || a.port.Protocol.IsAuto())
	if !headless {
		o.add(a)
		return
	}
	rows := o.view.EndpointsByPort(svc.Service, a.port.Number)
	if !svc.Kubernetes && len(rows) == 0 && svc.Selector == nil {
		o.add(a)
		return
	}
	if len(rows) == 0 {
		o.rec.Excluded(svc.Host, result.Reason{Rule: "HL-2", Object: svc.Ref, Text: "headless and without endpoints: no listener"})
	}
	for _, row := range rows {
		addresses := endpointAddresses(row)
		if slices.ContainsFunc(addresses, func(address string) bool { return !isAddress(address) }) {
			continue
		}
		own := a
		own.bind.addresses, own.endpoint = addresses, addresses[0]
		o.add(own)
	}
}

// endpointAddresses are all addresses of an endpoint, the first being its own.
func endpointAddresses(e *mesh.Endpoint) []string { return append([]string{e.Address}, e.Extra...) }
