package rules

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// mesh is what the probes below look at.
const mesh = `apiVersion: v1
kind: Service
metadata: {name: a, namespace: shop}
spec: {clusterIP: None, ports: [{name: x, port: 25}, {name: y, port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio}
data: {mesh: "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod}
spec: {template: {spec: {containers: [{name: discovery, env: [{name: PILOT_X, value: "true"}]}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: a}}
spec: {containers: [{name: istio-proxy, args: [proxy, router], env: [{name: ISTIO_META_DNS_CAPTURE, value: "1"}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: g}
`

func TestTouched(t *testing.T) {
	things, err := Objects([]byte(mesh))
	if err != nil {
		t.Fatal(err)
	}
	match := "default"
	things = append(things, Answers(&report.Report{Proxies: []report.Proxy{{Kind: "sidecar", Resources: map[string][]report.Resource{
		"lds": {{Name: "0.0.0.0_80", Parts: []report.Part{{Match: &match}}}},
	}}}})...)
	for probe, want := range map[string]bool{
		"`Service spec.clusterIP=None spec.ports.port=(25|53)`":                true,
		"`Service spec.clusterIP=Non`":                                         false,
		"`Service spec.ports#=2`":                                              true,
		"`Service spec.ports.appProtocol`":                                     false,
		"`Pod spec.clusterIP` `mesh outboundTrafficPolicy.mode=REGISTRY_ONLY`": true,
		"`env PILOT_X=true`":                                                   true,
		"`proxy DNS_CAPTURE kind=router`":                                      true,
		"`proxy DNS_CAPTURE labels.app=b`":                                     false,
		"`Gateway`":                                                            false,
		"`api.Gateway metadata.name=g`":                                        true,
		"`lds proxy=sidecar parts.match=default`":                              true,
		"`lds proxy=router`":                                                   false,
		"reason":                                                               false,
	} {
		r, err := parse("X-1", probe)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Touched(things, nil); got != want {
			t.Errorf("%s: touched %v, want %v", probe, got, want)
		}
		if !r.Touched(nil, map[string]bool{"X-1": true}) {
			t.Errorf("%s: not touched by a reason", probe)
		}
	}
}

func TestRead(t *testing.T) {
	list := func(text string) string {
		file := filepath.Join(t.TempDir(), "rules.md")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	got, err := Read(list("text\n| id | rule | touched by |\n|---|---|---|\n| A-1 | one | reason |\n| B-2 | two | not: because |\n| C-3 | a \\| b | `cds name=x\\|y` |\n"))
	if err != nil || len(got) != 3 || got[1].Excuse != "because" || len(got[2].Probes) != 1 {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, bad := range []string{"", "| A-1 | one | reasons |", "| A-1 | one | `` |", "| A-1 | x | `cds name=(` |", "| A-1 | x | reason |\n| A-1 | x | reason |"} {
		if _, err := Read(list(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// TestList reads the project's own list.
func TestList(t *testing.T) {
	if _, err := Read("../../../docs/rules.md"); err != nil {
		t.Error(err)
	}
}
