package diff

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// How requests fail where a cluster connects otherwise than its servers demand.
const (
	failsPlaintext = "connection reset, 503 UC for HTTP: plaintext to a service that demands STRICT mTLS"
	failsMutual    = "connection closed, 503 UF for HTTP: mTLS to a service that takes plaintext only"
)

// place is a part where one side has it.
type place struct {
	side     *side
	view     groupView
	resource string
	part     *result.Part
}

// judge notes how requests to a changed part fail on the head and did not on
// the base, and the reverse.
func (c *comparer) judge(x *pairView, f *found) {
	switch {
	case f.Kind == result.Moved:
	case len(f.Before) == 1 && len(f.After) == 1:
		was, is := place{c.base, x.base, f.Resource, &f.Before[0]}, place{c.head, x.head, f.Resource, &f.After[0]}
		f.Fails, f.Recovers = c.newly(f.Type, was, is), c.newly(f.Type, is, was)
	case f.Type != "rds" || f.base == nil || f.head == nil:
	case f.Kind == result.Gained:
		f.Fails = c.taken(place{c.base, x.base, f.Resource, nil}, f.base, place{c.head, x.head, f.Resource, &f.After[0]})
	case f.Kind == result.Lost:
		f.Recovers = c.taken(place{c.head, x.head, f.Resource, nil}, f.head, place{c.base, x.base, f.Resource, &f.Before[0]})
	}
}

// newly is how requests to a part fail that did not where it was.
func (c *comparer) newly(xdsType string, was, is place) []string {
	var out []string
	for _, text := range is.part.Fails {
		if !slices.Contains(was.part.Fails, text) && !is.unasked() {
			out = append(out, text)
		}
	}
	if xdsType == "cds" {
		if text := c.refused(is); text != "" && text != c.refused(was) {
			out = append(out, text)
		}
		if text := c.emptied(is); was.part.Type != is.part.Type && text != "" && c.emptied(was) == "" {
			out = append(out, text)
		}
		return out
	}
	before, after := c.ends(was), c.ends(is)
	if len(before.all) == 0 || len(before.live) == 0 || len(after.dead) <= len(before.dead) && subset(before.live, after.live) {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(after.dead)) {
		if !before.all[name] {
			out = append(out, after.dead[name])
		}
	}
	return out
}

// unasked reports whether a part takes inbound connections to ports that no
// Service has: whether anybody calls them is not known.
func (p place) unasked() bool {
	return p.resource == virtualInbound && destinationOf(text(p.part.Match)) == ""
}

// taken is how requests fail in a virtual host that takes domains from one of
// the same route configuration that served them.
func (c *comparer) taken(from place, config *result.Resource, is place) []string {
	for _, d := range is.part.Domains {
		if from.part = hostFor(config, d); from.part != nil && !unheard(from.side, is, d) {
			return c.newly("rds", from, is)
		}
	}
	return nil
}

// unheard reports whether a domain of a virtual host is a name or address of a
// Service that the other side does not have: there, nobody could call it.
func unheard(other *side, is place, domain string) bool {
	host := is.part.Service
	services := is.side.services[host]
	isNew := func(s *result.Service) bool { return s.Ref.Kind == "Service" && other.object(objectOf(s.Ref)) == nil }
	if len(other.services[host]) > 0 || len(services) == 0 || !slices.ContainsFunc(services, isNew) {
		return false
	}
	if name, _, err := net.SplitHostPort(domain); err == nil {
		domain = name
	}
	_, err := netip.ParseAddr(strings.Trim(domain, "[]"))
	return err == nil || strings.HasPrefix(host+".", strings.TrimSuffix(domain, ".")+".")
}

// ends is where a part leads to; what only mirrored requests go to does not count.
type ends struct {
	all  map[string]bool
	live map[string]bool   // that answer, as far as is known
	dead map[string]string // clusters where requests fail, and how
}

