package mesh

import (
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

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
	default:
		v.Config = known(v.Version, cfg)
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
