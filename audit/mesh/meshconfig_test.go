package mesh_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

func TestApplyMeshConfig(t *testing.T) {
	cfg, unknown, err := mesh.ApplyMeshConfig(`
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
	if err != nil {
		t.Fatal(err)
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
		cfg, unknown, err := mesh.ApplyMeshConfig(text, mesh.DefaultMeshConfig())
		if err != nil || len(unknown) != 0 || cfg.GetDefaultConfig().GetStatusPort() != 15020 || len(cfg.GetExtensionProviders()) != 3 {
			t.Errorf("%q: %v, unknown %v, %v", text, cfg, unknown, err)
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
