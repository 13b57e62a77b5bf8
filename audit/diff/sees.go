package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Names that istiod gives to clusters, listeners and matches of its own
// (Istio pilot/pkg/util/network, pilot/pkg/networking/util).
const (
	passthroughCluster = "PassthroughCluster"
	blackHoleCluster   = "BlackHoleCluster"
	virtualOutbound    = "virtualOutbound"
	virtualInbound     = "virtualInbound"
)

// What callers see, in Envoy's words where it has any (response flags of
// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage).
const (
	seesNoCluster   = "503 NC (the route leads to a cluster that is gone)"
	seesNoClusterL4 = "connection closed (the chain leads to a cluster that is gone)"
	seesNoRoute     = "404 NR"
	seesNoHost      = "503 UH (no endpoint)"
	seesNoHostL4    = "connection closed (no endpoint)"
	seesNoChain     = "connection closed (no filter chain matches)"
	seesNoListener  = "connection refused (nothing listens)"
	seesPassthrough = "passthrough: forwarded as it is to the original address, without the mesh's routes, policy or mTLS"
	seesReset       = "connection reset: passthrough sends plaintext, the service demands STRICT mTLS"
	seesBlackHole   = "connection closed by outboundTrafficPolicy REGISTRY_ONLY"
	seesBlackHole7  = "502 by outboundTrafficPolicy REGISTRY_ONLY"
	seesPlaintext   = "connection reset for plaintext callers (STRICT mTLS)"
)

// sees tells what callers see, on the head, of what is lost; empty: nothing, or
// it is not known. A loss is harmless where nothing leads to it any more, or
// what leads there is served as well.
func (c *comparer) sees(x *pairView, f *found) (sees string, harmless bool) {
	if !f.Loses() {
		return "", false
	}
	if f.Kind == result.Lost || len(f.LostDomains) > 0 {
		sees, harmless = c.seesLoss(x, f)
	}
	if len(f.Fails) == 0 {
		return sees, harmless
	}
	said := slices.Clone(f.Fails)
	if sees != "" {
		said = append(said, sees)
	}
	return strings.Join(said, "; "), false
}

func (c *comparer) seesLoss(x *pairView, f *found) (sees string, harmless bool) {
	switch f.Type {
	case "cds", "eds":
		sees = c.refs(x.head).withoutCluster(f.Resource, len(f.After) > 0)
		return sees, sees == ""
	case "rds":
		return c.withoutName(x, f, c.seesRoutes(x, f))
	case "lds":
		if f.Part != nil && (f.Resource == virtualInbound || len(named(*x.base.shared("lds"), f.Resource)) == 0) {
			sees = plaintextRefused(f)
			return sees, sees == ""
		}
		return c.withoutName(x, f, c.seesListener(x, f))
	}
	return "", false
}

// outcome is what callers see of a loss.
type outcome struct {
	sees     string
	harmless bool
}

// seesRoutes tells of a lost route configuration or virtual host, or of lost
// domains of one.
func (c *comparer) seesRoutes(x *pairView, f *found) outcome {
	if by, ok := c.servedBy(x, f, configPort(f.Resource)); ok {
		return by
	}
	if len(x.head.find("rds", f.Resource)) > 0 {
		return c.withoutHosts(x, f)
	}
	if !x.head.isRouter() {
		return c.passed(x, f, x.head.withoutListener("_"+configPort(f.Resource)))
	}
	for _, l := range *x.base.shared("lds") {
		leads := func(p result.Part) bool { return slices.Contains(p.To, "rds "+f.Resource) }
		if slices.ContainsFunc(l.Parts, leads) && len(x.head.find("lds", l.Name)) > 0 {
			return outcome{sees: x.head.withoutChain(l.Name)}
		}
	}
	return outcome{sees: seesNoListener}
}

// seesListener tells of a lost outbound listener or gateway's listener, or of a
// lost chain of one.
func (c *comparer) seesListener(x *pairView, f *found) outcome {
	if by, ok := c.servedBy(x, f, portOf(f.Resource)); ok {
		return by
	}
	switch {
	case f.Part != nil:
		return c.passed(x, f, x.head.withoutChain(f.Resource))
	case x.head.isRouter():
		return outcome{sees: seesNoListener}
	}
	return c.passed(x, f, x.head.withoutListener(f.Resource))
}

// portOf is the port at the end of a listener's name.
func portOf(listener string) string { return listener[strings.LastIndexByte(listener, '_')+1:] }

