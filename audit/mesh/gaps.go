package mesh

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// gaps collects what the model leaves out of a mesh.
type gaps struct {
	list   []result.Gap
	told   map[gapKey]bool
	shared map[sharedGapKey]*sharedGap
}

// gapKey tells gaps apart.
type gapKey struct {
	kind   result.GapKind
	object result.Ref
	text   string
}

// sharedGapKey tells those apart that several proxies may share.
type sharedGapKey struct {
	kind result.GapKind
	text string
}

// sharedGap is a gap in the list with its proxies.
type sharedGap struct {
	at      int
	proxies map[string]bool
}

func newGaps() *gaps { return &gaps{told: map[gapKey]bool{}, shared: map[sharedGapKey]*sharedGap{}} }

func (g *gaps) add(gap result.Gap) {
	if key := (gapKey{gap.Kind, gap.Object, gap.Text}); !g.told[key] {
		g.told[key] = true
		g.list = append(g.list, gap)
	}
}

// forProxy notes a gap of one proxy, together with others' of the same text,
// which are told of the first one's object.
func (g *gaps) forProxy(gap result.Gap, proxy string) {
	key := sharedGapKey{gap.Kind, gap.Text}
	known := g.shared[key]
	if known == nil {
		known = &sharedGap{at: len(g.list), proxies: map[string]bool{}}
		g.shared[key] = known
		g.list = append(g.list, gap)
	}
	if !known.proxies[proxy] {
		known.proxies[proxy] = true
		g.list[known.at].Proxies = append(g.list[known.at].Proxies, proxy)
	}
}

// absorb notes all that other has noted.
func (g *gaps) absorb(other *gaps) {
	shared := make([]bool, len(other.list))
	for _, s := range other.shared {
		shared[s.at] = true
	}
	for i, gap := range other.list {
		if !shared[i] {
			g.add(gap)
			continue
		}
		proxies := gap.Proxies
		gap.Proxies = nil
		for _, proxy := range proxies {
			g.forProxy(gap, proxy)
		}
	}
}

// unmodelled notes an object whose effect on all proxies is unknown.
func (g *gaps) unmodelled(object result.Ref, text string) {
	g.add(result.Gap{Kind: result.Unmodelled, Object: object, All: true, Text: text})
}

// all notes a limit that no single object has.
func (g *gaps) all(text string) {
	g.add(result.Gap{Kind: result.Unmodelled, All: true, Text: text})
}

// The versions whose behaviour the tables of flags and behaviours tell.
var (
	oldest = Version{1, 24, 0, ""}
	newest = Version{1, 32, 0, ""}
)

// everywhere are the kinds outside Istio's own whose reach is not the
// namespace that they are in.
var everywhere = []string{
	"BackendTLSPolicy", "Gateway", "GatewayClass", "GRPCRoute", "HTTPRoute", "InferencePool", "ListenerSet",
	"ReferenceGrant", "ServiceExport", "ServiceImport", "TCPRoute", "TLSRoute", "UDPRoute", "XBackendTrafficPolicy",
	"XListenerSet",
}

// objects notes the objects of kinds that istiod reads and the model does not,
// with the proxies that each may touch.
func (m *Mesh) objectGaps(g *gaps) {
	for i := range m.Snapshot.Unmodelled {
		object := &m.Snapshot.Unmodelled[i]
		gap := result.Gap{Kind: result.Unmodelled, Object: object.Ref(), Text: object.Kind + " is not modelled"}
		kind, _, _ := strings.Cut(object.Kind, ".") // without the group
		gap.All = object.Namespace == "" || slices.Contains(everywhere, kind)
		for _, view := range m.Views {
			if object.Namespace == view.RootNamespace {
				gap.All = true
			}
			if gap.All || !view.reads(object) {
				continue
			}
			gap.Proxies = append(gap.Proxies, view.proxyNames(func(p *Proxy) bool {
				if kind == "Ingress" {
					return p.Kind == RouterProxy
				}
				return p.Namespace == object.Namespace
			})...)
		}
		if gap.All {
			gap.Proxies = nil
		}
		sort.Strings(gap.Proxies)
		g.add(gap)
	}
}

