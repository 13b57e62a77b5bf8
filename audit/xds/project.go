package xds

import (
	"cmp"
	"fmt"
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
	Scopes   []*ScopeResult
	Services []mesh.HostNamespace // that Fans name; without namespace: no service of the scope
	Gaps     []result.Gap
}

// ScopeResult is one scope with its groups.
type ScopeResult struct {
	result.Scope
	Groups []*GroupResult
	Fans   []TypeFan // what its resources weigh for each service
	scope  *scope.Scope
}

// Namespace is that of its proxies.
func (s *ScopeResult) Namespace() string { return s.scope.Namespace }

// NamespaceOf tells which namespace's service the scope knows by a host name;
// empty: none.
func (s *ScopeResult) NamespaceOf(host string) string {
	if svc := s.scope.Service(host); svc != nil {
		return svc.Namespace
	}
	return ""
}

// Uses are the objects that result.Scope.Uses is about.
func (s *ScopeResult) Uses() []result.Ref {
	if s.scope.Kind != mesh.SidecarProxy {
		return nil
	}
	var out []result.Ref
	for _, m := range s.scope.DependsOn() {
		out = append(out, m.Ref())
	}
	sent := make(map[string]bool, len(s.scope.Services))
	for _, r := range s.Resources.CDS {
		sent[r.Service] = true
	}
	for _, svc := range s.scope.Services {
		if !sent[svc.Host] {
			out = append(out, svc.Ref)
		}
	}
	return out
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
	out.Services = b.fans.names
	out.Gaps = slices.Concat(b.gaps, b.scoper.Gaps())
	return out
}

// shared is what a scope's proxies have in common, with what is needed to tell
// a single proxy's difference.
type shared struct {
	result.Resources
	listeners *listeners // nil for a router
	counts    result.Counts
	bytes     result.Bytes
	fans      []TypeFan
}

// sizingKey is what the bytes of a scope's listeners depend on.
type sizingKey struct {
	shape string // listenerKeyOf
	own   ownSizes
}

// sizing is the listeners that weigh otherwise for some of a scope's proxies.
type sizing struct {
	resized []result.Resized
	growth  int64  // sum of the differences
	text    string // equal where resized is
}

// ownPart is what proxies have beside the scope's resources.
type ownPart struct {
	result.Resources
	text string // equal for the same names and bytes
	// groups are those of the proxies that get all of the scope's listeners, by workload.
	groups map[string]*GroupResult
}

// groupKey is equal for proxies of one workload with the same config.
type groupKey struct{ workload, own, sizing, without string }

func (b *Builder) projectScope(s *scope.Scope, members []*mesh.Proxy) *ScopeResult {
	sh := b.share(s, members[0])
	out := &ScopeResult{Fans: sh.fans, scope: s}
	out.Resources = sh.Resources
	out.By, out.Text = describe(s)
	own := map[string]*ownPart{}
	groups := map[groupKey]*GroupResult{}
	for _, p := range members {
		key := b.workloadKey(s, p)
		part := own[string(key)]
		if part == nil {
			part = &ownPart{groups: map[string]*GroupResult{}}
			own[string(key)] = part
			part.Resources = b.inbound(s, p, sh)
			part.text = identity(&part.Resources)
		}
		without := sh.ofOwnAddress(p)
		if known := part.groups[p.Workload]; known != nil && len(without) == 0 {
			known.add(p)
			continue
		}
		group, id := sh.group(p, part, without)
		if known := groups[id]; known != nil {
			group = known
		} else {
			groups[id] = group
			out.Groups = append(out.Groups, group)
		}
		group.add(p)
		if len(without) == 0 {
			part.groups[p.Workload] = group
		}
	}
	return out
}

func (g *GroupResult) add(p *mesh.Proxy) {
	g.Members = append(g.Members, p)
	g.Proxies++
}

