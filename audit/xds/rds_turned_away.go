package xds

import (
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// tellHosts tells which services and VirtualService hosts have no virtual host
// in the routes of a port, and why.
func (b *Builder) tellHosts(x *listenerIndex, ps *portServices) {
	if !scope.Explains(b.rec) {
		return
	}
	b.tellProtocols(ps)
	b.tellOtherListeners(x, ps)
	if ps.port == 80 {
		return
	}
	for _, vs := range x.VirtualServices {
		if b.matches(ps, vs) {
			continue
		}
		for _, host := range vs.Spec.GetHosts() {
			b.rec.Excluded(b.hostKey(host), result.Reason{
				Rule: "RDS-4", Word: "unknown-host-port-80", Object: vs.Ref(), Field: "spec.hosts",
				Text: ps.routes() + " have no service that a host of this VirtualService names; without one its hosts are routed on port 80 only",
			})
		}
	}
}

// routes names the route configuration in a text.
func (ps *portServices) routes() string {
	if ps.port == 0 {
		return "the routes for all ports"
	}
	return "the routes of port " + strconv.Itoa(ps.port)
}

// tellProtocols tells which services have the port for something else than HTTP.
func (b *Builder) tellProtocols(ps *portServices) {
	for _, svc := range ps.list {
		if svc.Resolution == mesh.Alias {
			continue
		}
		for _, port := range ps.ports(svc) {
			if port.Protocol.IsHTTP() || port.Protocol.IsAuto() {
				continue
			}
			word := "protocol-tcp"
			if !port.Protocol.IsTCP() {
				word = "protocol-" + strings.ToLower(string(port.Protocol))
			}
			b.rec.Excluded(b.hostKey(svc.Host), result.Reason{
				Rule: "RDS-5", Word: word, Object: svc.Ref, Field: "spec.ports",
				Text: ps.routes() + " leave out a port that is declared " + string(port.Protocol),
			})
		}
	}
}

// tellOtherListeners tells which services another egress listener imports with
// the port, while this one alone makes the port's routes (RDS-3).
func (b *Builder) tellOtherListeners(x *listenerIndex, ps *portServices) {
	current := &b.routes.current
	if ps.port == 0 || x.CatchAll() || current.scope.Sidecar == nil {
		return
	}
	for _, other := range current.scope.Egress {
		if other == x.EgressListener {
			continue
		}
		for _, svc := range other.Services {
			if svc.Port(ps.port) == nil || ps.byHost[b.hostKey(svc.Host)] != nil {
				continue
			}
			b.rec.Excluded(b.hostKey(svc.Host), result.Reason{
				Rule: "RDS-3", Word: "sidecar-egress-port", Object: current.scope.Sidecar.Ref(),
				Field: "spec.egress[" + strconv.Itoa(x.Index) + "].port",
				Text:  "the egress listener with port " + strconv.Itoa(ps.port) + " alone makes the routes of that port; this service comes by spec.egress[" + strconv.Itoa(other.Index) + "]",
			})
		}
	}
}

// tellNoRoutes tells that a VirtualService has no route left for the proxy, so
// that its services keep their default routes.
func (b *Builder) tellNoRoutes(ps *portServices, vs *mesh.VirtualService) {
	if !scope.Explains(b.rec) {
		return
	}
	for _, host := range vs.Spec.GetHosts() {
		b.rec.Excluded(b.hostKey(host), result.Reason{
			Rule: "RDS-5", Word: "no-route", Object: vs.Ref(), Field: "spec.http",
			Text: ps.routes() + ": no http route is for this proxy by port, gateways, sourceLabels and sourceNamespace",
		})
	}
}

// tellTaken tells that another virtual host has the name already.
func (b *Builder) tellTaken(g *hostGroup, host string) {
	if !scope.Explains(b.rec) {
		return
	}
	b.rec.Excluded(host, result.Reason{
		Rule: "RDS-5", Word: "host-shadowed", Object: g.by,
		Text: "an older VirtualService, or the service itself, already has the virtual host " + hostPort(host, g.port),
	})
}

// delegateReasons name the delegates whose routes a VirtualService has (VIS-6).
func (b *Builder) delegateReasons(vs *mesh.VirtualService) []result.ReasonID {
	if len(vs.Delegates) == 0 {
		return nil
	}
	var out []result.ReasonID
	seen := map[result.Ref]bool{}
	for i := range vs.Spec.GetHttp() {
		meta := vs.Delegates[i]
		if meta == nil || seen[meta.Ref()] {
			continue
		}
		seen[meta.Ref()] = true
		out = append(out, b.rec.Included(result.Reason{
			Rule: "VIS-6", Word: "delegate", Object: meta.Ref(), Field: "spec.http",
			Text: "its http routes take the place of a delegate route of VirtualService " + vs.Namespace + "/" + vs.Name,
		}))
	}
	return out
}