// proxyNames are "namespace/name" of the proxies that match.
func (v *View) proxyNames(match func(*Proxy) bool) []string {
	var out []string
	for _, p := range v.Proxies {
		if match(p) {
			out = append(out, p.Namespace+"/"+p.Name)
		}
	}
	return out
}

// istiodRef names the view's istiod, or the mesh ConfigMap's namespace alone.
func (v *View) istiodRef() result.Ref {
	if v.Istiod == nil {
		return result.Ref{}
	}
	return v.Istiod.Ref()
}

// settingGaps notes what of a view's settings the model does not know.
func (v *View) settingGaps(g *gaps) {
	for _, name := range v.Flags.Unknown {
		g.unmodelled(v.istiodRef(), "istiod variable "+name+" is set and not modelled")
	}
	if v.Version.Compare(oldest) < 0 || v.Version.AtLeast(newest.Major, newest.Minor+1, 0) {
		g.unmodelled(v.istiodRef(), "Istio "+v.Version.String()+" is outside the versions that the model knows, "+
			oldest.String()+" to "+newest.String()+": it is taken to behave like the nearest")
	}
	if v.Istiod != nil && v.VersionAssumed {
		g.add(result.Gap{Kind: result.Assumed, Object: v.Istiod.Ref(), All: true,
			Text: "neither its image " + strconv.Quote(v.Istiod.Image) + " nor its labels tell a version: Istio " + v.Version.String() + " is assumed"})
	}
	if v.Flags.Ambient {
		g.unmodelled(v.istiodRef(), "PILOT_ENABLE_AMBIENT is on: HBONE tunnels, waypoints and ztunnels are not modelled")
	}
	if v.Istiod != nil {
		for _, e := range v.Istiod.Env {
			if e.From != "" && isFlag(e.Name) {
				g.unmodelled(v.istiodRef(), "istiod variable "+e.Name+" comes from "+e.From+", which was not read: its default is taken")
			}
		}
	}
	if names := v.proxyNames(func(p *Proxy) bool { return strings.EqualFold(p.Metadata.Raw["ENABLE_SELF_DISCOVERY"], "true") }); len(names) > 0 {
		g.add(result.Gap{Kind: result.Unmodelled, Proxies: names,
			Text: "ISTIO_META_ENABLE_SELF_DISCOVERY is on: the load assignment local_cluster is not modelled"})
	}
	v.panicGaps(g)
	if v.severalNetworks() {
		g.add(result.Gap{Kind: result.Assumed, All: true,
			Text: "the mesh has several networks, all taken to be of this cluster: services and endpoints of other clusters are not read"})
	}
	if n := v.unallocated(); n > 0 {
		g.all(strconv.Itoa(n) + " ServiceEntry hosts have no address in their status, and proxies with DNS capture would use one: " +
			"they are taken to have none")
	}
}

func (v *View) severalNetworks() bool {
	if len(v.Networks.GetNetworks()) > 1 {
		return true
	}
	network, found := "", false
	for i := range v.Endpoints.Rows {
		switch row := &v.Endpoints.Rows[i]; {
		case !found:
			network, found = row.Network, true
		case row.Network != network:
			return true
		}
	}
	return false
}

// unallocated counts the hosts that istiod's controller would give addresses to
// and that have none, if some proxy uses such addresses (REG-21).
func (v *View) unallocated() int {
	if !v.Flags.IPAutoallocate || !slices.ContainsFunc(v.Proxies, (*Proxy).UsesAutoAllocated) {
		return 0
	}
	n := 0
	for _, s := range v.Services {
		if s.Entry != nil && s.Address == unspecified && s.AutoV4 == "" && s.AutoV6 == "" && s.Resolution != Passthrough &&
			!strings.EqualFold(s.Labels[autoallocateLabel], "false") && (!wildcard(s.Host) || s.Resolution == DynamicDNS) {
			n++
		}
	}
	return n
}

func isFlag(name string) bool {
	return slices.ContainsFunc(flags, func(f flag) bool { return f.name == name })
}

func sortGaps(list []result.Gap) {
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Object.Kind != b.Object.Kind {
			return a.Object.Kind < b.Object.Kind
		}
		if a.Object.Namespace != b.Object.Namespace {
			return a.Object.Namespace < b.Object.Namespace
		}
		if a.Object.Name != b.Object.Name {
			return a.Object.Name < b.Object.Name
		}
		return a.Text < b.Text
	})
}