// share builds what all proxies of the scope get, with p as their representative.
func (b *Builder) share(s *scope.Scope, p *mesh.Proxy) *shared {
	sh := &shared{}
	common := b.common(s, p)
	if common.clusters == nil {
		clusters := b.OutboundClusters(s, p)
		common.clusters, common.endpoints = b.listOf(s, clusters), b.listOf(s, b.LoadAssignments(s, p, clusters))
	}
	sh.use("cds", common.clusters)
	sh.use("eds", common.endpoints)
	if nds := b.NameTable(s, p); nds != nil {
		sh.use("nds", b.listOf(s, []*result.Resource{nds}))
	}
	if s.Kind == mesh.RouterProxy {
		list, names := b.GatewayListeners(s, p)
		sortByName(list)
		sh.use("lds", b.listOf(s, list))
		slices.Sort(names)
		sh.useRoutes(b.routesOf(s, p, slices.Compact(names), b.GatewayRoute))
	} else {
		key := listenersKey{b.listenerKeyOf(s, p), ownSizesOf(p)}
		sh.listeners = common.listeners[key]
		if sh.listeners == nil {
			sh.listeners = b.listenersOf(s, b.OutboundListeners(s, p))
			common.listeners[key] = sh.listeners
		}
		sh.use("lds", sh.listeners.list)
		sh.useRoutes(b.routesOf(s, p, sh.listeners.names, b.SidecarRoute))
	}
	extensions := b.ExtensionConfigs(p, sh.LDS)
	sortByName(extensions)
	sh.use("ecds", b.listOf(s, extensions))
	return sh
}

// routesOf makes the route configurations of the names that there are any of;
// fans are those of the ones without parts.
func (b *Builder) routesOf(s *scope.Scope, p *mesh.Proxy, names []string, route func(*scope.Scope, *mesh.Proxy, string) *result.Resource) (l *list, fans []*Fan) {
	var out, whole []*result.Resource
	for _, name := range names {
		r := route(s, p, name)
		if r == nil {
			continue
		}
		out = append(out, r)
		if of := b.routeFans[r]; of != nil {
			fans = append(fans, of...)
		} else {
			whole = append(whole, r)
		}
	}
	sortByName(out)
	l = b.listOf(s, out)
	l.fan = b.listOf(s, whole).fan
	return l, fans
}

func (sh *shared) useRoutes(l *list, fans []*Fan) {
	sh.use("rds", l)
	for _, f := range fans {
		sh.fans = append(sh.fans, TypeFan{"rds", f})
	}
}

// use takes a list in as that of a type.
func (sh *shared) use(xdsType string, l *list) {
	*sh.Of(xdsType) = l.resources
	*sh.counts.Of(xdsType) = len(l.resources)
	*sh.bytes.Of(xdsType) = l.bytes
	sh.counts.Endpoints += l.endpoints
	sh.bytes.Total += l.bytes
	sh.fans = append(sh.fans, TypeFan{xdsType, l.fan})
}

// inbound builds what a proxy has beside the scope's.
func (b *Builder) inbound(s *scope.Scope, p *mesh.Proxy, sh *shared) result.Resources {
	var own result.Resources
	if s.Kind == mesh.SidecarProxy {
		own.CDS = b.InboundClusters(s, p)
		own.EDS = without(b.LoadAssignments(s, p, own.CDS), sh.EDS)
		own.LDS = b.InboundListeners(s, p)
		own.ECDS = without(b.ExtensionConfigs(p, own.LDS), sh.ECDS)
		for _, t := range result.Types {
			sortByName(*own.Of(t))
		}
	}
	return own
}

// without is own less the names that the scope has already.
func without(own, shared []*result.Resource) []*result.Resource {
	return slices.DeleteFunc(own, func(r *result.Resource) bool {
		return slices.ContainsFunc(shared, func(have *result.Resource) bool { return have.Name == r.Name })
	})
}

// ofOwnAddress are the listeners of p's own address, which it does not get.
func (sh *shared) ofOwnAddress(p *mesh.Proxy) []*Listener {
	if sh.listeners == nil || len(p.IPs) == 0 {
		return nil
	}
	return sh.listeners.byAddress[p.IPs[0]]
}

