package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func TestGaps(t *testing.T) {
	snap := read(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod, namespace: istio-system, labels: {app: istiod}}
spec:
  template:
    metadata: {labels: {app: istiod}}
    spec:
      containers:
      - name: discovery
        image: "istio/pilot:1.31.0"
        args: [discovery]
        env: [{name: PILOT_STRANGE, value: "1"}, {name: PILOT_ENABLE_AMBIENT, value: "true"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: '{strangeField: 1, defaultConfig: {alsoStrange: 2, proxyMetadata: {ISTIO_META_DNS_CAPTURE: "true"}}}'}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: auto, namespace: a}
spec: {hosts: [auto.example.com], ports: [{number: 7000, name: tcp, protocol: TCP}], resolution: DNS}
---
`+pod("a", "p", "10.1.0.1", "labels: {app: p}", "", sidecarArgs)+pod("b", "way", "10.1.0.2", "labels: {app: w}", "", "proxy, waypoint"))
	snap.Unmodelled = []snapshot.Meta{
		{Kind: "TrafficExtension", Namespace: "a", Name: "x"}, {Kind: "HTTPRoute", Namespace: "a", Name: "r"},
		{Kind: "TrafficExtension", Namespace: "empty", Name: "y"},
	}
	var got []string
	for _, g := range mesh.New(snap).Gaps {
		got = append(got, fmt.Sprint(g.Kind, " ", g.Object.Kind, " ", g.Object.Name, " ", g.Proxies, " ", g.All))
	}
	want := []string{
		"unmodelled   [] true", // no allocated address
		"unmodelled ConfigMap istio [] true", "unmodelled ConfigMap istio [] true",
		"unmodelled Deployment istiod [] true", "unmodelled Deployment istiod [] true",
		"unmodelled HTTPRoute r [] true",
		"unmodelled Pod way [b/way] false",
		"unmodelled TrafficExtension x [a/p] false",
		"unmodelled TrafficExtension y [] false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

func TestOddInput(t *testing.T) {
	m := mesh.New(&snapshot.Snapshot{
		ServiceEntries:   make([]snapshot.ServiceEntry, 1),
		Services:         nil,
		Pods:             []snapshot.Pod{{Proxy: &snapshot.ProxyContainer{}}, {Proxy: &snapshot.ProxyContainer{Args: []string{"proxy"}}, IPs: []string{"not an address"}}},
		Slices:           []snapshot.EndpointSlice{{Service: "s", Endpoints: []snapshot.SliceEndpoint{{Addresses: []string{""}}}, Ports: []snapshot.SlicePort{{}}}},
		Istiods:          make([]snapshot.Istiod, 2),
		ConfigMaps:       make([]snapshot.ConfigMap, 1),
		VirtualServices:  nil,
		DestinationRules: nil,
	})
	if len(m.Views) != 1 || len(m.Views[0].Proxies) != 1 {
		t.Errorf("views %v", m.Views)
	}
}

// TestPanics: what istiod 1.31 falls over on is no answer (istio/istio#61433;
// pilot/pkg/networking/core/tracing.go has no case for lightstep).
func TestPanics(t *testing.T) {
	const input = `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    extensionProviders: [{name: step, lightstep: {service: a.b, port: 80, accessToken: x}}]
    defaultProviders: {tracing: [step]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: any, namespace: a}
spec: {hosts: ["*.example.com"], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DYNAMIC_DNS}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: eject, namespace: a}
spec: {host: "*.example.com", trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}}
`
	var have []string
	for _, g := range mesh.New(read(t, input)).Gaps {
		if strings.Contains(g.Text, "panics") {
			have = append(have, g.Object.Name+": "+g.Text)
		}
	}
	if len(have) != 2 || !strings.Contains(have[0], "provider step is of lightstep") || !strings.HasPrefix(have[1], "eject: outlier detection for *.example.com") {
		t.Errorf("gaps: %q", have)
	}
}
