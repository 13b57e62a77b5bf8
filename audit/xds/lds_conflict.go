package xds

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// conflict is what happens when a service port meets a listener that is there.
type conflict uint8

const (
	noConflict conflict = iota
	httpOverTCP
	tcpOverHTTP
	tcpOverTCP
	tcpOverAuto
	autoOverHTTP
	autoOverTCP
)

// add puts a service port into the listener of its address and port (LDS-6,
// LDS-9; Istio listener.go buildSidecarOutboundListener).
func (o *outboundBuilder) add(a addition) {
	if a.service.Resolution == mesh.Alias {
		return
	}
	if !o.resolveAddress(&a) {
		return
	}
	key := listenerKey{a.bind.primary(), a.port.Number}
	current := o.entries[key]
	if current != nil && current.locked {
		o.rec.Excluded(a.service.Host, result.Reason{Rule: "LDS-5", Text: "an earlier egress listener has " + listenerName(key.bind, key.port)})
		return
	}
	chains, protocol, kind, ok := o.chainsFor(a, current)
	if !ok {
		if a.port.Protocol.IsHTTP() {
			o.serve(current, a)
		} else {
			o.rec.Excluded(a.service.Host, result.Reason{Rule: "LDS-9", Object: a.service.Ref,
				Text: "another service has " + listenerName(key.bind, key.port)})
		}
		return
	}
	if current != nil && kind != noConflict && wellKnownConflict(a.port.Protocol, current.protocol) {
		o.rec.Excluded(a.service.Host, result.Reason{Rule: "LDS-9", Object: a.service.Ref,
			Text: string(a.port.Protocol) + " may not share " + listenerName(key.bind, key.port) + " with " + string(current.protocol)})
		return
	}
	switch kind {
	case noConflict, autoOverHTTP:
		entry := &listenerEntry{port: a.port, bind: a.bind, chains: chains, protocol: protocol, ownAddress: a.endpoint}
		o.serve(entry, a)
		if current == nil {
			o.keys = append(o.keys, key)
		}
		o.entries[key] = entry
	default:
		o.merge(current, chains, a)
		if kind == httpOverTCP || kind == tcpOverHTTP || kind == autoOverTCP {
			current.protocol = mesh.Unsupported
		}
	}
}

// serve notes that a listener is there for a service.
func (o *outboundBuilder) serve(e *listenerEntry, a addition) {
	host := a.service.Host
	switch e.service {
	case "":
		e.service = host
	case host:
	default:
		e.several = true
	}
	e.reason(a.service.Because)
	if a.endpoint == "" {
		e.ownAddress = ""
		return
	}
	e.reason(o.rec.Included(result.Reason{Rule: "HL-1", Object: a.service.Ref, Text: "headless: each endpoint address has a listener"}))
}

func (e *listenerEntry) reason(id result.ReasonID) {
	if !slices.Contains(e.because, id) {
		e.because = append(e.because, id)
	}
}

// resolveAddress sets where a service without a bind of the egress listener
// listens; false: the protocol has no listeners.
func (o *outboundBuilder) resolveAddress(a *addition) bool {
	http := a.port.Protocol.IsHTTP()
	if !http && !a.port.Protocol.IsTCP() && !a.port.Protocol.IsAuto() {
		return false
	}
	if a.bind.primary() != "" {
		return true
	}
	if http {
		a.bind.addresses = wildcards(o.p)
		return true
	}
	svc := a.service
	address := svc.AddressFor(o.p)
	var extra []string
	if all := svc.AddressesFor(o.p); len(all) > 1 {
		extra = slices.Clone(all[1:])
	}
	if !svc.Kubernetes && address == unspecifiedIPv4 && o.p.IPv6 {
		if o.p.IPv4 {
			extra = append(extra, unspecifiedIPv6)
		} else {
			address = unspecifiedIPv6
		}
	}
	switch {
	case address == "":
	case strings.Contains(address, "/"):
		a.bind.addresses = wildcards(o.p)
		a.cidrs = append([]string{address}, extra...)
	default:
		a.bind.addresses = append([]string{address}, extra...)
	}
	return true
}

