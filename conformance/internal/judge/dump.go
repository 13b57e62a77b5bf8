package judge

import (
	"encoding/json"
	"fmt"
	"io"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	corev1 "k8s.io/api/core/v1"

	"istio.io/istio/pkg/util/protomarshal"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Dump prints a proxy's resources of a type and name as JSON; without a type
// or a name, all of them. Of other proxies nothing is printed.
func Dump(m *mesh.Mesh, ns, pod, typ, name string, w io.Writer) error {
	var only []*corev1.Pod
	for _, p := range m.Pods {
		if p.Namespace == ns && p.Name == pod {
			only = append(only, p)
		}
	}
	m.Pods = only
	return Run(m, func(_ *corev1.Pod, _ string, raw Raw) error {
		for _, t := range report.Types {
			if typ != "" && typ != t {
				continue
			}
			for _, r := range raw[t] {
				if name != "" && name != r.Name {
					continue
				}
				if err := dumpResource(t, r, w); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// dumpResource prints one resource and its parts.
func dumpResource(typ string, r *discovery.Resource, w io.Writer) error {
	res, err := resource(typ, r)
	if err != nil {
		return err
	}
	body, err := protomarshal.ToJSONWithAnyResolver(r.Resource, " ", nil)
	if err != nil {
		return fmt.Errorf("%s %s: %w", typ, r.Name, err)
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(map[string]any{
		"type": typ, "name": r.Name, "bytes": res.Bytes, "parts": res.Parts,
		"resource": json.RawMessage(body),
	})
}
