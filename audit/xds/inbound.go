package xds

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// inboundPort is what the filter chains of one port of a workload are made from.
type inboundPort struct {
	cluster     string
	port        mesh.Port // of the service or ingress listener; number 0: passthrough
	target      int       // the port that the workload listens on; 0: any
	bind        []string
	toPort      bool // a listener of its own
	passthrough bool
	service     *mesh.Service // that a service port belongs to
	host        string        // service host, or "<sidecar>.<namespace>"
	tls         *networking.ServerTLSSettings
	sidecar     *snapshot.Meta // of an ingress listener
	origin      chainOrigin
	because     result.ReasonID
}

// inboundBuilder makes the inbound listeners of one proxy.
type inboundBuilder struct {
	*Builder
	s       *scope.Scope
	p       *mesh.Proxy
	mtls    mesh.WorkloadMTLS
	ports   []*inboundPort
	patches *envoyPatches
}

// InboundListeners are virtualInbound and the listeners of Sidecar ingress that
// bind to a port (IN-4..6; Istio
// pilot/pkg/networking/core/listener_inbound.go).
func (b *Builder) InboundListeners(s *scope.Scope, p *mesh.Proxy) []*result.Resource {
	if b.view.Config.GetProxyListenPort() <= 0 {
		return nil
	}
	in := &inboundBuilder{Builder: b, s: s, p: p, mtls: b.view.WorkloadMTLS(p.Namespace, p.Labels), patches: b.patchesFor(p)}
	in.ports = in.inboundPorts()
	if virtual, ok := in.sharedVirtual(); ok {
		return []*result.Resource{virtual}
	}
	var out []*result.Resource
	for _, port := range in.ports {
		if port.toPort {
			chains := in.chains(port)
			l := in.listener(listenerName(port.bind[0], port.target), port.bind, port.target, true, chains)
			out = append(out, in.resource(l, chains.origins, append([]result.ReasonID{port.because}, in.policyReasons(in.p, inboundClass)...)))
		}
	}
	if p.Metadata.Interception != "NONE" {
		l, origins, _ := in.virtual()
		virtual := in.resource(l, origins, in.reasons())
		in.bind(virtual)
		out = append(out, virtual)
	}
	for _, a := range b.addedListeners(in.patches, networking.EnvoyFilter_SIDECAR_INBOUND) {
		added := &result.Resource{
			Name: a.listener.Name, Bytes: int64(proto.Size(a.listener)),
			Parts: b.digests.listenerPartsOf(a.listener, a.origins()), Digest: b.digests.listener(a.listener), Because: []result.ReasonID{b.rec.Included(a.reason())},
		}
		b.noteExtensions(added, a.listener)
		out = append(out, added)
	}
	out = slices.DeleteFunc(out, func(r *result.Resource) bool { return r == nil })
	slices.SortStableFunc(out, func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
	return out
}

// virtual makes virtualInbound; ports has the index of the port that a chain is
// for, nothing for those that take what no port does.
func (in *inboundBuilder) virtual() (l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin, ports map[*listenerv3.FilterChain]int) {
	all := in.passthroughChains()
	ports = map[*listenerv3.FilterChain]int{}
	for i, port := range in.ports {
		if port.toPort {
			continue
		}
		chains := in.chains(port)
		for _, fc := range chains.list {
			ports[fc] = i
		}
		all.add(chains)
	}
	number := int(in.view.Config.GetProxyInboundListenPort())
	return in.listener(virtualInboundName, wildcards(in.p), number, false, all), all.origins, ports
}

// bind tells the address of virtualInbound; nil: a patch removes it.
func (in *inboundBuilder) bind(virtual *result.Resource) {
	if virtual != nil {
		virtual.Address = boundTo(wildcards(in.p), int(in.view.Config.GetProxyInboundListenPort()))
	}
}

func (in *inboundBuilder) reasons() []result.ReasonID {
	ids := []result.ReasonID{in.rec.Included(result.Reason{Rule: "IN-6", Text: "traffic is redirected to the proxy"})}
	for _, port := range in.ports {
		if !port.toPort && !slices.Contains(ids, port.because) {
			ids = append(ids, port.because)
		}
	}
	return append(ids, in.policyReasons(in.p, inboundClass)...)
}

// resource patches a listener; nil: a patch removes it.
func (in *inboundBuilder) resource(l *listenerv3.Listener, origins map[*listenerv3.FilterChain]chainOrigin, because []result.ReasonID) *result.Resource {
	because = append(because, in.listenerPatches(l, in.patches, networking.EnvoyFilter_SIDECAR_INBOUND)...)
	l, origins = in.patchListener(l, origins, in.patches, networking.EnvoyFilter_SIDECAR_INBOUND)
	if l == nil {
		return nil
	}
	r := &result.Resource{
		Name:    l.Name,
		Bytes:   int64(proto.Size(l)),
		Parts:   in.digests.listenerPartsOf(l, origins),
		Digest:  in.digests.listener(l),
		Because: because,
	}
	in.noteExtensions(r, l)
	return r
}

// inboundPorts are the ports that have chains, by target port: those of the
// Sidecar's ingress, else those of services (IN-1, IN-2).
func (in *inboundBuilder) inboundPorts() []*inboundPort {
	var ingress []*networking.IstioIngressListener
	if in.s.Sidecar != nil {
		ingress = in.s.Sidecar.Spec.GetIngress()
	}
	byTarget := map[int]*inboundPort{}
	merge := in.view.Flags.SidecarInboundMerge
	if len(ingress) == 0 && in.p.Metadata.Interception != "NONE" || len(ingress) > 0 && merge {
		in.servicePorts(byTarget, ingress)
	}
	for i, listener := range ingress {
		in.ingressPort(byTarget, i, listener)
	}
	var out []*inboundPort
	for _, port := range byTarget {
		out = append(out, port)
	}
	slices.SortFunc(out, func(x, y *inboundPort) int { return cmp.Compare(x.target, y.target) })
	return out
}

// servicePorts adds the service ports that lead to the workload; the first
// service on a target port decides.
func (in *inboundBuilder) servicePorts(byTarget map[int]*inboundPort, ingress []*networking.IstioIngressListener) {
	binds := wildcards(in.p)
	toPort := in.p.Metadata.Interception == "NONE"
	for _, t := range in.p.Targets {
		if !in.canBind(in.p, toPort, binds[0], t.TargetPort, t.Port.Protocol, true) {
			in.rec.Excluded(t.Service.Host, result.Reason{Rule: "IN-4", Object: t.Service.Ref,
				Text: "the proxy itself uses port " + strconv.Itoa(t.TargetPort)})
			continue
		}
		if slices.ContainsFunc(ingress, func(l *networking.IstioIngressListener) bool {
			return int(l.GetPort().GetNumber()) == t.TargetPort
		}) {
			continue
		}
		if first := byTarget[t.TargetPort]; first != nil {
			if first.host != t.Service.Host {
				in.rec.Excluded(t.Service.Host, result.Reason{Rule: "IN-4", Object: t.Service.Ref,
					Text: "port " + strconv.Itoa(t.TargetPort) + " belongs to " + first.host})
			}
			continue
		}
		byTarget[t.TargetPort] = &inboundPort{
			cluster: inboundName(t.TargetPort), port: t.Port, target: t.TargetPort, bind: binds, toPort: toPort,
			service: t.Service, host: t.Service.Host,
			origin: chainOrigin{by: t.Service.Ref, service: t.Service.Host},
			because: in.rec.Included(result.Reason{Rule: "IN-2", Object: t.Service.Ref,
				Text: "the service leads to the workload"}),
		}
	}
}

// ingressPort adds an ingress listener of the Sidecar.
func (in *inboundBuilder) ingressPort(byTarget map[int]*inboundPort, i int, listener *networking.IstioIngressListener) {
	sidecar := in.s.Sidecar
	number := int(listener.GetPort().GetNumber())
	port := &inboundPort{
		cluster: inboundName(number),
		port:    mesh.Port{Name: listener.GetPort().GetName(), Number: number, Protocol: mesh.ParseProtocol(listener.GetPort().GetProtocol())},
		target:  number,
		host:    sidecar.Name + "." + sidecar.Namespace,
		sidecar: &sidecar.Meta,
		origin:  chainOrigin{by: sidecar.Ref()},
	}
	switch listener.GetCaptureMode() {
	case networking.CaptureMode_DEFAULT:
		port.toPort = in.p.Metadata.Interception == "NONE"
	case networking.CaptureMode_NONE:
		port.toPort = true
	}
	field := "spec.ingress[" + strconv.Itoa(i) + "]"
	if !in.canBind(in.p, port.toPort, listener.GetBind(), number, port.port.Protocol, false) {
		in.rec.Excluded(listenerName(listener.GetBind(), number), result.Reason{Rule: "IN-4", Object: sidecar.Ref(), Field: field,
			Text: "the proxy itself uses port " + strconv.Itoa(number) + ", or may not bind to it"})
		return
	}
	port.bind = []string{listener.GetBind()}
	if listener.GetBind() == "" {
		port.bind = ingressBinds(in.p)
	}
	if byTarget[number] != nil {
		in.rec.Excluded(listenerName(port.bind[0], number), result.Reason{Rule: "IN-4", Object: sidecar.Ref(), Field: field,
			Text: "port " + strconv.Itoa(number) + " belongs to " + byTarget[number].host})
		return
	}
	if listener.GetTls() != nil && in.view.Flags.TLSOnSidecarIngress {
		port.tls = listener.GetTls()
		port.port.Protocol = afterTLS(port.port.Protocol)
	}
	port.because = in.rec.Included(result.Reason{Rule: "IN-1", Object: sidecar.Ref(), Field: field, Text: "the Sidecar's ingress listener"})
	byTarget[number] = port
}

// afterTLS is the protocol inside TLS.
func afterTLS(p mesh.Protocol) mesh.Protocol {
	switch p {
	case mesh.HTTPS:
		return mesh.HTTP
	case mesh.TLS:
		return mesh.TCP
	}
	return p
}

// ingressBinds are where an ingress listener without a bind listens: the pod's
// global unicast address, else the wildcards (IN-6).
func ingressBinds(p *mesh.Proxy) []string {
	for _, ip := range p.IPs {
		if addr, err := netip.ParseAddr(ip); err == nil && addr.IsGlobalUnicast() {
			return []string{addr.String()}
		}
	}
	return wildcards(p)
}

// listener makes an inbound listener (SIZE-18).
func (in *inboundBuilder) listener(name string, addresses []string, port int, toPort bool, chains *inboundChains) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name:                                 name,
		Address:                              buildAddress(addresses[0], port),
		TrafficDirection:                     corev3.TrafficDirection_INBOUND,
		ContinueOnListenerFiltersTimeout:     true,
		MaxConnectionsToAcceptPerSocketEvent: in.maxConnections(),
		AccessLog:                            in.listenerAccessLog(in.p, inboundClass),
		FilterChains:                         chains.list,
		ListenerFiltersTimeout:               in.view.Config.GetProtocolDetectionTimeout(),
	}
	if in.view.Flags.DualStack && len(addresses) > 1 {
		l.AdditionalAddresses = additionalAddresses(addresses[1:], port)
	}
	if isTrue(in.p.Metadata.Raw["INBOUND_LISTENER_EXACT_BALANCE"]) {
		l.ConnectionBalanceConfig = exactBalance()
	}
	transparent := !toPort && in.p.Metadata.Interception == "TPROXY"
	if transparent {
		l.Transparent = wrapperspb.Bool(true)
	}
	if !toPort {
		l.ListenerFilters = append(l.ListenerFilters, originalDst)
	}
	if transparent {
		l.ListenerFilters = append(l.ListenerFilters, originalSrc)
	}
	l.ListenerFilters = append(l.ListenerFilters, inspectors(chains.list)...)
	return l
}
