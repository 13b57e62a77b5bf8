package saved

import (
	"encoding/binary"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// The first byte of a key tells the kind of the value, and whether it is there.
const (
	keyNoPorts = iota
	keyPorts
	keyNoProxy
	keyProxy
)

func portsKey(list []snapshot.ContainerPort) []byte {
	if list == nil {
		return []byte{keyNoPorts}
	}
	key := []byte{keyPorts}
	for i := range list {
		p := &list[i]
		key = appendText(appendText(appendText(key, p.Name), p.Protocol), p.Container)
		key = binary.AppendVarint(key, int64(p.Port))
	}
	return key
}

func proxyKey(p *snapshot.ProxyContainer) []byte {
	if p == nil {
		return []byte{keyNoProxy}
	}
	key := append(make([]byte, 0, 1<<10), keyProxy)
	key = appendText(key, p.Image)
	key = fmt.Appendf(key, "%t %t %d %t %d", p.Native, p.Args == nil, len(p.Args), p.Env == nil, len(p.Env))
	for _, arg := range p.Args {
		key = appendText(key, arg)
	}
	for i := range p.Env {
		e := &p.Env[i]
		key = appendText(appendText(appendText(key, e.Name), e.Value), e.From)
	}
	return key
}

// allowed refuses a mesh config that could not be searched for what must not
// leave the cluster, and returns s without what must not of its overrides.
func allowed(s *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	object := func(text string) error {
		var fields map[string]any
		return yaml.Unmarshal([]byte(text), &fields)
	}
	for i := range s.ConfigMaps {
		for key, text := range s.ConfigMaps[i].Data {
			if err := object(text); err != nil {
				return nil, fmt.Errorf("no snapshot is written: ConfigMap %s/%s, key %s is not a YAML object, so that nobody can tell what is in it: %w",
					s.ConfigMaps[i].Namespace, s.ConfigMaps[i].Name, key, err)
			}
		}
	}
	out := *s
	out.Overrides.MeshConfigYAML = snapshot.AllowedMeshConfig(s.Overrides.MeshConfigYAML)
	return &out, object(out.Overrides.MeshConfigYAML)
}
