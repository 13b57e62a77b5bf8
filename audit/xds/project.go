package xds

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// Projection is what the proxies of one istiod revision get. Its ids are
// local: the facade renumbers them for the whole mesh.
type Projection struct {
	Scopes []*ScopeResult
	Gaps   []result.Gap
}

// ScopeResult is one scope with its groups.
type ScopeResult struct {
	result.Scope
	Groups []*GroupResult
	scope  *scope.Scope
}

// NamespaceOf tells which namespace's service the scope knows by a host name;
// empty: none.
func (s *ScopeResult) NamespaceOf(host string) string {
	if svc := s.scope.Service(host); svc != nil {
		return svc.Namespace
	}
	return ""
}

// GroupResult is one group with its proxies, by namespace and name.
type GroupResult struct {
	result.Group
	Members []*mesh.Proxy
}

// Project computes the given proxies of the builder's view: each distinct
// scope once, each distinct inbound part once.
func (b *Builder) Project(proxies []*mesh.Proxy, progress func(done int)) *Projection {
	byScope := map[*scope.Scope][]*mesh.Proxy{}
	var order []*scope.Scope
	for _, p := range proxies {
		s := b.scoper.For(p)
		if byScope[s] == nil {
			order = append(order, s)
		}
		byScope[s] = append(byScope[s], p)
	}
	out := &Projection{}
	done := 0
	for _, s := range order {
		out.Scopes = append(out.Scopes, b.projectScope(s, byScope[s]))
		done += len(byScope[s])
		progress(done)
	}
	out.Gaps = append(b.gaps, b.scoper.Gaps()...)
	return out
}

// shared is what a scope's proxies have in common, with what is needed to tell
// a single proxy's difference.
type shared struct {
	result.Resources
	listeners []*Listener // same order as Resources.LDS; nil for a router
	routeUses map[string]int
	counts    result.Counts
	bytes     result.Bytes
}

func (b *Builder) projectScope(s *scope.Scope, members []*mesh.Proxy) *ScopeResult {
	sh := b.share(s, members[0])
	out := &ScopeResult{scope: s}
	out.Resources = sh.Resources
	out.By, out.Text = describe(s)
	own := map[string]result.Resources{}
	groups := map[string]*GroupResult{}
	for _, p := range members {
		key := inboundKey(s, p)
		inbound, ok := own[key]
		if !ok {
			inbound = b.inbound(s, p, sh)
			own[key] = inbound
		}
		group := sh.group(p, inbound)
		id := groupIdentity(group)
		if known := groups[id]; known != nil {
			known.Members = append(known.Members, p)
			known.Proxies++
			continue
		}
		group.Members = []*mesh.Proxy{p}
		groups[id] = group
		out.Groups = append(out.Groups, group)
	}
	return out
}

