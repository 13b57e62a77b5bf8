package mesh

import (
	"maps"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/validation"
)

// settings reads the view's mesh config and networks. Each source's mesh config
// goes over that of the ones before; of networks the first that is there counts
// (Istio pkg/config/mesh/meshwatcher/collection.go).
func (v *View) settings(snap *snapshot.Snapshot, g *gaps) {
	v.Config = DefaultMeshConfig()
	v.Networks = &meshconfig.MeshNetworks{}
	networks := false
	instead := keptConfig
	if v.sharesConfig() {
		instead = otherConfig
	}
	for _, source := range v.configSources(snap, g) {
		if text, has := source.Data["mesh"]; has {
			v.applyConfig(configText{"mesh config", text, source.Ref(), source.MeshLine, instead}, g)
		}
		if text, has := source.Data["meshNetworks"]; has && !networks {
			networks = true
			v.readNetworks(configText{"meshNetworks", text, source.Ref(), source.NetworksLine, keptConfig}, g)
		}
	}
	v.Config = known(v.Version, v.Config)
	v.RootNamespace = v.Config.GetRootNamespace()
}

// What istiod has in place of a text that it refuses.
const (
	keptConfig  = "keeps what it had before or its defaults, which are taken here"
	otherConfig = "goes by the other of its two ConfigMaps (SHARED_MESH_CONFIG names one), on its defaults, as is done here"
)

// sharesConfig: istiod reads its mesh config from two places.
func (v *View) sharesConfig() bool { return v.Istiod != nil && v.Istiod.SharedMeshConfig() != "" }

// configSources are the ConfigMap that istiod shares with others, and its own:
// "istio", or "istio-<revision>" (Istio pilot/pkg/bootstrap/mesh.go). The mesh
// config that the user gave stands in place of its own.
func (v *View) configSources(snap *snapshot.Snapshot, g *gaps) []*snapshot.ConfigMap {
	var sources []*snapshot.ConfigMap
	if v.sharesConfig() {
		name := v.Istiod.SharedMeshConfig()
		if cm := v.configMap(snap, name); cm != nil {
			sources = append(sources, cm)
		} else {
			g.add(result.Gap{Kind: result.Assumed, Object: v.Istiod.Ref(), All: true, Text: "SHARED_MESH_CONFIG names ConfigMap " +
				v.Namespace + "/" + name + ", which is not in what was read: taken to be empty"})
		}
	}
	name := "istio"
	if v.Revision != DefaultRevision {
		name = "istio-" + v.Revision
	}
	own := v.configMap(snap, name)
	if given := snap.Overrides.MeshConfigYAML; given != "" {
		from := snap.Overrides.MeshConfigFrom
		sources = append(sources, &snapshot.ConfigMap{
			Meta: snapshot.Meta{Kind: "MeshConfig", Source: from}, Data: map[string]string{"mesh": given}, MeshLine: from.Line,
		})
		own = without(own, "mesh")
	}
	if own != nil {
		sources = append(sources, own)
	}
	return sources
}

// without is a ConfigMap less a key; nil stays nil.
func without(cm *snapshot.ConfigMap, key string) *snapshot.ConfigMap {
	if cm == nil {
		return nil
	}
	out := *cm
	out.Data = maps.Clone(cm.Data)
	delete(out.Data, key)
	return &out
}

// configMap is a ConfigMap of istiod's own namespace; nil if it was not read.
func (v *View) configMap(snap *snapshot.Snapshot, name string) *snapshot.ConfigMap {
	for i := range snap.ConfigMaps {
		if cm := &snap.ConfigMaps[i]; cm.Name == name && cm.Namespace == v.Namespace {
			return cm
		}
	}
	return nil
}

// applyConfig puts a source's mesh config over those before it. One that istiod
// refuses changes nothing.
func (v *View) applyConfig(t configText, g *gaps) {
	cfg, unknown, refused := ApplyMeshConfig(t.text, v.Config)
	t.unknown(g, unknown)
	if len(refused) == 0 {
		refused = validation.MeshConfig(known(v.Version, cfg))
	}
	if t.refused(g, refused); len(refused) == 0 {
		v.Config = cfg
	}
}

func (v *View) readNetworks(t configText, g *gaps) {
	networks, unknown, refused := ParseMeshNetworks(t.text)
	t.unknown(g, unknown)
	if len(refused) == 0 {
		refused = validation.MeshNetworks(networks)
	}
	if t.refused(g, refused); len(refused) == 0 {
		v.Networks = networks
	}
}

// configText is a text of istiod's settings, and where it is from.
type configText struct {
	what, text string
	object     result.Ref
	line       int    // of the object's file, at which the text begins; 0: not known line by line
	instead    string // what istiod does when it refuses the text
}

// unknown notes the fields that this build's API does not have.
func (t configText) unknown(g *gaps, paths []string) {
	for _, path := range paths {
		g.unmodelled(t.ref(path), t.what+" field "+path+" is not known to this version of mesh-audit")
	}
}

// refused notes why istiod takes nothing of the text.
func (t configText) refused(g *gaps, problems []validation.Problem) {
	for _, p := range problems {
		g.add(result.Gap{Kind: result.Unread, Object: t.ref(p.Field), All: true, Text: t.what + ": " + p.String() +
			"; istiod refuses the whole of it, and " + t.instead})
	}
}

// ref names the object, with the line of a field.
func (t configText) ref(field string) result.Ref {
	ref := t.object
	if line := lineOf(t.text, field); line > 0 && t.line > 0 {
		ref.Source.Line = t.line + line - 1
	}
	return ref
}
