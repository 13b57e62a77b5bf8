package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const gatewayWithKeys = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: ingress, namespace: edge}
spec:
  selector: {matchLabels: {istio: ingress}}
  template:
    metadata: {annotations: {inject.istio.io/templates: gateway}, labels: {istio: ingress, sidecar.istio.io/inject: "true"}}
    spec: {containers: [{name: istio-proxy, image: auto}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: client, namespace: edge}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client, sidecar.istio.io/inject: "true"}}
    spec: {containers: [{name: c, image: x}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: edge}
spec:
  selector: {istio: ingress}
  servers:
  - {port: {number: 8080, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 8443, name: https, protocol: HTTPS}, hosts: ["*"], tls: {mode: SIMPLE, credentialName: front}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: jwt, namespace: edge}
spec: {selector: {matchLabels: {istio: ingress}}, jwtRules: [{issuer: a, jwksUri: "https://a.example/keys"}]}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: inline, namespace: edge}
spec: {selector: {matchLabels: {istio: ingress}}, jwtRules: [{issuer: b, jwks: "{}"}]}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: plug, namespace: edge}
spec: {selector: {matchLabels: {app: client}}, url: oci://hub.example/plug, imagePullSecret: pull}
`

// TestFetchedKeys: a key set of 2000 bytes in place of the placeholder of 426 is
// 1574 bytes more in the one connection manager of a listener: all lengths
// around it have two bytes before and after (each message is longer than 127
// and shorter than 16384).
func TestFetchedKeys(t *testing.T) {
	size := func(keySet int, env map[string]string) (int64, *result.Audit) {
		a := audited(t, read(t, gatewayWithKeys, snapshot.Overrides{KeySetBytes: keySet, Env: env}))
		for i := range a.Scopes {
			for _, l := range a.Scopes[i].Resources.LDS {
				if l.Name == "0.0.0.0_8080" && strings.HasPrefix(a.Scopes[i].Text, "gateways") {
					return l.Bytes, a
				}
			}
		}
		t.Fatal("the gateway has no listener")
		return 0, nil
	}
	placeholder, a := size(0, nil)
	if long, _ := size(2000, nil); long-placeholder != 1574 || placeholder < 128+426 {
		t.Errorf("%d bytes with the placeholder, %d with 2000 bytes of keys", placeholder, long)
	}
	// In hybrid mode istiod still fetches what no cluster of the mesh leads to.
	hybrid, told := size(2000, map[string]string{"PILOT_JWT_ENABLE_REMOTE_JWKS": "hybrid"})
	if hybrid-placeholder != 1574 || !slices.ContainsFunc(told.Gaps, func(g result.Gap) bool { return g.Object.Name == "jwt" }) {
		t.Errorf("hybrid: %d bytes for %d, gaps %v", hybrid, placeholder, told.Gaps)
	}
	// Each gap of the bytes names the object and the proxies that it touches.
	want := map[string]string{
		"assumed RequestAuthentication jwt": "edge/ingress-",
		"unmodelled Gateway front":          "edge/ingress-",
		"unmodelled WasmPlugin plug":        "edge/client-",
	}
	for _, g := range a.Gaps {
		id := string(g.Kind) + " " + g.Object.Kind + " " + g.Object.Name
		if g.Object.Namespace != "edge" {
			continue
		}
		prefix, ok := want[id]
		if !ok || len(g.Proxies) != 1 || !slices.ContainsFunc(g.Proxies, func(p string) bool { return strings.HasPrefix(p, prefix) }) {
			t.Errorf("gap %s: %s %v", id, g.Text, g.Proxies)
		}
		delete(want, id)
	}
	if len(want) > 0 {
		t.Errorf("no gap: %v", want)
	}
}

const dnsInTwoPlaces = `
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, sidecar.istio.io/inject: "true"}}
spec: {containers: [{name: web, image: x}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec:
  hosts: [api.example.com]
  ports: [{number: 443, name: tls, protocol: TLS}]
  resolution: DNS
  endpoints: [{address: a.example.com, locality: eu/a}, {address: b.example.com, locality: eu/b}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: api, namespace: shop}
spec:
  host: api.example.com
  trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}, loadBalancer: {localityLbSetting: {failoverPriority: [version]}}}
`

// TestFailoverPanics: istiod 1.31 panics on this mesh ("index out of range [1]
// with length 1" in applyFailoverPriorityPerLocality, seen with the judge), and
// not where anything of it is missing.
func TestFailoverPanics(t *testing.T) {
	for name, c := range map[string]struct {
		old, changed, version string
		panics                bool
	}{
		"as it is":             {panics: true},
		"1.28":                 {version: "1.28.10"},
		"no outlier detection": {old: "outlierDetection: {consecutive5xxErrors: 3}, "},
		"no priority labels":   {old: "failoverPriority: [version]", changed: "enabled: true"},
		"one locality":         {old: "eu/b", changed: "eu/a"},
		"endpoints by EDS":     {old: "resolution: DNS\n  endpoints: [{address: a.example.com, locality: eu/a}, {address: b.example.com,", changed: "resolution: STATIC\n  endpoints: [{address: 10.1.1.1, locality: eu/a}, {address: 10.1.1.2,"},
	} {
		a := audited(t, read(t, strings.Replace(dnsInTwoPlaces, c.old, c.changed, 1), snapshot.Overrides{IstioVersion: c.version}))
		told := slices.ContainsFunc(a.Gaps, func(g result.Gap) bool { return g.Object.Name == "api" && strings.Contains(g.Text, "panics") })
		if told != c.panics {
			t.Errorf("%s: the panic is told: %v; gaps %v", name, told, a.Gaps)
		}
	}
}