func (c *comparer) ends(p place) ends {
	e := ends{all: map[string]bool{}, live: map[string]bool{}, dead: map[string]string{}}
	http := p.part.Match == nil
	add := func(name string, http bool) {
		if name == "" || name == "none" || strings.HasPrefix(name, "mirror ") {
			return
		}
		e.all[name] = true
		if status, ok := strings.CutPrefix(name, "direct:"); ok {
			if code, err := strconv.Atoi(status); err == nil && code < 400 {
				e.live[name] = true
			}
			return
		}
		if name == blackHoleCluster {
			return
		}
		if how := c.dead(p, name, http); how != "" {
			e.dead[name] = how
			return
		}
		e.live[name] = true
	}
	for _, to := range p.part.To {
		if inline, ok := strings.CutPrefix(to, "inline-route -> "); ok {
			for _, name := range strings.Split(inline, ",") {
				add(name, true)
			}
			continue
		}
		add(strings.TrimPrefix(to, "cluster "), http)
	}
	return e
}

// dead says how what is led to a cluster fails, because the proxy has no such
// cluster or it has no endpoint; empty: it does not, or it is no outbound cluster.
func (c *comparer) dead(p place, name string, http bool) string {
	cl, ok := parseCluster(name)
	if !ok || cl.direction != "outbound" {
		return ""
	}
	list := p.view.find("cds", name)
	switch {
	case len(list) == 0 && http:
		return "503 NC for what is led to " + name + ": " + p.missing(cl)
	case len(list) == 0:
		return "connection closed: the chain leads to " + name + ": " + p.missing(cl)
	case p.view.empty(list[0]) && http:
		return "503 UH for what is led to " + name + ": it has no endpoint"
	case p.view.empty(list[0]):
		return "connection closed: the chain leads to " + name + ", which has no endpoint"
	}
	return ""
}

// empty reports whether a cluster is known to have no endpoint.
func (v groupView) empty(r *result.Resource) bool {
	parts := r.Parts
	if len(parts) == 1 && parts[0].Type == "EDS" {
		assignments := v.find("eds", r.Name)
		if len(assignments) != 1 {
			return false
		}
		parts = assignments[0].Parts
	}
	return len(parts) == 1 && parts[0].Endpoints != nil && *parts[0].Endpoints == 0
}

// emptied says how a cluster that something leads to fails for lack of endpoints;
// empty: it does not.
func (c *comparer) emptied(p place) string {
	for _, r := range p.view.find("cds", p.resource) {
		if p.view.empty(r) {
			return c.refs(p.view).withoutCluster(p.resource, true)
		}
	}
	return ""
}

// missing says why a proxy has no such cluster.
func (p place) missing(cl cluster) string {
	host, port := false, false
	for _, r := range *p.view.shared("cds") {
		if other, ok := parseCluster(r.Name); ok && other.direction == cl.direction && other.host == cl.host {
			host, port = true, port || other.port == cl.port
		}
	}
	switch {
	case port && cl.subset != "":
		return "the service has no subset " + cl.subset
	case host:
		return "the service has no port " + cl.port
	case len(p.side.services[cl.host]) > 0 || p.side.object(serviceOf(cl.host)) != nil:
		return "the service is not in this proxy's scope"
	}
	return "no service of the name is in this proxy's scope"
}

// serviceOf is the Service that a host name of the cluster's domain names.
func serviceOf(host string) object {
	name, rest, _ := strings.Cut(host, ".")
	namespace, domain, _ := strings.Cut(rest, ".")
	if !strings.HasPrefix(domain, "svc.") {
		return object{}
	}
	return object{"Service", namespace, name}
}

// refused says how a cluster that something leads to fails because its servers
// demand another kind of connection; empty: it does not.
func (c *comparer) refused(p place) string {
	cl, ok := parseCluster(p.resource)
	if !ok || cl.direction != "outbound" || !c.refs(p.view).leads(p.resource) {
		return ""
	}
	services := p.side.services[cl.host]
	all := func(mode string) bool {
		return len(services) > 0 && !slices.ContainsFunc(services, func(s *result.Service) bool { return s.MTLS != mode })
	}
	switch {
	case p.part.TLS == "plaintext" && all("STRICT"):
		return failsPlaintext
	case p.part.TLS == "mutual" && all("DISABLE"):
		return failsMutual
	}
	return ""
}

func subset(a, b map[string]bool) bool {
	for name := range a {
		if !b[name] {
			return false
		}
	}
	return true
}
