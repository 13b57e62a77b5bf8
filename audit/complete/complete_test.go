package complete_test

import (
	"bytes"
	"context"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/demo"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

func completed(t *testing.T, in string) string {
	t.Helper()
	var out bytes.Buffer
	if err := complete.Write(&out, apply(t, in)); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func apply(t *testing.T, in string) *load.Result {
	t.Helper()
	r, err := load.Bytes(context.Background(), "in.yaml", []byte(in), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		t.Errorf("%d: %s", d.Source.Line, d.Text)
	}
	complete.Apply(r, complete.Options{})
	return r
}

// pods counts those of the completed input.
func pods(t *testing.T, in string) int {
	t.Helper()
	n := 0
	for _, o := range apply(t, in).Objects {
		if _, ok := o.Obj.(*corev1.Pod); ok {
			n++
		}
	}
	return n
}

// document returns the YAML document of the object.
func document(t *testing.T, all, kind, name string) string {
	t.Helper()
	for _, d := range strings.Split(all, "---\n") {
		if strings.Contains(d, "kind: "+kind+"\n") && strings.Contains(d, "\n  name: "+name+"\n") {
			return d
		}
	}
	t.Fatalf("no %s %s in\n%s", kind, name, all)
	return ""
}

func has(t *testing.T, doc string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(doc, w) {
			t.Errorf("lacks %q:\n%s", w, doc)
		}
	}
}

const web = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}, {name: admin, port: 81}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, version: v3}}
    spec: {containers: [{name: web, image: x, ports: [{name: web, containerPort: 8080}]}]}
`

func TestWorkload(t *testing.T) {
	out := completed(t, web)
	has(t, document(t, out, "Service", "web"), "clusterIP: 10.96.0.1\n", "type: ClusterIP", "protocol: TCP", "targetPort: 81")
	slice := document(t, out, "EndpointSlice", "web-00000")
	has(t, slice, "kubernetes.io/service-name: web", "- 10.244.0.1\n", "- 10.244.0.2\n", "port: 8080\n", "port: 81\n", "ready: true", "terminating: false", complete.AssumedAnnotation)
	if n := pods(t, web); n != 2 {
		t.Errorf("%d pods, want 2", n)
	}
	// istiod tells a pod's workload by its owner only where a controller named it.
	has(t, out, "generateName: web-", "name: istio-proxy", "docker.io/istio/proxyv2:1.31.0", "security.istio.io/tlsMode: istio",
		"service.istio.io/canonical-name: web", "service.istio.io/canonical-revision: v3", "istio.io/rev: default")
}

// TestKeepsWhatIsThere: a workload with Pods gets no more, a Service with an
// address and slices keeps them.
func TestKeepsWhatIsThere(t *testing.T) {
	out := completed(t, web+`---
apiVersion: v1
kind: Pod
metadata: {name: web-x, namespace: shop, labels: {app: web}}
spec: {containers: [{name: web, image: x}]}
status: {phase: Running, podIP: 10.0.0.9}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-real, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.0.0.9], conditions: {ready: true}}]
`)
	if n := strings.Count(out, "\nkind: Pod\n"); n != 1 {
		t.Errorf("%d pods, want the one of the input", n)
	}
	if n := strings.Count(out, "\nkind: EndpointSlice\n"); n != 1 {
		t.Errorf("%d slices, want the one of the input", n)
	}
}

func TestInjection(t *testing.T) {
	deployment := func(namespace, name, podMeta string) string {
		return `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: ` + name + `, namespace: ` + namespace + `}
spec:
  selector: {matchLabels: {app: ` + name + `}}
  template:
    metadata: ` + podMeta + `
    spec: {containers: [{name: a, image: x}]}
`
	}
	const namespaces = `