// chainsFor builds what a service port adds, the protocol that its listener
// then has, and how that meets the current one; false: nothing is added.
func (o *outboundBuilder) chainsFor(a addition, current *listenerEntry) ([]*chain, mesh.Protocol, conflict, bool) {
	protocol := a.port.Protocol
	switch {
	case protocol == mesh.HTTPProxy:
		return []*chain{o.httpChain(a)}, protocol, noConflict, true
	case protocol.IsHTTP():
		kind := noConflict
		if current != nil {
			if !current.protocol.IsTCP() {
				return nil, "", 0, false
			}
			kind = httpOverTCP
		}
		c := o.httpChain(a)
		if a.bind.primary() == wildcards(o.p)[0] {
			o.sniffed(c)
			protocol = mesh.Unsupported
		}
		return []*chain{c}, protocol, kind, true
	case protocol.IsTCP():
		kind := noConflict
		switch {
		case current == nil:
		case current.protocol.IsHTTP():
			kind = tcpOverHTTP
		case current.protocol.IsTCP():
			kind = tcpOverTCP
		default:
			kind = tcpOverAuto
		}
		return o.tcpChains(a), protocol, kind, true
	}
	kind := noConflict
	switch {
	case current == nil:
	case current.protocol.IsHTTP():
		kind = autoOverHTTP
	case current.protocol.IsTCP():
		kind = autoOverTCP
	default:
		return nil, "", 0, false
	}
	c := o.httpChain(a)
	o.sniffed(c)
	return append(o.tcpChains(a), c), protocol, kind, true
}

// sniffed lets a chain take only what looks like HTTP in clear text (LDS-8).
func (o *outboundBuilder) sniffed(c *chain) {
	c.alpn = append(c.alpn, plainHTTPALPNs(o.view.Flags.HTTP10)...)
	c.transport = rawBuffer
}

// plainHTTPALPNs are what the HTTP inspector tells of HTTP in clear text.
func plainHTTPALPNs(http10 bool) []string {
	if http10 {
		return []string{"http/1.0", "http/1.1", "h2c"}
	}
	return []string{"http/1.1", "h2c"}
}

// httpChain is a connection manager for a service port (LDS-7, RDS-1).
func (o *outboundBuilder) httpChain(a addition) *chain {
	bind := a.bind.primary()
	rds := strconv.Itoa(a.port.Number)
	shared := true
	switch {
	case a.port.Number == 0:
		rds = bind
	case a.port.Protocol.IsAuto() && bind != wildcards(o.p)[0]:
		rds, shared = a.service.Host+":"+rds, false
	}
	c := &chain{http: &httpChain{rds: rds, protocol: a.port.Protocol}, key: "rds " + rds}
	if a.port.Protocol == mesh.GRPCWeb {
		c.key = "grpc-web " + rds
	}
	if o.dynamicWildcard(a.service.Service) {
		c.http.service, c.key = a.service.Service, ""
	}
	if !shared {
		c.origin.service = a.service.Host
	}
	return c
}

// wellKnownConflict reports protocols whose servers speak first: they share a
// port with their own kind only.
func wellKnownConflict(incoming, existing mesh.Protocol) bool {
	speaksFirst := func(p mesh.Protocol) bool { return p == mesh.Mongo || p == mesh.MySQL }
	return (speaksFirst(incoming) || speaksFirst(existing)) && incoming != existing
}

// merge adds the chains that no chain there conflicts with.
func (o *outboundBuilder) merge(current *listenerEntry, incoming []*chain, a addition) {
	if current.matched == nil {
		current.matched = map[string]bool{}
		for _, c := range current.chains {
			current.matched[c.matchKey()] = true
		}
	}
	for _, c := range incoming {
		key := c.matchKey()
		if current.matched[key] {
			o.rec.Excluded(a.service.Host, result.Reason{Rule: "LDS-9", Object: a.service.Ref,
				Text: "a chain of " + listenerName(current.bind.primary(), current.port.Number) + " already matches the same connections (" +
					current.service + ")"})
			continue
		}
		current.matched[key] = true
		current.chains = append(current.chains, c)
		o.serve(current, a)
	}
}
