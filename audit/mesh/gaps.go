package mesh

import (
	"slices"
	"sort"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// gaps collects what the model leaves out of a mesh.
type gaps struct{ list []result.Gap }

func (g *gaps) add(gap result.Gap) {
	if !slices.ContainsFunc(g.list, func(have result.Gap) bool {
		return have.Kind == gap.Kind && have.Object == gap.Object && have.Text == gap.Text
	}) {
		g.list = append(g.list, gap)
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

// everywhere are the kinds outside Istio's own whose reach is not the
// namespace that they are in.
var everywhere = []string{
	"BackendTLSPolicy", "Gateway", "GatewayClass", "GRPCRoute", "HTTPRoute", "InferencePool", "Ingress", "ListenerSet",
	"ReferenceGrant", "ServiceExport", "ServiceImport", "TCPRoute", "TLSRoute", "UDPRoute", "XBackendTrafficPolicy",
	"XListenerSet",
}

// objects notes the objects of kinds that istiod reads and the model does not,
// with the proxies that each may touch.
func (m *Mesh) objectGaps(g *gaps) {
	for i := range m.Snapshot.Unmodelled {
		object := &m.Snapshot.Unmodelled[i]
		gap := result.Gap{Kind: result.Unmodelled, Object: object.Ref(), Text: object.Kind + " is not modelled"}
		gap.All = object.Namespace == "" || slices.Contains(everywhere, object.Kind)
		for _, view := range m.Views {
			if object.Namespace == view.RootNamespace {
				gap.All = true
			}
			if gap.All || !view.reads(object) {
				continue
			}
			gap.Proxies = append(gap.Proxies, view.proxyNames(func(p *Proxy) bool { return p.Namespace == object.Namespace })...)
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
	if len(v.Networks.GetNetworks()) > 0 {
		g.all("meshNetworks is set: gateways to other networks are not modelled")
	}
	networks := map[string]bool{}
	for i := range v.Endpoints.Rows {
		networks[v.Endpoints.Rows[i].Network] = true
	}
	if len(networks) > 1 {
		g.all("endpoints are in several networks: gateways between them are not modelled")
	}
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

// settings reads the view's mesh config and networks.
func (v *View) settings(snap *snapshot.Snapshot, g *gaps) {
	v.Config = DefaultMeshConfig()
	v.Networks, _, _ = ParseMeshNetworks("")
	cm := v.meshConfigMap(snap)
	text := snap.Overrides.MeshConfigYAML
	var object result.Ref
	if text == "" && cm != nil {
		text, object = cm.Data["mesh"], cm.Ref()
	}
	cfg, unknown, err := ApplyMeshConfig(text, v.Config)
	switch {
	case err != nil:
		g.add(result.Gap{Kind: result.Unread, Object: object, All: true, Text: err.Error() + ": istiod's defaults are taken"})
	case snap.Overrides.MeshConfig != nil && snap.Overrides.MeshConfigYAML == "":
		v.Config = snap.Overrides.MeshConfig
	default:
		v.Config = cfg
	}
	for _, path := range unknown {
		g.unmodelled(object, "mesh config field "+path+" is not known to this version of mesh-audit")
	}
	if cm != nil {
		networks, unknown, err := ParseMeshNetworks(cm.Data["meshNetworks"])
		if err != nil {
			g.add(result.Gap{Kind: result.Unread, Object: cm.Ref(), All: true, Text: err.Error()})
		}
		for _, path := range unknown {
			g.unmodelled(cm.Ref(), "meshNetworks field "+path+" is not known to this version of mesh-audit")
		}
		v.Networks = networks
	}
	v.RootNamespace = v.Config.GetRootNamespace()
}

// meshConfigMap is the ConfigMap that istiod reads in its own namespace: "istio",
// or "istio-<revision>" (Istio pilot/pkg/bootstrap/mesh.go).
func (v *View) meshConfigMap(snap *snapshot.Snapshot) *snapshot.ConfigMap {
	name := "istio"
	if v.Revision != DefaultRevision {
		name = "istio-" + v.Revision
	}
	for i := range snap.ConfigMaps {
		cm := &snap.ConfigMaps[i]
		if cm.Name == name && cm.Namespace == v.Namespace {
			return cm
		}
	}
	return nil
}
