package xds_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

const addedCluster = `
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  SPEC
  configPatches:
  - applyTo: CLUSTER
    MATCH
    patch: {operation: ADD, value: {name: added, connect_timeout: 1s}}
`

// TestEnvoyFilterSelection: which EnvoyFilters apply to a proxy (CDS-16, EF-1):
// those of the root namespace and its own, by labels, targetRefs, version and
// metadata.
func TestEnvoyFilterSelection(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, spec, match string
		want                   bool
	}{
		"own namespace":     {namespace: "shop", want: true},
		"root namespace":    {namespace: "istio-system", want: true},
		"other namespace":   {namespace: "web"},
		"selected":          {namespace: "shop", spec: "workloadSelector: {labels: {app: client}}", want: true},
		"not selected":      {namespace: "istio-system", spec: "workloadSelector: {labels: {app: other}}"},
		"target of another": {namespace: "shop", spec: "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gw}]"},
		"version":           {namespace: "shop", match: `match: {proxy: {proxyVersion: '^1\.31\..*'}}`, want: true},
		"other version":     {namespace: "shop", match: `match: {proxy: {proxyVersion: '^1\.30.*'}}`},
		"metadata":          {namespace: "shop", match: `match: {proxy: {metadata: {NOT_SET: "1"}}}`},
		"gateways":          {namespace: "shop", match: `match: {context: GATEWAY}`},
		"outbound":          {namespace: "shop", match: `match: {context: SIDECAR_OUTBOUND}`, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("NAMESPACE", c.namespace, "NAME", "filter", "SPEC", c.spec, "MATCH", c.match).Replace(addedCluster)
			file := filepath.Join(t.TempDir(), "filter.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			m := build(t, "", "testdata/cluster/base.yaml", "testdata/cluster/ingress.yaml", file)
			cds, _, _ := m.clusters(sidecarOf(t, m.view))
			var names []string
			for _, r := range cds {
				names = append(names, r.Name)
			}
			if got := slices.Contains(names, "added"); got != c.want {
				t.Errorf("added: %v, want %v; clusters %v", got, c.want, names)
			}
		})
	}
}

func sidecarOf(t *testing.T, view *mesh.View) *mesh.Proxy {
	t.Helper()
	for _, p := range view.Proxies {
		if p.Kind == mesh.SidecarProxy {
			return p
		}
	}
	t.Fatal("no sidecar")
	return nil
}
