package xds

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// hostPort joins as istiod names virtual hosts.
func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// domainHost is a host as a domain: IPv6 addresses have brackets.
func domainHost(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// domainNames numbers domains, so that those that one route configuration has
// taken are told by a mark and not by a set of strings.
type domainNames struct {
	ids   map[string]int32
	taken []uint32 // by id: the round in which a virtual host took the domain
	known []uint32 // by id: the round in which it is some service's own name
	round uint32
	lost  bool // a domain or a virtual host of this round gave way to another
}

// next begins a route configuration.
func (n *domainNames) next() { n.round, n.lost = n.round+1, false }

func (n *domainNames) id(domain string) int32 {
	id, ok := n.ids[domain]
	if !ok {
		id = int32(len(n.taken))
		n.ids[domain] = id
		n.taken = append(n.taken, 0)
		n.known = append(n.known, 0)
	}
	return id
}

// expansion is the domains of a virtual host before those are left out that
// another one has taken.
type expansion struct {
	domains []string // in istiod's order
	sorted  []string // the same, in byte order, each once
	lower   []int32  // ids of the domains in lower case
	exact   []int32  // ids of those that are short or dotted forms of a name; -1 for others
}

// expansionKey is what a service's domains depend on.
type expansionKey struct {
	svc   *mesh.Service
	port  int // that domains carry; 0: none do
	own   bool
	class proxyClass
}

// proxyClass is what of a proxy changes domains.
type proxyClass struct {
	domain  string // without the namespace, where it is "<namespace>.svc.<suffix>"
	v4, v6  bool
	cluster string
	capture bool
	auto    bool
	oneAuto bool
}

// expand gives a service's domains (RDS-6; Istio
// pilot/pkg/networking/core/httproute.go generateVirtualHostDomains). routePort
// is the route configuration's port, port the service's; with routePort 0
// domains come with and without the port.
func (b *Builder) expand(p *mesh.Proxy, svc *scope.Service, routePort, port int) *expansion {
	if routePort != 0 {
		port = 0
	}
	if len(svc.Aliases) > 0 {
		return b.newExpansion(b.serviceDomains(p, svc, routePort, port))
	}
	key := expansionKey{svc: svc.Service, port: port, class: proxyClass{
		domain: p.Domain, v4: p.IPv4, v6: p.IPv6, cluster: p.Cluster,
		capture: p.Metadata.DNSCapture, auto: p.Metadata.DNSAutoAllocate, oneAuto: routePort != 0,
	}}
	if namespace, suffix, ok := strings.Cut(p.Domain, ".svc."); ok {
		key.class.domain = suffix
		_, own, _ := strings.Cut(svc.Host, ".")
		own, _, _ = strings.Cut(own, ".svc.")
		key.own = own == namespace
	}
	known := b.routes.expansions[key]
	if known == nil {
		known = b.newExpansion(b.serviceDomains(p, svc, routePort, port))
		b.routes.expansions[key] = known
	}
	return known
}

func (b *Builder) newExpansion(domains, alternatives []string) *expansion {
	e := &expansion{domains: domains, sorted: sortedSet(domains)}
	names := &b.routes.names
	for _, d := range domains {
		e.lower = append(e.lower, names.id(strings.ToLower(d)))
		exact := int32(-1)
		if slices.Contains(alternatives, d) {
			exact = names.id(d)
		}
		e.exact = append(e.exact, exact)
	}
	return e
}

// serviceDomains lists a service's domains, and which of them are only other
// forms of its names.
func (b *Builder) serviceDomains(p *mesh.Proxy, svc *scope.Service, routePort, port int) (domains, alternatives []string) {
	hosts := []string{b.hostKey(svc.Host)}
	if routePort == 0 {
		hosts[0] = svc.Host
	}
	for _, a := range svc.Aliases {
		hosts = append(hosts, a.Host)
	}
	for _, host := range hosts {
		alt := b.alternativeHosts(host, port, p.Domain)
		domains = append(withPort(domains, host, port), alt...)
		alternatives = append(alternatives, alt...)
	}
	if svc.Headless() && svc.Kubernetes {
		for _, d := range slices.Clone(domains) {
			domains = append(domains, "*."+d)
		}
	}
	for _, address := range routeAddresses(p, svc, routePort) {
		if address != "" && address != "0.0.0.0" {
			domains = withPort(domains, address, port)
		}
	}
	return domains, alternatives
}

// routeAddresses are the addresses that become domains. A route for a port
// knows only the one address that the proxy uses of a service without cluster
// IPs, so of two allocated ones just the first.
func routeAddresses(p *mesh.Proxy, svc *scope.Service, routePort int) []string {
	if routePort != 0 && len(svc.VIPs) == 0 {
		return []string{svc.AddressFor(p)}
	}
	return svc.AddressesFor(p)
}

// withPort appends a domain, and the same with the port unless that is 0.
func withPort(domains []string, host string, port int) []string {
	domains = append(domains, domainHost(host))
	if port != 0 {
		domains = append(domains, hostPort(host, port))
	}
	return domains
}

// alternativeHosts are the other names of a host for clients in a domain: the
// absolute one with a dot at the end, and the short ones that the client's
// resolver completes (Istio GenerateAltVirtualHosts).
func (b *Builder) alternativeHosts(host string, port int, domain string) []string {
	var out []string
	if b.view.Flags.AbsoluteFQDNDomain {
		if net.ParseIP(host) == nil {
			out = append(out, host+".")
		}
		if port != 0 {
			out = append(out, hostPort(host+".", port))
		}
	}
	if namespace, suffix, ok := strings.Cut(domain, ".svc."); ok {
		// A domain that begins with ".svc." is taken whole, as istiod does.
		if i := strings.Index(domain, ".svc."); i > 0 {
			suffix = ".svc." + suffix
		} else {
			suffix = domain
		}
		if strings.HasSuffix(host, suffix) {
			out = append(out, shortHosts(host, port, namespace)...)
		}
		return out
	}
	unique, shared := splitShared(host, domain)
	if len(shared) == 0 {
		return out
	}
	name := strings.Join(unique, ".")
	out = withPort(out, name, port)
	if len(unique) == 2 {
		out = withPort(out, name+"."+shared[0], port)
	}
	return out
}

// shortHosts are the short names of "<name>.<namespace>.svc.<suffix>".
func shortHosts(host string, port int, clientNamespace string) []string {
	end := strings.Index(host, ".svc.")
	dot := strings.Index(host, ".")
	if end <= 0 || dot+1 >= len(host) || dot+1 > end {
		return nil
	}
	short := host[:end]
	var out []string
	add := func(name string) {
		out = append(out, name)
		if port != 0 {
			out = append(out, hostPort(name, port))
		}
	}
	if host[dot+1:end] == clientNamespace {
		add(host[:dot])
		add(short + ".svc")
		add(short)
		return out
	}
	add(short)
	add(short + ".svc")
	return out
}

// splitShared splits a host's labels into those before and those of the longest
// common end with a domain.
func splitShared(host, domain string) (unique, shared []string) {
	labels, other := strings.Split(host, "."), strings.Split(domain, ".")
	n := 0
	for n < min(len(labels), len(other)) && labels[len(labels)-1-n] == other[len(other)-1-n] {
		n++
	}
	return labels[:len(labels)-n], labels[len(labels)-n:]
}
