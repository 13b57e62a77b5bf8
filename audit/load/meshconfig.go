package load

import (
	"fmt"

	yaml "go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// MeshConfig takes the mesh config from a file that is one, or the istio
// ConfigMap that holds it. line is where the text begins in the file; 0: the
// file has it in a form whose lines are not those of the text.
func MeshConfig(file []byte) (text string, line int, err error) {
	var root yaml.Node
	if err := yaml.Unmarshal(file, &root); err != nil {
		return "", 0, err
	}
	var object struct {
		Kind string            `yaml:"kind"`
		Data map[string]string `yaml:"data"`
	}
	if err := root.Decode(&object); err != nil || object.Kind == "" {
		var fields map[string]any
		if err := root.Decode(&fields); err != nil && !root.IsZero() {
			return "", 0, err
		}
		return string(file), 1, nil
	}
	if object.Kind != "ConfigMap" || object.Data["mesh"] == "" {
		return "", 0, fmt.Errorf("a %s without a mesh config: give the istio ConfigMap, or what its key mesh holds", object.Kind)
	}
	return object.Data["mesh"], textLine(root.Content[0], "mesh"), nil
}

// textLines are the lines at which the texts of a ConfigMap begin, by key; nil
// if none is known.
func (it *item) textLines(o *corev1.ConfigMap) map[string]int {
	if it.raw != nil {
		return nil
	}
	var lines map[string]int
	for key := range o.Data {
		if line := textLine(it.node, key); line > 0 {
			if lines == nil {
				lines = map[string]int{}
			}
			lines[key] = line
		}
	}
	return lines
}

// textLine is the line at which a text of a ConfigMap's data begins, if it is
// written as a block, line by line; else 0.
func textLine(object *yaml.Node, key string) int {
	data := valueOf(dealias(object), "data")
	if data == nil {
		return 0
	}
	text := valueOf(dealias(data), key)
	if text == nil || text.Style&yaml.LiteralStyle == 0 {
		return 0
	}
	return text.Line + 1
}
