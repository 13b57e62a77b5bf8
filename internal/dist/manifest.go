package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// manifestName is what krew wants the file to be called: the plugin's name.
const manifestName = "mesh-audit.yaml"

// writeManifest fills the version and the platforms into krew.yaml.
func (r *release) writeManifest(built []archive) error {
	text, err := os.ReadFile(filepath.Join(r.root, "krew.yaml"))
	if err != nil {
		return err
	}
	var manifest map[string]any
	if err := yaml.UnmarshalStrict(text, &manifest); err != nil {
		return fmt.Errorf("krew.yaml: %w", err)
	}
	spec, ok := manifest["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("krew.yaml: no spec")
	}
	spec["version"] = r.version
	var list []any
	for _, a := range built {
		list = append(list, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": a.os, "arch": a.arch}},
			"uri":      strings.TrimSuffix(r.url, "/") + "/" + a.name,
			"sha256":   a.sha256,
			"bin":      a.executable(),
			"files": []any{
				map[string]any{"from": a.executable(), "to": "."},
				map[string]any{"from": "LICENSE", "to": "."},
			},
		})
	}
	spec["platforms"] = list
	out, err := yaml.Marshal(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, manifestName), out, 0o644)
}
