package diff

import (
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

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
	if chain := v.defaultChain(listener); chain != nil {
		return v.leadsTo(chain)
	}
	if len(v.find("lds", listener)) == 0 {
		return ""
	}
	return seesNoChain
}

// defaultChain is the chain of a listener that takes what no other matches; nil:
// it has none.
func (v groupView) defaultChain(listener string) *result.Part {
	for _, l := range v.find("lds", listener) {
		for i := range l.Parts {
			if m := text(l.Parts[i].Match); m == "default" || m == "" {
				return &l.Parts[i]
			}
		}
	}
	return nil
}

// withoutListener says where connections go that a lost outbound listener of a
// sidecar took: to the wildcard listener of the port, else to virtualOutbound.
func (v groupView) withoutListener(name string) string {
	port := portOf(name)
	for _, wildcard := range []string{"0.0.0.0_" + port, "[::]_" + port} {
		if wildcard == name {
			continue
		}
		if len(v.find("lds", wildcard)) > 0 {
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
		_, isCluster := parseCluster(strings.TrimPrefix(to, "cluster "))
		switch {
		case to == "cluster "+passthroughCluster:
			return seesPassthrough
		case to == "cluster "+blackHoleCluster:
			return seesBlackHole
		case isCluster:
			return "led to " + strings.TrimPrefix(to, "cluster ") + " instead"
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
