package report

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// DiffJSON writes the diff as one indented JSON document.
func DiffJSON(w io.Writer, d *result.Diff) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// DiffYAML writes the same document as YAML.
func DiffYAML(w io.Writer, d *result.Diff) error {
	out, err := yaml.Marshal(d)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
