package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// exported are the kinds that an export of the mesh has to hold.
var exported = []string{
	"namespaces", "nodes", "services", "pods", "endpointslices.discovery.k8s.io", "deployments.apps", "statefulsets.apps", "daemonsets.apps",
	"replicasets.apps", "jobs.batch", "cronjobs.batch", "ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io",
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"serviceentries.networking.istio.io", "workloadentries.networking.istio.io", "workloadgroups.networking.istio.io",
	"destinationrules.networking.istio.io", "virtualservices.networking.istio.io", "gateways.networking.istio.io", "sidecars.networking.istio.io",
	"envoyfilters.networking.istio.io", "proxyconfigs.networking.istio.io", "peerauthentications.security.istio.io",
	"requestauthentications.security.istio.io", "authorizationpolicies.security.istio.io", "telemetries.telemetry.istio.io",
	"wasmplugins.extensions.istio.io",
}

// export is the mesh of a cluster as YAML, made by kubectl.
func export(t testing.TB, kubeconfig string) string {
	t.Helper()
	text := kubectl(t, kubeconfig, "get", strings.Join(exported, ","), "-A", "-o", "yaml")
	return text + "\n---\n" + kubectl(t, kubeconfig, "get", "configmap", "istio", "-n", "istio-system", "-o", "yaml")
}

// TestSameAnswer: the live mesh, its export and its snapshot give the same
// answer, byte for byte, but for where objects were read from.
func TestSameAnswer(t *testing.T) {
	args := []string{"scope", "-o", "json", "--details"}
	live := mustAudit(t, small.kubeconfig, args...)
	if r := decode(t, live); r.Mesh.Proxies < 20 || r.Mesh.Services < 15 {
		t.Fatalf("%d proxies and %d services: the mesh is not there", r.Mesh.Proxies, r.Mesh.Services)
	}
	want := sourceless(t, live.stdout)
	files := mustAudit(t, small.kubeconfig, append(args, "-f", write(t, export(t, small.kubeconfig)))...)
	if got := sourceless(t, files.stdout); got != want {
		t.Errorf("live against its export:\n%s", firstDifference(want, got))
	}
	snapshot := filepath.Join(t.TempDir(), "mesh.snap")
	mustAudit(t, small.kubeconfig, "snapshot", "-o", snapshot)
	snapped := mustAudit(t, small.kubeconfig, append(args, "-f", snapshot)...)
	if got := sourceless(t, snapped.stdout); got != want {
		t.Errorf("live against its snapshot:\n%s", firstDifference(want, got))
	}
}

// TestUserAgent: the API server's administrators can tell who asks. A proxy
// sees it, and that nothing but what is needed is asked for.
func TestUserAgent(t *testing.T) {
	p := startProxy(t, small, nil)
	mustAudit(t, p.kubeconfig, "scope", "-o", "json")
	for _, r := range p.requests() {
		if !strings.HasPrefix(r.agent, "kubectl-mesh_audit/") {
			t.Errorf("%s: user agent %q", r.path, r.agent)
		}
		if r.method != "GET" || strings.Contains(r.path, "/secrets") || strings.HasSuffix(r.path, "/configmaps") || strings.Contains(r.path, "flowcontrol") {
			t.Errorf("%s %s", r.method, r.path)
		}
	}
}
