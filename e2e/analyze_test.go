package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

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
	begun := time.Now()
	cmd := exec.CommandContext(t.Context(), bin("istioctl"), "analyze", "-A", "--kubeconfig", small.kubeconfig, "-o", "json")
	cmd.Env = command(t, small.kubeconfig).Env
	out, _ := cmd.Output() // its status tells of findings
	took := time.Since(begun)
	var findings []struct {
		Code, Level, Origin, Message string
	}
	if err := json.Unmarshal(out, &findings); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	found := false
	codes := map[string]int{}
	for _, f := range findings {
		codes[f.Code+" "+f.Level]++
		found = found || f.Code == "IST0101" && strings.Contains(f.Origin, "planted")
	}
	if !found {
		t.Errorf("istioctl analyze did not find the planted fault:\n%s", out)
	}
	ours := mustAudit(t, small.kubeconfig, "scope", "-o", "json")
	t.Logf("istioctl analyze: %s, %d findings %v; kubectl mesh-audit scope: %s, %d proxies", took.Round(time.Millisecond), len(findings), codes,
		ours.took.Round(time.Millisecond), decode(t, ours).Mesh.Proxies)
}
