package diff

import (
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
	seesNoChain     = "connection closed (no filter chain matches)"
	seesNoListener  = "connection refused (nothing listens)"
	seesPassthrough = "passthrough: forwarded as it is to the original address, without the mesh's routes, policy or mTLS"
	seesReset       = "connection reset: passthrough sends plaintext, the service demands STRICT mTLS"
	seesBlackHole   = "connection closed by outboundTrafficPolicy REGISTRY_ONLY"
	seesBlackHole7  = "502 by outboundTrafficPolicy REGISTRY_ONLY"
	seesPlaintext   = "connection reset for plaintext callers (STRICT mTLS)"
)

// sees tells what callers see, on the head, of what is lost; empty: nothing by
// itself, or they are served otherwise.
func (c *comparer) sees(x *pairView, f *found) string {
	if !f.Loses() {
		return ""
	}
	head := x.head
	router := head.isRouter()
	switch f.Type {
	case "eds":
		if len(f.After) > 0 {
			return seesNoHost
		}
		return c.refs(head).withoutCluster(f.Resource)
	case "cds":
		return c.refs(head).withoutCluster(f.Resource)
	case "rds":
		if by := x.servedBy(f, routePort(f.Resource)); by != "" {
			return by
		}
		return c.outcome(f, head.withoutHosts(f))
	case "lds":
		switch {
		case f.Resource == virtualInbound || f.Part != nil && len(named(*x.base.shared("lds"), f.Resource)) == 0:
			return plaintextRefused(f)
		case f.Part != nil:
			return c.outcome(f, head.withoutChain(f.Resource))
		case router:
			return seesNoListener
		}
		if by := x.servedBy(f, f.Resource[strings.LastIndexByte(f.Resource, '_')+1:]); by != "" {
			return by
		}
		return c.outcome(f, head.withoutListener(f.Resource))
	}
	return ""
}

// servedBy names the listener of a sidecar that, on the same port, now takes
// connections to the services that a lost listener or route configuration was
// for, without HTTP; empty: none does.
func (x *pairView) servedBy(f *found, port string) string {
	if x.head.isRouter() || f.Kind != result.Lost || f.Part != nil {
		return ""
	}
	hosts := x.base.destinations(f.Before)
	if len(hosts) == 0 {
		return ""
	}
	for _, l := range *x.head.shared("lds") {
		if !strings.HasSuffix(l.Name, "_"+port) {
			continue
		}
		for i := range l.Parts {
			for _, to := range l.Parts[i].To {
				name, isCluster := strings.CutPrefix(to, "cluster ")
				if cl, ok := parseCluster(name); isCluster && ok && hosts[cl.host] {
					return "listener " + l.Name + " instead: as plain TCP, without HTTP routes"
				}
			}
		}
	}
	return ""
}

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

// outcome turns passthrough into a reset where the service demands mTLS.
func (c *comparer) outcome(f *found, sees string) string {
	if sees != seesPassthrough {
		return sees
	}
	hosts := []string{f.Service}
	for i := range f.Before {
		hosts = append(hosts, f.Before[i].Service)
		for _, to := range f.Before[i].To {
			if cl, ok := parseCluster(strings.TrimPrefix(to, "cluster ")); ok {
				hosts = append(hosts, cl.host)
			}
		}
	}
	for _, host := range hosts {
		services := c.head.services[host]
		if len(services) == 0 {
			services = c.base.services[host]
		}
		for _, s := range services {
			if s.MTLS == "STRICT" {
				return seesReset
			}
		}
	}
	return sees
}

// withoutCluster says what a lost cluster means: something that is still there
// leads to it, or nothing does.
func (r *references) withoutCluster(name string) string {
	switch {
	case r.routed[name]:
		return seesNoCluster
	case r.chained[name]:
		return seesNoClusterL4
	}
	return ""
}

// withoutHosts says where requests to a lost virtual host, or to lost domains
// of one, go now.
func (v groupView) withoutHosts(f *found) string {
	configs := v.find("rds", f.Resource)
	if len(configs) == 0 {
		if v.isRouter() {
			return seesNoListener
		}
		return v.withoutListener("_" + routePort(f.Resource))
	}
	domains := f.LostDomains
	if f.Kind == result.Lost {
		domains = nil
		for i := range f.Before {
			domains = append(domains, f.Before[i].Domains...)
		}
	}
	for _, d := range domains {
		switch h := hostFor(configs[0], d); {
		case h == nil:
			return seesNoRoute
		case catchAll(h):
			return viaCatchAll(h)
		}
	}
	return ""
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

// routePort is the port that a sidecar's route configuration is for: its name
// is PORT, HOST:PORT or a path.
func routePort(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

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
	port := name[strings.LastIndexByte(name, '_')+1:]
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

// plaintextRefused tells of an inbound chain that took plaintext where the
// one that takes TLS stays.
func plaintextRefused(f *found) string {
	if f.Part == nil || f.head == nil || !strings.Contains(*f.Part, "transport:raw_buffer") {
		return ""
	}
	destination, _, _ := strings.Cut(*f.Part, " ")
	if !strings.HasPrefix(destination, "dst:") {
		return ""
	}
	for i := range f.head.Parts {
		if m := text(f.head.Parts[i].Match); strings.HasPrefix(m, destination+" ") && strings.Contains(m, "transport:tls") {
			return seesPlaintext
		}
	}
	return ""
}
