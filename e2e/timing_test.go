package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// rounds is how often the time of a command is taken: the best counts.
const rounds = 3

const planted = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: planted, namespace: shop}
spec:
  hosts: [planted.example]
  http:
  - route:
    - destination: {host: nowhere.shop.svc.cluster.local}
`

// TestAnalyze runs istioctl analyze beside us on the same mesh. It finds the
// fault that is planted, so its analyzers really ran.
func TestAnalyze(t *testing.T) {
	change(t, small, planted)
	theirs, ours := time.Hour, time.Hour
	var analyzed, report outcome
	for range rounds {
		analyzed = analyze(t, small.kubeconfig)
		theirs = min(theirs, analyzed.took)
		report = mustAudit(t, small.kubeconfig, "scope", "-o", "json")
		ours = min(ours, report.took)
	}
	p := startProxy(t, small, nil)
	analyze(t, p.kubeconfig)
	theirRequests := len(p.requests())
	p = startProxy(t, small, nil)
	mustAudit(t, p.kubeconfig, "scope", "-o", "json")
	ourRequests := len(p.requests())
	var findings []struct {
		Code, Level, Origin, Message string
	}
	if err := json.Unmarshal([]byte(analyzed.stdout), &findings); err != nil {
		t.Fatalf("%v\n%s%s", err, analyzed.stderr, analyzed.stdout)
	}
	found := false
	codes := map[string]int{}
	for _, f := range findings {
		codes[f.Code+" "+f.Level]++
		found = found || f.Code == "IST0101" && strings.Contains(f.Origin, "planted")
	}
	if !found {
		t.Errorf("istioctl analyze did not find the planted fault:\n%s", analyzed.stdout)
	}
	t.Logf("istioctl analyze: %s, %d requests, %d findings %v; kubectl mesh-audit scope: %s, %d requests, %d proxies (best of %d)",
		theirs.Round(time.Millisecond), theirRequests, len(findings), codes,
		ours.Round(time.Millisecond), ourRequests, decode(t, report).Mesh.Proxies, rounds)
}

// analyze runs istioctl analyze, whose status tells of findings.
func analyze(t testing.TB, kubeconfig string) outcome {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin("istioctl"), "analyze", "-A", "--kubeconfig", kubeconfig, "-o", "json")
	cmd.Env = command(t, kubeconfig).Env
	return finish(t, cmd)
}

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
	c, err := large()
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
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
