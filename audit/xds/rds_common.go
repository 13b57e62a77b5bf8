package xds

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// namespaceHosts are the virtual hosts for a port as scopes that are alike have
// them, made for one namespace. In another one only the services of either
// namespace have other domains, the short names (RDS-6).
type namespaceHosts struct {
	namespace string // that proxies complete short names with
	hosts     []virtualHost
	bytes     []int64 // of each
	fan       *Fan    // without rest
	sum       int64
	delegates []result.ReasonID
	own       map[string][]int // positions by the namespace whose proxies know a host by its short name
	taken     map[int32]int    // position by domain, in lower case
	known     map[int32]bool   // domains that are some service's own name
}

// changedHost is a virtual host that a namespace has in another form.
type changedHost struct {
	position int
	host     virtualHost
}

// clientNamespace is the namespace that a proxy completes short names with.
func clientNamespace(p *mesh.Proxy) (namespace, suffix string, ok bool) {
	namespace, suffix, ok = strings.Cut(p.Domain, ".svc.")
	return namespace, suffix, ok && namespace != ""
}

// hostsInCommon returns the hosts that the current scope shares for a port, and
// how its namespace's differ. It is false if the scope shares none, or if a
// name of its own is another host's too, so that the order of all decides.
func (b *Builder) hostsInCommon(r routeName) (*namespaceHosts, []changedHost, bool) {
	current := &b.routes.current
	namespace, suffix, ok := clientNamespace(current.proxy)
	if !ok || r.port == 0 || current.common == nil {
		return nil, nil, false
	}
	key := namespaceHostsKey{r.port, suffix, current.attempts}
	base, made := current.common.routes[key]
	if !made {
		if hosts := b.portHosts(r); !current.lost[r.port] {
			base = b.newNamespaceHosts(hosts, namespace)
		}
		if current.common.routes == nil {
			current.common.routes = map[namespaceHostsKey]*namespaceHosts{}
		}
		current.common.routes[key] = base
	}
	if base == nil {
		return nil, nil, false
	}
	changed, ok := b.changedHosts(base, r.port, namespace)
	return base, changed, ok
}

type namespaceHostsKey struct {
	port     int
	suffix   string
	attempts bool
}

// newNamespaceHosts indexes the hosts of a namespace, of which none has given
// way to another: else nothing could be told from them.
func (b *Builder) newNamespaceHosts(hosts []virtualHost, namespace string) *namespaceHosts {
	names := &b.routes.names
	c := &namespaceHosts{
		namespace: namespace, hosts: hosts, bytes: make([]int64, len(hosts)), delegates: b.delegatesOf(hosts),
		own: map[string][]int{}, taken: make(map[int32]int, 3*len(hosts)), known: make(map[int32]bool, len(hosts)),
	}
	fan := &Fan{}
	for i := range hosts {
		vh := &hosts[i]
		c.bytes[i] = fieldBytes(b.virtualHostBytes(vh))
		c.sum += c.bytes[i]
		for _, d := range vh.domains {
			c.taken[names.id(strings.ToLower(d))] = i
		}
		if vh.service == nil {
			continue
		}
		b.fans.add(fan, b.idOf(b.routes.current.scope, vh.service.Host), c.bytes[i])
		c.known[names.id(b.hostKey(vh.service.Host))] = true
		own := shortNamespace(vh.service.Host)
		c.own[own] = append(c.own[own], i)
	}
	c.fan = b.fans.done(fan)
	return c
}

// shortNamespace is the namespace whose proxies may use the first label alone.
func shortNamespace(host string) string {
	_, own, _ := strings.Cut(host, ".")
	own, _, _ = strings.Cut(own, ".svc.")
	return own
}

// changedHosts are the hosts that a namespace has in another form; false if a
// domain of theirs is not theirs alone.
func (b *Builder) changedHosts(c *namespaceHosts, port int, namespace string) ([]changedHost, bool) {
	if namespace == c.namespace {
		return nil, true
	}
	var out []changedHost
	fresh := map[int32]bool{}
	for _, positions := range [][]int{c.own[c.namespace], c.own[namespace]} {
		for _, i := range positions {
			vh := c.hosts[i]
			e := b.expand(b.routes.current.proxy, vh.service, port, port)
			for j, id := range e.lower {
				at, taken := c.taken[id]
				if taken && at != i || fresh[id] && !taken || e.exact[j] >= 0 && c.known[e.exact[j]] {
					return nil, false
				}
				fresh[id] = true
			}
			vh.domains, vh.sorted = e.domains, e.sorted
			out = append(out, changedHost{i, vh})
		}
	}
	return out, true
}

// sumOf is the bytes and the fan of virtual hosts.
func (b *Builder) sumOf(s *scope.Scope, hosts []virtualHost) (int64, *Fan) {
	sum, fan := int64(0), &Fan{}
	for i := range hosts {
		bytes := b.virtualHostPartBytes(&hosts[i])
		sum += bytes
		if svc := hosts[i].service; svc != nil {
			b.fans.add(fan, b.idOf(s, svc.Host), bytes)
		}
	}
	return sum, b.fans.done(fan)
}

// briefRoute is SidecarRoute without parts, with what they would add up to.
func (b *Builder) briefRoute(s *scope.Scope, p *mesh.Proxy, r routeName) *result.Resource {
	out := &result.Resource{Name: r.name, Bytes: int64(proto.Size(sidecarConfiguration(r.name)))}
	base, changed, ok := b.hostsInCommon(r)
	if !ok {
		hosts := b.routeHosts(r)
		sum, fan := b.sumOf(s, hosts)
		out.Bytes += sum
		out.Because = b.delegatesOf(hosts)
		b.noteFans(out, fan)
		return out
	}
	last := []virtualHost{b.lastResort(s, p)}
	sum, fan := b.sumOf(s, last)
	for _, c := range changed {
		more := fieldBytes(b.virtualHostBytes(&c.host)) - base.bytes[c.position]
		sum += more
		b.fans.add(fan, b.idOf(s, c.host.service.Host), more)
	}
	out.Bytes += base.sum + sum
	out.Because = slices.Clone(base.delegates)
	b.noteFans(out, base.fan, b.fans.done(fan))
	return out
}

// noteFans keeps what a route configuration without parts is for; the last Fan
// takes the rest.
func (b *Builder) noteFans(r *result.Resource, fans ...*Fan) {
	rest := r.Bytes
	for _, f := range fans {
		for _, bytes := range f.Bytes {
			rest -= bytes
		}
	}
	fans[len(fans)-1].Rest = rest
	if b.routeFans == nil {
		b.routeFans = map[*result.Resource][]*Fan{}
	}
	b.routeFans[r] = fans
}
