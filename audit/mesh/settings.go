package mesh

import (
	"maps"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// settings reads the view's mesh config and networks. Each source's mesh config
// goes over that of the ones before; of networks the first that is there counts
// (Istio pkg/config/mesh/meshwatcher/collection.go).
func (v *View) settings(snap *snapshot.Snapshot, g *gaps) {
	v.Config = DefaultMeshConfig()
	v.Networks, _, _ = ParseMeshNetworks("")
	networks := false
	for _, source := range v.configSources(snap, g) {
		if text, has := source.Data["mesh"]; has {
			v.applyConfig(source.Ref(), text, g)
		}
		if text, has := source.Data["meshNetworks"]; has && !networks {
			networks = true
			v.readNetworks(source.Ref(), text, g)
		}
	}
	v.Config = known(v.Version, v.Config)
	v.RootNamespace = v.Config.GetRootNamespace()
}

// configSources are the ConfigMap that istiod shares with others, and its own:
// "istio", or "istio-<revision>" (Istio pilot/pkg/bootstrap/mesh.go). The mesh
// config that the user gave stands in place of its own.
func (v *View) configSources(snap *snapshot.Snapshot, g *gaps) []*snapshot.ConfigMap {
	var sources []*snapshot.ConfigMap
	if v.Istiod != nil && v.Istiod.SharedMeshConfig() != "" {
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
		sources = append(sources, &snapshot.ConfigMap{Data: map[string]string{"mesh": given}})
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
	out := &snapshot.ConfigMap{Meta: cm.Meta, Data: maps.Clone(cm.Data)}
	delete(out.Data, key)
	return out
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
// cannot read changes nothing.
func (v *View) applyConfig(object result.Ref, text string, g *gaps) {
	cfg, unknown, err := ApplyMeshConfig(text, v.Config)
	if err != nil {
		g.add(result.Gap{Kind: result.Unread, Object: object, All: true, Text: err.Error() + ": istiod's defaults are taken"})
	} else {
		v.Config = cfg
	}
	for _, path := range unknown {
		g.unmodelled(object, "mesh config field "+path+" is not known to this version of mesh-audit")
	}
}

func (v *View) readNetworks(object result.Ref, text string, g *gaps) {
	networks, unknown, err := ParseMeshNetworks(text)
	if err != nil {
		g.add(result.Gap{Kind: result.Unread, Object: object, All: true, Text: err.Error()})
	}
	for _, path := range unknown {
		g.unmodelled(object, "meshNetworks field "+path+" is not known to this version of mesh-audit")
	}
	v.Networks = networks
}