// destinations are the hosts that parts lead to, by way of route configurations too.
func (v groupView) destinations(parts []result.Part) map[string]bool {
	hosts := map[string]bool{}
	for i := range parts {
		for _, to := range parts[i].To {
			if name, ok := strings.CutPrefix(to, "rds "); ok {
				for _, r := range v.find("rds", name) {
					for host := range v.destinations(r.Parts) {
						hosts[host] = true
					}
				}
			} else if cl, ok := parseCluster(strings.TrimPrefix(to, "cluster ")); ok {
				hosts[cl.host] = true
			}
		}
	}
	return hosts
}

// isRouter reports whether the scope is a gateway's: it redirects nothing.
func (v groupView) isRouter() bool { return len(named(*v.shared("lds"), virtualOutbound)) == 0 }

// passed turns passthrough into a reset where the services demand mTLS.
func (c *comparer) passed(x *pairView, f *found, sees string) outcome {
	if sees != seesPassthrough {
		return outcome{sees: sees}
	}
	var strict, mixed, others []string
	for _, host := range c.passedTo(x, f) {
		switch c.demands(host) {
		case "STRICT":
			strict = append(strict, host)
		case "MIXED":
			mixed = append(mixed, host)
		default:
			others = append(others, host)
		}
	}
	switch {
	case len(strict)+len(mixed) == 0:
		return outcome{sees: sees}
	case len(mixed)+len(others) == 0:
		return outcome{sees: seesReset}
	case len(strict) == 0:
		return outcome{sees: sees + "; connection reset by the endpoints of " + some(mixed) + " that demand STRICT mTLS"}
	}
	return outcome{sees: sees + "; connection reset for " + some(append(strict, mixed...)) + ", where STRICT mTLS is demanded"}
}

// demands is what the servers of a host demand of callers, on the head; where it
// is gone, on the base.
func (c *comparer) demands(host string) string {
	services := c.head.services[host]
	if len(services) == 0 {
		services = c.base.services[host]
	}
	mode := ""
	for _, s := range services {
		if mode != "" && s.MTLS != mode {
			return "MIXED"
		}
		mode = s.MTLS
	}
	return mode
}

// passedTo are the services whose own addresses something lost took: connections
// that are passed through go there, wherever routes led to before.
func (c *comparer) passedTo(x *pairView, f *found) []string {
	if f.Service != "" {
		return []string{f.Service}
	}
	hosts := map[string]bool{}
	var note func([]result.Part)
	note = func(parts []result.Part) {
		for i := range parts {
			if parts[i].Service != "" {
				hosts[parts[i].Service] = true
				continue
			}
			for _, to := range parts[i].To {
				if name, ok := strings.CutPrefix(to, "rds "); ok {
					for _, r := range x.base.find("rds", name) {
						note(r.Parts)
					}
				}
			}
		}
	}
	note(f.Before)
	if len(hosts) == 0 {
		hosts = x.base.destinations(f.Before)
	}
	return slices.Sorted(maps.Keys(hosts))
}

// withoutName adds that the name of a Service that is removed no longer
// resolves, but where the proxies resolve names themselves and know it.
func (c *comparer) withoutName(x *pairView, f *found, o outcome) (sees string, harmless bool) {
	if x.head.isRouter() {
		return o.sees, o.harmless
	}
	var names []string
	for _, host := range c.passedTo(x, f) {
		if c.nameless(host) && (len(c.head.services[host]) == 0 || len(*x.head.shared("nds")) == 0) {
			names = append(names, host)
		}
	}
	if len(names) == 0 {
		return o.sees, o.harmless
	}
	sees = "NXDOMAIN for " + some(names) + ": no Service of the name any more"
	if o.sees != "" {
		sees += "; by address: " + o.sees
	}
	return sees, false
}

// nameless reports whether a host was a Service's, whose name the cluster's DNS
// has, and no such Service is left.
func (c *comparer) nameless(host string) bool {
	was := false
	for _, svc := range c.base.services[host] {
		if svc.Ref.Kind != "Service" {
			continue
		}
		if c.head.object(objectOf(svc.Ref)) != nil {
			return false
		}
		was = true
	}
	return was
}

