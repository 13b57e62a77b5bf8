package mesh

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pkg/config/mesh"
)

// Config is the mesh configuration that istiod d reads from its ConfigMaps:
// the shared one (SHARED_MESH_CONFIG) first, then its own, on the defaults.
func Config(objs []Object, d Istiod) (*meshconfig.MeshConfig, error) {
	out := mesh.DefaultMeshConfig()
	err := eachSource(objs, d, "mesh", func(text string) error {
		merged, err := mesh.ApplyMeshConfig(text, out)
		if err == nil {
			out = merged
		}
		return err
	})
	return out, err
}

// Networks is the networks configuration that istiod d reads: of the first
// ConfigMap that has one.
func Networks(objs []Object, d Istiod) (*meshconfig.MeshNetworks, error) {
	out, found := &meshconfig.MeshNetworks{}, false
	err := eachSource(objs, d, "meshNetworks", func(text string) error {
		if found {
			return nil
		}
		found = true
		parsed, err := mesh.ParseMeshNetworks(text)
		if err == nil {
			out = parsed
		}
		return err
	})
	return out, err
}

// eachSource calls apply with a key of the ConfigMaps that d reads.
func eachSource(objs []Object, d Istiod, key string, apply func(string) error) error {
	for _, name := range []string{d.Env["SHARED_MESH_CONFIG"], configMapName(d)} {
		for _, o := range objs {
			if name == "" || o.Kind != "ConfigMap" || o.Name != name || o.Namespace != d.Namespace {
				continue
			}
			var cm corev1.ConfigMap
			if err := json.Unmarshal(o.JSON, &cm); err != nil {
				return fmt.Errorf("%s: %w", o, err)
			}
			text, ok := cm.Data[key]
			if !ok {
				continue
			}
			if err := apply(text); err != nil {
				return fmt.Errorf("%s: %s: %w", o, key, err)
			}
		}
	}
	return nil
}

// configMapName is the ConfigMap of d's revision.
func configMapName(d Istiod) string {
	if d.isDefault() {
		return "istio"
	}
	return "istio-" + d.Revision
}
