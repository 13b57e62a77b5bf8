package report

import (
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// DataOptions say how much a machine-readable report carries.
type DataOptions struct {
	Resources bool // names and bytes of every resource
	Details   bool // with their parts and reasons, and the input's objects; for use with Resources
}

// JSON writes the audit as one indented JSON document.
func JSON(w io.Writer, a *result.Audit, o DataOptions) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(trim(a, o))
}

// YAML writes the same document as YAML.
func YAML(w io.Writer, a *result.Audit, o DataOptions) error {
	out, err := yaml.Marshal(trim(a, o))
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// trim returns a copy of the audit that carries what o asks for.
func trim(a *result.Audit, o DataOptions) *result.Audit {
	if o.Resources && o.Details {
		return a
	}
	out := *a
	out.Groups = append([]result.Group{}, a.Groups...)
	out.Scopes = append([]result.Scope{}, a.Scopes...)
	if !o.Details {
		out.Reasons, out.Objects = []result.Reason{}, nil
	}
	for i := range out.Groups {
		out.Groups[i].Resources = trimResources(out.Groups[i].Resources, o)
		if !o.Resources {
			out.Groups[i].Resized = result.Lists[result.Resized]{}
			out.Groups[i].Without = result.Lists[string]{}
		}
	}
	for i := range out.Scopes {
		out.Scopes[i].Resources = trimResources(out.Scopes[i].Resources, o)
	}
	return &out
}

func trimResources(r result.Resources, o DataOptions) result.Resources {
	var out result.Resources
	if !o.Resources {
		return out
	}
	for _, t := range result.Types {
		if *r.Of(t) == nil {
			continue
		}
		*out.Of(t) = make([]*result.Resource, 0, len(*r.Of(t)))
		for _, res := range *r.Of(t) {
			*out.Of(t) = append(*out.Of(t), &result.Resource{Name: res.Name, Bytes: res.Bytes})
		}
	}
	return out
}