// some names a few of a list.
func some(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// withoutCluster says what callers see of a lost cluster, or of one that is
// there and lost its endpoints; empty: nothing leads to it.
func (r *references) withoutCluster(name string, there bool) string {
	switch {
	case there && r.routed[name]:
		return seesNoHost
	case there && r.chained[name]:
		return seesNoHostL4
	case r.routed[name]:
		return seesNoCluster
	case r.chained[name]:
		return seesNoClusterL4
	}
	return ""
}

// withoutHosts says where requests to a lost virtual host, or to lost domains
// of one, go now in the same route configuration: to the worst of it.
func (c *comparer) withoutHosts(x *pairView, f *found) outcome {
	config := x.head.find("rds", f.Resource)[0]
	same := outcome{harmless: true}
	for i := range f.Before {
		domains := f.LostDomains
		if f.Kind == result.Lost {
			domains = f.Before[i].Domains
		}
		for _, d := range domains {
			switch h := hostFor(config, d); {
			case h == nil:
				return outcome{sees: seesNoRoute}
			case catchAll(h):
				return c.passed(x, f, viaCatchAll(h))
			case !slices.Equal(h.To, f.Before[i].To):
				same = outcome{sees: "virtual host " + h.Name + " instead"}
			}
		}
	}
	return same
}

// hostFor is the virtual host that Envoy chooses for a domain: the same name,
// the longest wildcard, or *; nil: none.
func hostFor(config *result.Resource, domain string) *result.Part {
	var best *result.Part
	length := -1
	for i := range config.Parts {
		p := &config.Parts[i]
		for _, d := range p.Domains {
			switch {
			case d == domain:
				return p
			case d == "*" && length < 0:
				best, length = p, 0
			case matchesWildcard(d, domain) && len(d) > length:
				best, length = p, len(d)
			}
		}
	}
	return best
}

func matchesWildcard(pattern, domain string) bool {
	switch {
	case len(pattern) < 2:
		return false
	case pattern[0] == '*':
		return strings.HasSuffix(domain, pattern[1:])
	case pattern[len(pattern)-1] == '*':
		return strings.HasPrefix(domain, pattern[:len(pattern)-1])
	}
	return false
}

// catchAll reports whether a virtual host is the one that istiod adds for what
// no other takes (allow_any, block_all, blackhole:PORT).
func catchAll(p *result.Part) bool {
	return slices.Contains(p.Domains, "*") && (p.Name == "allow_any" || p.Name == "block_all" || strings.HasPrefix(p.Name, "blackhole:"))
}

func viaCatchAll(p *result.Part) string {
	switch {
	case slices.Contains(p.To, passthroughCluster):
		return seesPassthrough
	case slices.Contains(p.To, "direct:502"), slices.Contains(p.To, blackHoleCluster):
		return seesBlackHole7
	case slices.Contains(p.To, "direct:404"):
		return seesNoRoute
	}
	return ""
}

// withoutChain says where connections go that a lost chain of a listener took.
func (v groupView) withoutChain(listener string) string {
	found := v.find("lds", listener)
	if len(found) == 0 {
		return ""
	}
	for i := range found[0].Parts {
		if m := text(found[0].Parts[i].Match); m == "default" || m == "" {
			return v.leadsTo(&found[0].Parts[i])
		}
	}
	return seesNoChain
}

// withoutListener says where connections go that a lost outbound listener of a
// sidecar took: to the wildcard listener of the port, else to virtualOutbound.
func (v groupView) withoutListener(name string) string {
	port := portOf(name)
	for _, wildcard := range []string{"0.0.0.0_" + port, "[::]_" + port} {
		if wildcard == name {
			continue
		}
		if found := v.find("lds", wildcard); len(found) > 0 {
			for i := range found[0].Parts {
				if m := text(found[0].Parts[i].Match); m == "" || m == "default" {
					return v.leadsTo(&found[0].Parts[i])
				}
			}
			return v.withoutChain(wildcard)
		}
	}
	for _, l := range v.find("lds", virtualOutbound) {
		for i := range l.Parts {
			if text(l.Parts[i].Match) == "" {
				return v.leadsTo(&l.Parts[i])
			}
		}
	}
	return ""
}

// leadsTo says what a connection sees in a chain that was not meant for it.
func (v groupView) leadsTo(chain *result.Part) string {
	for _, to := range chain.To {
		name, isRoute := strings.CutPrefix(to, "rds ")
		switch {
		case to == "cluster "+passthroughCluster:
			return seesPassthrough
		case to == "cluster "+blackHoleCluster:
			return seesBlackHole
		case isRoute:
			for _, r := range v.find("rds", name) {
				if h := hostFor(r, "*"); h != nil {
					return viaCatchAll(h)
				}
			}
		}
	}
	return ""
}

// plaintextRefused tells of an inbound chain that took plaintext where only
// those that take TLS stay.
func plaintextRefused(f *found) string {
	if f.head == nil || !strings.Contains(*f.Part, "transport:raw_buffer") {
		return ""
	}
	destination := destinationOf(*f.Part)
	if destination == "" {
		return ""
	}
	refused := ""
	for i := range f.head.Parts {
		m := text(f.head.Parts[i].Match)
		switch {
		case m == "default" || destinationOf(m) != destination:
		case !strings.Contains(m, "transport:tls"):
			return ""
		default:
			refused = seesPlaintext
		}
	}
	return refused
}

// destinationOf is the destination that a chain's match names; empty: any.
func destinationOf(match string) string {
	if first, _, _ := strings.Cut(match, " "); strings.HasPrefix(first, "dst:") {
		return first
	}
	return ""
}