// group tells p's counts and bytes: the scope's, plus its own, less the listeners
// that it is without, with what weighs otherwise for it. Proxies with the same key
// are in the same group.
func (sh *shared) group(p *mesh.Proxy, own *ownPart, missing []*Listener) (*GroupResult, groupKey) {
	g := &GroupResult{}
	g.Kind, g.Namespace, g.Workload = p.Kind.String(), p.Namespace, p.Workload
	g.Resources = own.Resources
	g.Counts, g.Bytes = sh.counts, sh.bytes
	for _, t := range result.Types {
		for _, r := range *own.Of(t) {
			*g.Counts.Of(t)++
			g.Counts.Endpoints += r.Endpoints
			g.weigh(t, r.Bytes)
		}
	}
	weighs := &sizing{}
	if sh.listeners != nil {
		weighs = sh.listeners.sizingFor(p)
		g.Resized.LDS = weighs.resized
		g.weigh("lds", weighs.growth)
		sh.drop(g, missing)
	}
	without := append(append(slices.Clip(g.Without.LDS), ""), g.Without.RDS...)
	return g, groupKey{g.Workload, own.text, weighs.text, strings.Join(without, "\x00")}
}

// sizingFor tells which listeners weigh otherwise for a proxy.
func (ls *listeners) sizingFor(p *mesh.Proxy) *sizing {
	key := sizingKey{}
	if i := slices.IndexFunc(ls.all, func(l *Listener) bool { return l.shape != nil }); i >= 0 {
		key = ls.all[i].shape.sizingKey(p)
	}
	known := ls.sizings[key]
	if known == nil {
		known = &sizing{}
		for _, l := range ls.all {
			if bytes := l.BytesFor(p); bytes != l.Bytes {
				known.resized = append(known.resized, result.Resized{Name: l.Name, Bytes: bytes})
				known.growth += bytes - l.Bytes
				known.text += fmt.Sprintf("%q %d,", l.Name, bytes)
			}
		}
		ls.sizings[key] = known
	}
	return known
}

// drop leaves out the listeners of the pod's own address.
func (sh *shared) drop(g *GroupResult, listeners []*Listener) {
	lost := map[string]int{}
	for _, l := range listeners {
		bytes := l.Bytes
		if i := slices.IndexFunc(g.Resized.LDS, func(r result.Resized) bool { return r.Name == l.Name }); i >= 0 {
			bytes = g.Resized.LDS[i].Bytes
			g.Resized.LDS = slices.Delete(slices.Clone(g.Resized.LDS), i, i+1)
		}
		g.Without.LDS = append(g.Without.LDS, l.Name)
		g.Counts.LDS--
		g.weigh("lds", -bytes)
		for _, r := range l.Routes {
			lost[r]++
		}
	}
	sh.dropRoutes(g, lost)
}

// dropRoutes leaves out the route configurations that only listeners of the
// pod's own address refer to: its proxy does not subscribe to them.
func (sh *shared) dropRoutes(g *GroupResult, lost map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		if lost[name] < sh.listeners.routeUses[name] {
			continue
		}
		i, ok := slices.BinarySearchFunc(sh.RDS, name, func(r *result.Resource, n string) int { return cmp.Compare(r.Name, n) })
		if !ok {
			continue
		}
		g.Without.RDS = append(g.Without.RDS, name)
		g.Counts.RDS--
		g.weigh("rds", -sh.RDS[i].Bytes)
	}
}

func (g *GroupResult) weigh(xdsType string, bytes int64) {
	*g.Bytes.Of(xdsType) += bytes
	g.Bytes.Total += bytes
}

// identity is equal for resources with the same names and bytes.
func identity(r *result.Resources) string {
	var k strings.Builder
	for _, t := range result.Types {
		for _, r := range *r.Of(t) {
			k.WriteString(strconv.Quote(r.Name))
			k.WriteString(strconv.FormatInt(r.Bytes, 10))
			k.WriteString(contentKey(r))
		}
		k.WriteByte(';')
	}
	return k.String()
}

// contentKey tells contents apart; empty where they are not digested.
func contentKey(r *result.Resource) string {
	if r.Digest == 0 {
		return ""
	}
	key := strconv.FormatUint(uint64(r.Digest), 16)
	for i := range r.Parts {
		key += strconv.FormatUint(uint64(r.Parts[i].Digest), 16)
	}
	return key
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

func sortByName(list []*result.Resource) {
	slices.SortStableFunc(list, func(x, y *result.Resource) int { return cmp.Compare(x.Name, y.Name) })
}
