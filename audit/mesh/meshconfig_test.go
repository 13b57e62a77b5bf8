package mesh_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

func TestApplyMeshConfig(t *testing.T) {
	cfg, unknown, refused := mesh.ApplyMeshConfig(`
accessLogFile: /dev/stdout
enableTracing: false
connectTimeout: 1m30s
trustDomainAliases: [z, a]
defaultServiceExportTo: ["."]
localityLbSetting: {distribute: []}
newField: 1
outboundTrafficPolicy: {mode: REGISTRY_ONLY, other: 2}
defaultConfig:
  drainDuration: 100ms
  holdApplicationUntilProxyStarts: true
  proxyMetadata: {A: "1"}
defaultProviders: {metrics: [prometheus]}
extensionProviders:
- {name: envoy, envoyFileAccessLog: {path: /x}}
- {name: mine, envoyOtelAls: {service: otel.svc, port: 4317}}
`, mesh.DefaultMeshConfig())
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	if diff := cmp.Diff([]string{"newField", "outboundTrafficPolicy.other"}, unknown); diff != "" {
		t.Errorf("unknown fields (-want +got):\n%s", diff)
	}
	if cfg.GetEnableTracing() || cfg.GetConnectTimeout().AsDuration() != 90*time.Second ||
		cfg.GetOutboundTrafficPolicy().GetMode() != meshconfig.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY {
		t.Errorf("overrides: %v", cfg)
	}
	if cfg.GetLocalityLbSetting().GetEnabled() != nil {
		t.Error("a message is replaced as a whole, yet localityLbSetting.enabled stayed")
	}
	if got := cfg.GetDefaultConfig(); got.GetDrainDuration().AsDuration() != 100*time.Millisecond || got.GetStatusPort() != 15020 ||
		got.GetProxyMetadata()["A"] != "1" {
		t.Errorf("defaultConfig = %v", got)
	}
	var providers []string
	for _, p := range cfg.GetExtensionProviders() {
		providers = append(providers, p.GetName())
	}
	if diff := cmp.Diff([]string{"prometheus", "stackdriver", "envoy", "mine"}, providers); diff != "" {
		t.Errorf("extensionProviders (-want +got):\n%s", diff)
	}
	if path := cfg.GetExtensionProviders()[2].GetEnvoyFileAccessLog().GetPath(); path != "/x" {
		t.Errorf("provider envoy has path %q", path)
	}
	if diff := cmp.Diff([]string{"a", "z"}, cfg.GetTrustDomainAliases()); diff != "" {
		t.Errorf("trustDomainAliases (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"."}, cfg.GetDefaultServiceExportTo()); diff != "" {
		t.Errorf("defaultServiceExportTo (-want +got):\n%s", diff)
	}
}

func TestApplyMeshConfigOfNothing(t *testing.T) {
	for _, text := range []string{"", "{}", "null", "defaultConfig: null\ndefaultProviders:\n"} {
		cfg, unknown, refused := mesh.ApplyMeshConfig(text, mesh.DefaultMeshConfig())
		if len(refused) > 0 || len(unknown) != 0 || cfg.GetDefaultConfig().GetStatusPort() != 15020 || len(cfg.GetExtensionProviders()) != 3 {
			t.Errorf("%q: %v, unknown %v, %v", text, cfg, unknown, refused)
		}
	}
}

func TestUnreadableMeshConfigIsAGap(t *testing.T) {
	m := mesh.New(read(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "connectTimeout: [1]"}
`))
	if len(m.Views) != 1 || m.Views[0].Config.GetProxyListenPort() != 15001 {
		t.Fatalf("views: %v", m.Views)
	}
	for _, g := range m.Gaps {
		if g.Object.Kind == "ConfigMap" && g.Kind == "unread" {
			return
		}
	}
	t.Errorf("no gap names the ConfigMap: %v", m.Gaps)
}

const sharing = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod, namespace: istio-system, labels: {app: istiod}}
spec:
  template:
    metadata: {labels: {app: istiod}}
    spec:
      containers:
      - {name: discovery, image: "istio/pilot:1.31.0", args: [discovery], env: [{name: SHARED_MESH_CONFIG, value: all}]}
`

// The shared mesh config lies below istiod's own; of networks it comes first
// (Istio pkg/config/mesh/meshwatcher/collection.go).
func TestSharedMeshConfig(t *testing.T) {
	m := mesh.New(read(t, sharing+`
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: '{rootNamespace: own, defaultConfig: {proxyMetadata: {ISTIO_META_A: own}}}'
  meshNetworks: 'networks: {own: {}}'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: all, namespace: istio-system}
data:
  mesh: '{rootNamespace: shared, trustDomain: shared, defaultConfig: {statusPort: 15030, proxyMetadata: {ISTIO_META_A: shared, ISTIO_META_B: shared}}}'
  meshNetworks: 'networks: {shared: {}}'
`))
	cfg := m.Views[0].Config
	if cfg.GetRootNamespace() != "own" || cfg.GetTrustDomain() != "shared" || cfg.GetDefaultConfig().GetStatusPort() != 15030 {
		t.Errorf("%v", cfg)
	}
	if diff := cmp.Diff(map[string]string{"ISTIO_META_A": "own", "ISTIO_META_B": "shared"}, cfg.GetDefaultConfig().GetProxyMetadata()); diff != "" {
		t.Errorf("proxyMetadata (-want +got):\n%s", diff)
	}
	if networks := m.Views[0].Networks.GetNetworks(); len(networks) != 1 || networks["shared"] == nil {
		t.Errorf("networks: %v", networks)
	}
	for _, g := range m.Gaps {
		if strings.Contains(g.Text, "SHARED_MESH_CONFIG") {
			t.Errorf("gap: %s", g.Text)
		}
	}
}

func TestSharedMeshConfigMissing(t *testing.T) {
	m := mesh.New(read(t, sharing))
	if !slices.ContainsFunc(m.Gaps, func(g result.Gap) bool {
		return g.Kind == result.Assumed && g.Object.Name == "istiod" && strings.Contains(g.Text, "SHARED_MESH_CONFIG names ConfigMap istio-system/all, which is not in what was read")
	}) {
		t.Errorf("no gap tells: %v", m.Gaps)
	}
}

// Of two mesh configs istiod leaves out the one that it refuses, and goes by the
// other (Istio pkg/config/mesh/meshwatcher/collection.go).
func TestSharedMeshConfigRefused(t *testing.T) {
	texts := map[bool]string{
		false: "    rootNamespace: SOURCE\n    trustDomain: SOURCE\n",
		true:  "    rootNamespace: SOURCE\n    accessLogEncoding: XML\n",
	}
	configMap := func(name, source string, refused bool) string {
		return "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: istio-system}\ndata:\n  mesh: |\n" +
			strings.ReplaceAll(texts[refused], "SOURCE", source)
	}
	for name, test := range map[string]struct {
		shared, own bool // is refused
		root, trust string
		gaps        []string
	}{
		"the shared one": {shared: true, root: "own", trust: "own", gaps: []string{"all"}},
		"its own":        {own: true, root: "shared", trust: "shared", gaps: []string{"istio"}},
		"both":           {shared: true, own: true, root: "istio-system", trust: "cluster.local", gaps: []string{"all", "istio"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := mesh.New(read(t, sharing+configMap("all", "shared", test.shared)+configMap("istio", "own", test.own)))
			if cfg := m.Views[0].Config; cfg.GetRootNamespace() != test.root || cfg.GetTrustDomain() != test.trust {
				t.Errorf("root namespace %q, trust domain %q", cfg.GetRootNamespace(), cfg.GetTrustDomain())
			}
			var gaps []string
			for _, g := range m.Gaps {
				if g.Kind != result.Unread {
					continue
				}
				gaps = append(gaps, g.Object.Name)
				if !strings.HasPrefix(g.Text, `mesh config: accessLogEncoding: "XML" is none of TEXT, JSON; istiod refuses the whole of it, and goes by the other of its two ConfigMaps`) {
					t.Errorf("%s: %s", g.Object.Name, g.Text)
				}
			}
			slices.Sort(gaps)
			if diff := cmp.Diff(test.gaps, gaps); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}
