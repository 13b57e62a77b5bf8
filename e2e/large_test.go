package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The large mesh.
const (
	largeNamespaces = 50
	largeServices   = 5000
	largePods       = 3000
)

type object = map[string]any

func metadata(namespace, name string, labels object) object {
	out := object{"name": name}
	if namespace != "" {
		out["namespace"] = namespace
	}
	if len(labels) > 0 {
		out["labels"] = labels
	}
	return out
}

// largeMesh is 5,000 Services, as many EndpointSlices and 3,000 Pods with
// proxies in 50 namespaces, each with a Sidecar.
func largeMesh() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	add := func(o object) { out = append(out, &unstructured.Unstructured{Object: o}) }
	namespace := func(i int) string { return fmt.Sprintf("team-%02d", i%largeNamespaces) }
	add(object{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("", "istio-system", nil)})
	add(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("istio-system", "istio", nil), "data": object{"mesh": "rootNamespace: istio-system\n"}})
	for i := range largeNamespaces {
		add(object{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("", namespace(i), object{"istio-injection": "enabled"})})
		add(object{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": metadata(namespace(i), "default", nil),
			"spec": object{"egress": []any{object{"hosts": []any{"./*", "istio-system/*"}}}}})
	}
	for i := range largeServices {
		app := fmt.Sprintf("service-%04d", i)
		add(object{"apiVersion": "v1", "kind": "Service", "metadata": metadata(namespace(i), app, nil),
			"spec": object{"selector": object{"app": app}, "ports": []any{object{"name": "http", "port": int64(80), "targetPort": int64(8080)}}}})
		add(object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata":  metadata(namespace(i), app+"-x", object{"kubernetes.io/service-name": app}),
			"ports":     []any{object{"name": "http", "port": int64(8080), "protocol": "TCP"}},
			"endpoints": []any{object{"addresses": []any{podIP(i % largePods)}, "conditions": object{"ready": true}}}})
	}
	for i := range largePods {
		app := fmt.Sprintf("service-%04d", i)
		add(object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata(namespace(i), app+"-0", object{"app": app}),
			"spec": object{"serviceAccountName": "default", "containers": []any{
				object{"name": "app", "image": "example/app:1"},
				object{"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.31.0", "args": []any{"proxy", "sidecar"}},
			}},
			"status": object{"phase": "Running", "podIP": podIP(i), "podIPs": []any{object{"ip": podIP(i)}},
				"conditions": []any{object{"type": "Ready", "status": "True"}}}})
	}
	return out
}

func podIP(i int) string { return fmt.Sprintf("10.244.%d.%d", i/250, i%250+1) }

// read are the kinds that deploy/rbac.yaml lets the plugin list, of those that
// the cluster has.
func read(t testing.TB, c *cluster) (names []string) {
	t.Helper()
	kinds, _ := shipped(t)
	served := servedResources(t, c)
	for _, rule := range kinds.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				if name := strings.TrimSuffix(resource+"."+group, "."); served[name] {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// TestLarge reads a large mesh, with no more requests than kubectl get of the
// same kinds. How long each takes is for people: see docs/comparison.md.
func TestLarge(t *testing.T) {
	c, err := startCluster(filepath.Join(t.TempDir(), "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	begun := time.Now()
	if err := c.createObjects(context.Background(), largeMesh()); err != nil {
		t.Fatal(err)
	}
	t.Logf("created in %s", time.Since(begun).Round(time.Second))

	const rounds = 3
	theirs, ours := time.Hour, time.Hour
	kinds := strings.Join(read(t, c), ",")
	var report *scopeReport
	for range rounds {
		o := finish(t, command(t, c.kubeconfig, "get", kinds, "-A", "--chunk-size=500", "-o", "json"))
		if o.status != 0 {
			t.Fatal(o.stderr)
		}
		theirs = min(theirs, o.took)
		o = mustAudit(t, c.kubeconfig, "scope", "-o", "json")
		ours = min(ours, o.took)
		report = decode(t, o)
	}
	if report.Mesh.Proxies != largePods || report.Mesh.Services != largeServices+1 { // and "kubernetes"
		t.Errorf("%d proxies, %d services", report.Mesh.Proxies, report.Mesh.Services)
	}
	p := startProxy(t, c, nil)
	kubectl(t, p.kubeconfig, "get", kinds, "-A", "--chunk-size=500", "-o", "json")
	theirRequests := len(p.requests())
	p = startProxy(t, c, nil)
	mustAudit(t, p.kubeconfig, "scope", "-o", "json")
	ourRequests := len(p.requests())
	stats := mustAudit(t, c.kubeconfig, "scope", "-o", "json", "--api-stats")
	t.Logf("kubectl get: %s, %d requests; kubectl mesh-audit scope: %s, %d requests (best of %d)\n%s",
		theirs.Round(time.Millisecond), theirRequests, ours.Round(time.Millisecond), ourRequests, rounds, stats.stderr)
	if ourRequests > theirRequests {
		t.Errorf("%d requests, kubectl makes %d", ourRequests, theirRequests)
	}

	// The same answer as from its export.
	want := sourceless(t, mustAudit(t, c.kubeconfig, "scope", "-o", "json", "--resources").stdout)
	files := mustAudit(t, c.kubeconfig, "scope", "-o", "json", "--resources", "-f", write(t, export(t, c.kubeconfig)))
	if got := sourceless(t, files.stdout); got != want {
		t.Errorf("live against its export:\n%s", firstDifference(want, got))
	}
}