// share builds what all proxies of the scope get, with p as their representative.
func (b *Builder) share(s *scope.Scope, p *mesh.Proxy) *shared {
	sh := &shared{routeUses: map[string]int{}}
	sh.CDS = b.OutboundClusters(s, p)
	sh.EDS = b.LoadAssignments(s, p, sh.CDS)
	if nds := b.NameTable(s, p); nds != nil {
		sh.NDS = []*result.Resource{nds}
	}
	route := b.SidecarRoute
	var names []string
	if s.Kind == mesh.RouterProxy {
		route = b.GatewayRoute
		sh.LDS, names = b.GatewayListeners(s, p)
	} else {
		sh.listeners = b.OutboundListeners(s, p)
		slices.SortStableFunc(sh.listeners, func(x, y *Listener) int { return cmp.Compare(x.Name, y.Name) })
		for _, l := range sh.listeners {
			sh.LDS = append(sh.LDS, &l.Resource)
			names = append(names, l.Routes...)
			for _, r := range l.Routes {
				sh.routeUses[r]++
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if r := route(s, p, name); r != nil {
			sh.RDS = append(sh.RDS, r)
		}
	}
	sh.ECDS = b.ExtensionConfigs(p, sh.LDS)
	sortResources(&sh.Resources)
	sh.count()
	return sh
}

// inbound builds what a proxy has beside the scope's.
func (b *Builder) inbound(s *scope.Scope, p *mesh.Proxy, sh *shared) result.Resources {
	var own result.Resources
	if s.Kind == mesh.SidecarProxy {
		own.CDS = b.InboundClusters(s, p)
		own.EDS = without(b.LoadAssignments(s, p, own.CDS), sh.EDS)
		own.LDS = b.InboundListeners(s, p)
		own.ECDS = without(b.ExtensionConfigs(p, own.LDS), sh.ECDS)
		sortResources(&own)
	}
	return own
}

// without is own less the names that the scope has already.
func without(own, shared []*result.Resource) []*result.Resource {
	return slices.DeleteFunc(own, func(r *result.Resource) bool {
		return slices.ContainsFunc(shared, func(have *result.Resource) bool { return have.Name == r.Name })
	})
}

func (sh *shared) count() {
	for _, t := range result.Types {
		n, size := sh.counts.Of(t), sh.bytes.Of(t)
		for _, r := range *sh.Of(t) {
			*n++
			*size += r.Bytes
			sh.counts.Endpoints += r.Endpoints
		}
		sh.bytes.Total += *size
	}
}

// group tells p's counts and bytes: the scope's, plus its own, less what it is
// without, with what weighs otherwise for it.
func (sh *shared) group(p *mesh.Proxy, own result.Resources) *GroupResult {
	g := &GroupResult{}
	g.Kind, g.Namespace, g.Workload, g.Proxies = p.Kind.String(), p.Namespace, p.Workload, 1
	g.Resources = own
	g.Counts, g.Bytes = sh.counts, sh.bytes
	for _, t := range result.Types {
		for _, r := range *own.Of(t) {
			*g.Counts.Of(t)++
			g.Counts.Endpoints += r.Endpoints
			g.add(t, r.Bytes)
		}
	}
	lost := map[string]int{}
	for _, l := range sh.listeners {
		if l.OwnAddress != "" && len(p.IPs) > 0 && p.IPs[0] == l.OwnAddress {
			g.Without.LDS = append(g.Without.LDS, l.Name)
			g.Counts.LDS--
			g.add("lds", -l.Bytes)
			for _, r := range l.Routes {
				lost[r]++
			}
			continue
		}
		if bytes := l.BytesFor(p); bytes != l.Bytes {
			g.Resized.LDS = append(g.Resized.LDS, result.Resized{Name: l.Name, Bytes: bytes})
			g.add("lds", bytes-l.Bytes)
		}
	}
	sh.dropRoutes(g, lost)
	return g
}

// dropRoutes leaves out the route configurations that only listeners of the
// pod's own address refer to: its proxy does not subscribe to them.
func (sh *shared) dropRoutes(g *GroupResult, lost map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if lost[name] < sh.routeUses[name] {
			continue
		}
		i, ok := slices.BinarySearchFunc(sh.RDS, name, func(r *result.Resource, n string) int { return cmp.Compare(r.Name, n) })
		if !ok {
			continue
		}
		g.Without.RDS = append(g.Without.RDS, name)
		g.Counts.RDS--
		g.add("rds", -sh.RDS[i].Bytes)
	}
}

func (g *GroupResult) add(xdsType string, bytes int64) {
	*g.Bytes.Of(xdsType) += bytes
	g.Bytes.Total += bytes
}

// inboundKey holds all that a proxy's own part is made from, so that the
// replicas of a workload share one computation.
func inboundKey(s *scope.Scope, p *mesh.Proxy) string {
	var k strings.Builder
	field := func(v string) { k.WriteString(strconv.Quote(v)) }
	for _, v := range []string{p.CanonicalName, p.CanonicalRevision, p.MeshID, p.WorkloadName, p.ServiceAccount, p.Network, p.Cluster, p.Version.String()} {
		field(v)
	}
	for _, m := range []map[string]string{p.Labels, p.Metadata.Raw} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			field(name)
			field(m[name])
		}
		field("")
	}
	if p.Pod != nil {
		field(p.Pod.Annotations["proxy.istio.io/config"])
	}
	for _, t := range p.Targets {
		field(strconv.Itoa(t.Service.Index))
		field(strconv.Itoa(t.Port.Number))
		field(strconv.Itoa(t.TargetPort))
	}
	field(strconv.FormatBool(p.IPv4))
	field(strconv.FormatBool(p.IPv6))
	if s.Sidecar != nil && len(s.Sidecar.Spec.GetIngress()) > 0 || p.Metadata.Interception == "NONE" {
		field(strings.Join(p.IPs, ","))
	}
	return k.String()
}

// groupIdentity is equal for proxies of one workload with the same config.
func groupIdentity(g *GroupResult) string {
	var k strings.Builder
	field := func(v string) { k.WriteString(strconv.Quote(v)) }
	field(g.Namespace)
	field(g.Workload)
	for _, t := range result.Types {
		for _, r := range *g.Resources.Of(t) {
			field(r.Name)
			field(strconv.FormatInt(r.Bytes, 10))
		}
		field("")
	}
	for _, names := range [][]string{g.Without.LDS, g.Without.RDS} {
		for _, n := range names {
			field(n)
		}
		field("")
	}
	for _, r := range g.Resized.LDS {
		field(r.Name)
		field(strconv.FormatInt(r.Bytes, 10))
	}
	return k.String()
}

func describe(s *scope.Scope) (result.Ref, string) {
	switch {
	case s.Kind == mesh.RouterProxy:
		return result.Ref{}, "gateways of " + s.Namespace
	case s.Sidecar != nil:
		return s.Sidecar.Ref(), "Sidecar " + s.Sidecar.Namespace + "/" + s.Sidecar.Name
	}
	return result.Ref{}, "default scope"
}

func sortResources(r *result.Resources) {
	for _, t := range result.Types {
		slices.SortStableFunc(*r.Of(t), func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
	}
}
