package mesh_test

import (
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// TestRefusedMeshConfig: what istiod 1.31 refuses (Istio
// pkg/config/validation/agent, pkg/config/mesh) is unread, with the field and
// its line, and nothing of the whole text counts.
func TestRefusedMeshConfig(t *testing.T) {
	for _, c := range []struct{ yaml, line, text string }{
		{"accessLogEncoding: XML", "accessLogEncoding", `accessLogEncoding: "XML" is none of TEXT, JSON`},
		{"outboundTrafficPolicy:\n  mode: NOPE", "  mode", `outboundTrafficPolicy.mode: "NOPE" is none of REGISTRY_ONLY, ALLOW_ANY`},
		{"connectTimeout: 0s", "connectTimeout", "connectTimeout: 0s is less than 1ms"},
		{"connectTimeout: -5s", "connectTimeout", "connectTimeout: -5s is less than 1ms"},
		{"connectTimeout: 2h", "connectTimeout", "connectTimeout: 2h0m0s is more than an hour"},
		{"connectTimeout: soon", "connectTimeout", `connectTimeout: "soon" is not of its type`},
		{"proxyListenPort: 99999999", "proxyListenPort", "proxyListenPort: 99999999 is not between 1 and 65535"},
		{"proxyListenPort: many", "proxyListenPort", `proxyListenPort: "many" is not of its type`},
		{"trustDomain: a b", "trustDomain", `trustDomain: "a b" is not the name of a trust domain`},
		{"trustDomainAliases:\n- ok\n- a_b", "trustDomainAliases", `trustDomainAliases: "a_b"`},
		{"localityLbSetting:\n  distribute:\n  - from: r/*\n    to: {r/a: 50, r/b: 40}", "    to", "localityLbSetting.distribute[0].to: the weights add up to 90, not 100"},
		{"localityLbSetting:\n  failover:\n  - {from: a, to: a}", "  - {from", "localityLbSetting.failover[0]: from and to"},
		{"serviceSettings:\n- settings: {clusterLocal: true}\n  hosts:\n  - a_b", "  - a_b", "serviceSettings[0].hosts[0]"},
		{"meshMTLS: {ecdhCurves: [P-256]}", "meshMTLS", "meshMTLS.ecdhCurves"},
		{"defaultConfig:\n  drainDuration: 0s", "  drainDuration", "defaultConfig.drainDuration: 0s is less than 1ms"},
		{"defaultConfig:\n  drainDuration: 1500ms", "  drainDuration", "defaultConfig.drainDuration: 1.5s is not a whole number of seconds"},
		{"defaultConfig:\n  discoveryAddress: istiod", "  discoveryAddress", `defaultConfig.discoveryAddress: "istiod" is not of the form host:port`},
		{"defaultConfig:\n  discoveryAddress: istiod:0", "  discoveryAddress", "the port is not between 1 and 65535"},
		{"defaultConfig:\n  proxyAdminPort: 70000", "  proxyAdminPort", "defaultConfig.proxyAdminPort: 70000"},
		{"defaultConfig:\n  statusPort: 0", "  statusPort", "defaultConfig.statusPort: 0"},
		{"defaultConfig:\n  tracing:\n    zipkin: {address: nowhere}", "    zipkin", "defaultConfig.tracing.zipkin.address"},
		{"defaultConfig:\n  interceptionMode: MAGIC", "  interceptionMode", `defaultConfig.interceptionMode: "MAGIC" is none of REDIRECT, TPROXY, NONE`},
		{"defaultProviders:\n  tracing: x", "  tracing", `defaultProviders.tracing: "x" is not of its type`},
		{"defaultConfig: 5", "defaultConfig", "defaultConfig: 5 is not of its type"},
		{"defaultConfig: ''", "defaultConfig", `defaultConfig: "" is not of its type`},
		{"defaultConfig: [1]", "defaultConfig", "defaultConfig: [1] is not of its type"},
		{"defaultProviders: x", "defaultProviders", `defaultProviders: "x" is not of its type`},
		{"defaultConfig:\n  proxyMetadata:\n    A: 5", "", "defaultConfig.proxyMetadata.A: is not of its type"},
		{"defaultConfig:\n  proxyMetadata:\n    ISTIO_META_X: true", "    ISTIO_META_X", "defaultConfig.proxyMetadata.ISTIO_META_X: is not of its type"},
		{"defaultConfig:\n  proxyMetadata: [a]", "  proxyMetadata", `defaultConfig.proxyMetadata: ["a"] is not of its type`},
		{"- a", "", "cannot unmarshal array"},
	} {
		text := "accessLogFile: /dev/stdout\n" + c.yaml
		if c.line == "" {
			text = c.yaml
		}
		const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata:\n  mesh: |\n"
		m := mesh.New(read(t, head+"    "+strings.ReplaceAll(text, "\n", "\n    ")+"\n"))
		want := result.Source{File: "test.yaml", Line: 1}
		for i, line := range strings.Split(text, "\n") {
			if c.line != "" && strings.HasPrefix(line, c.line) {
				want.Line = strings.Count(head, "\n") + i + 1
			}
		}
		gap, found := unreadGap(m)
		if !found || !strings.Contains(gap.Text, c.text) || gap.Object.Source != want || gap.Object.Kind != "ConfigMap" || !gap.All {
			t.Errorf("%s:\nwant %q at %v, have %+v", c.yaml, c.text, want, gap)
		}
		if m.Views[0].Config.GetAccessLogFile() != "" {
			t.Errorf("%s: something of the refused text was taken", c.yaml)
		}
	}
}

func unreadGap(m *mesh.Mesh) (result.Gap, bool) {
	for _, g := range m.Gaps {
		if g.Kind == result.Unread {
			return g, true
		}
	}
	return result.Gap{}, false
}

// TestTakenMeshConfig: what istiod takes although it looks odd.
func TestTakenMeshConfig(t *testing.T) {
	for _, text := range []string{
		"connectTimeout: 1m30s",
		"protocolDetectionTimeout: 0s",
		"trustDomain: td.",
		"localityLbSetting: {distribute: [{from: r/*, to: {r/a: 50, r/b: 50}}]}",
		"defaultConfig: {tracing: {zipkin: {address: '$(HOST_IP):9411'}}}",
		"accessLogEncoding: 1",
		"defaultConfig: null",
	} {
		m := mesh.New(read(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio, namespace: istio-system}\ndata:\n  mesh: |\n    "+text+"\n"))
		if gap, found := unreadGap(m); found {
			t.Errorf("%s: %v", text, gap)
		}
	}
}

func TestRefusedMeshNetworks(t *testing.T) {
	m := mesh.New(read(t, `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  meshNetworks: |
    networks:
      east.1:
        endpoints: [{fromRegistry: Kubernetes}]
        gateways:
        - address: 1.2.3.4
          port: 0
`))
	gap, _ := unreadGap(m)
	if !strings.Contains(gap.Text, "networks.east.1.gateways[0].port: 0 is not between") || gap.Object.Source.Line != 11 || len(m.Views[0].Networks.GetNetworks()) > 0 {
		t.Errorf("gap %+v, networks %v", gap, m.Views[0].Networks)
	}
}

// TestRefusedAnnotation: a pod whose proxy cannot start is a gap of its own, one
// for all pods of the same text.
func TestRefusedAnnotation(t *testing.T) {
	const annotated = `annotations: {proxy.istio.io/config: "{drainDuration: 0s, concurrency: 7}"}`
	m := mesh.New(read(t, pod("shop", "a", "10.1.0.1", annotated, "", sidecarArgs)+pod("shop", "b", "10.1.0.2", annotated, "", sidecarArgs)))
	gap, _ := unreadGap(m)
	if !strings.Contains(gap.Text, "annotation proxy.istio.io/config: drainDuration: 0s is less than 1ms") || strings.Join(gap.Proxies, " ") != "shop/a shop/b" {
		t.Errorf("gap: %+v", gap)
	}
	for _, p := range m.Views[0].Proxies {
		if p.Config.GetConcurrency().GetValue() == 7 {
			t.Error("something of the refused annotation was taken")
		}
	}
}