apiVersion: v1
kind: Namespace
metadata: {name: injected, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Namespace
metadata: {name: never, labels: {istio-injection: disabled}}
---
apiVersion: v1
kind: Namespace
metadata: {name: rev, labels: {istio.io/rev: canary}}
---
apiVersion: v1
kind: Namespace
metadata: {name: plain}
`
	for _, c := range []struct {
		namespace, meta string
		want            string // revision; empty: not injected
		router          bool
	}{
		{"injected", "{labels: {app: a}}", "default", false},
		{"injected", `{labels: {app: a, sidecar.istio.io/inject: "false"}}`, "", false},
		{"injected", `{labels: {app: a}, annotations: {sidecar.istio.io/inject: "false"}}`, "", false},
		{"never", `{labels: {app: a, sidecar.istio.io/inject: "true"}}`, "", false},
		{"rev", "{labels: {app: a}}", "canary", false},
		{"plain", "{labels: {app: a}}", "", false},
		{"plain", `{labels: {app: a, sidecar.istio.io/inject: "true"}}`, "default", false},
		{"plain", `{labels: {app: a, istio.io/rev: canary}}`, "canary", false},
		{"plain", `{labels: {app: a, sidecar.istio.io/inject: "true"}, annotations: {inject.istio.io/templates: gateway}}`, "default", true},
		{"kube-system", `{labels: {app: a, sidecar.istio.io/inject: "true"}}`, "", false},
	} {
		out := completed(t, namespaces+deployment(c.namespace, "a", c.meta))
		_, pod, _ := strings.Cut(out, "\nkind: Pod\n")
		if got := strings.Contains(pod, "istio-proxy"); got != (c.want != "") {
			t.Errorf("%s %s: injected %v", c.namespace, c.meta, got)
			continue
		}
		if c.want != "" && !strings.Contains(pod, "istio.io/rev: "+c.want) {
			t.Errorf("%s %s: not revision %s:\n%s", c.namespace, c.meta, c.want, pod)
		}
		if strings.Contains(pod, "- router") != c.router {
			t.Errorf("%s %s: router %v", c.namespace, c.meta, !c.router)
		}
	}
}

func TestReplicas(t *testing.T) {
	const hpa = `---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec: {minReplicas: 4, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`
	if n := pods(t, web+hpa); n != 4 {
		t.Errorf("%d pods, want the HPA's minimum of 4", n)
	}
	if n := pods(t, strings.Replace(web, "replicas: 2", "replicas: 0", 1)); n != 0 {
		t.Errorf("%d pods of a Deployment of 0", n)
	}
	if n := pods(t, strings.Replace(web, "replicas: 2", "replicas: 2000000000", 1)); n != 10000 {
		t.Errorf("%d pods, want the documented bound of 10000", n)
	}
}

func TestServiceEntryAddresses(t *testing.T) {
	const entries = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: b, namespace: x}
spec: {hosts: [two.example, "*.wild.example", three.example], resolution: DNS, endpoints: [{address: t.example}], ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: x}
spec: {hosts: [one.example], resolution: STATIC, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: c, namespace: x}
spec: {hosts: [none.example], resolution: NONE, ports: [{number: 443, name: tls, protocol: TLS}]}
`
	out := completed(t, entries)
	has(t, document(t, out, "ServiceEntry", "a"), "host: one.example\n    value: 240.240.0.1", "value: 2001:2::1")
	b := document(t, out, "ServiceEntry", "b")
	has(t, b, "host: two.example\n    value: 240.240.0.2", "host: three.example\n    value: 240.240.0.3")
	if strings.Contains(b, "host: '*") || strings.Contains(document(t, out, "ServiceEntry", "c"), "value:") {
		t.Errorf("a wildcard host or a NONE entry has an address:\n%s", out)
	}
}

// TestDeterministic: the order of the input does not matter, and completing
// twice changes nothing.
func TestDeterministic(t *testing.T) {
	write := func(r *load.Result) string {
		var out bytes.Buffer
		if err := complete.Write(&out, r); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	var first string
	for seed := range 5 {
		r, err := demo.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		rand.New(rand.NewSource(int64(seed))).Shuffle(len(r.Objects), func(i, j int) { r.Objects[i], r.Objects[j] = r.Objects[j], r.Objects[i] })
		complete.Apply(r, complete.Options{})
		once := write(r)
		if first == "" {
			first = once
		}
		if diff := cmp.Diff(first, once); diff != "" {
			t.Fatalf("seed %d:\n%s", seed, diff)
		}
		gaps := len(r.Gaps)
		complete.Apply(r, complete.Options{})
		if diff := cmp.Diff(once, write(r)); diff != "" {
			t.Fatalf("completing twice:\n%s", diff)
		}
		if len(r.Gaps) != gaps {
			t.Errorf("the second time made up %v", r.Gaps[gaps:])
		}
		if !strings.Contains(gapTexts(r.Gaps), "Services from 10.96.0.0/12") {
			t.Errorf("gaps: %s", gapTexts(r.Gaps))
		}
	}
}

func gapTexts(gaps []result.Gap) string {
	var b strings.Builder
	for _, g := range gaps {
		b.WriteString(g.Text + "\n")
	}
	return b.String()
}

// TestIstiodByItsArguments: an istiod is known by what it runs, whatever its
// labels; its version is the proxies', and it is not injected itself.
func TestIstiodByItsArguments(t *testing.T) {
	out := completed(t, web+`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: pilot, namespace: shop}
spec:
  selector: {matchLabels: {name: pilot}}
  template:
    metadata: {labels: {name: pilot}}
    spec: {containers: [{name: discovery, image: "r/pilot:1.29.4-distroless", args: [discovery]}]}
`)
	has(t, out, "docker.io/istio/proxyv2:1.29.4\n")
	if n := strings.Count(out, "name: istio-proxy"); n != 2 {
		t.Errorf("%d proxies, want web's two", n)
	}
}

// TestWholeNumbers: 64-bit numbers are written as the API server takes them
// (schema type integer), not as the text that protocol buffers' JSON has.
func TestWholeNumbers(t *testing.T) {
	out := completed(t, `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: x}
spec: {host: a, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true, maglev: {tableSize: 1009}}}}}
`)
	has(t, document(t, out, "DestinationRule", "a"), "tableSize: 1009\n")
}

// What injection gives to a proxy: the shared mesh config, istiod's own on top,
// then the pod's annotation; proxyMetadata is joined
// (Istio pkg/config/mesh/mesh.go MergeProxyConfig).
func TestProxyConfigLayers(t *testing.T) {
	const mesh = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod, namespace: istio-system, labels: {app: istiod}}
spec:
  template:
    spec:
      containers:
      - {name: discovery, image: "istio/pilot:1.31.0", args: [discovery], env: [{name: SHARED_MESH_CONFIG, value: all}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: all, namespace: istio-system}
data: {mesh: '{trustDomain: shared, defaultConfig: {concurrency: 3, proxyMetadata: {ISTIO_META_A: shared, ISTIO_META_B: shared, ISTIO_META_C: shared}}}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: '{defaultConfig: {proxyMetadata: {ISTIO_META_B: own, ISTIO_META_C: own}}}'}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop, annotations: {proxy.istio.io/config: "proxyMetadata: {ISTIO_META_C: pod}"}}
spec: {containers: [{name: a, image: x}]}
`
	has(t, document(t, completed(t, mesh), "Pod", "a"),
		`{"concurrency":3,"proxyMetadata":{"ISTIO_META_A":"shared","ISTIO_META_B":"own","ISTIO_META_C":"pod"}}`,
		"- name: TRUST_DOMAIN\n      value: shared\n")
}
