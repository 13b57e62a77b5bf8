package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// TestDiffOnLiveCluster: by default base is the cluster, and head is it with the
// files on top.
func TestDiffOnLiveCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sidecar.yaml")
	const sidecar = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: checkout, namespace: shop}
spec: {workloadSelector: {labels: {app: checkout}}, egress: [{hosts: [./*]}]}
`
	if err := os.WriteFile(file, []byte(sidecar), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs, server := onCluster(t, nil, "diff", "-f", file)
	if status != plugin.ExitYes || !strings.Contains(out, "2 of 27 proxies change") || !strings.Contains(out, "because Sidecar shop/checkout ("+file+":1) added") {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	pods := 0
	for _, path := range server.Requests {
		if strings.HasSuffix(path, "/pods") {
			pods++
		}
	}
	if pods == 0 || pods > 2 {
		t.Errorf("pods were listed %d times", pods)
	}
}

// TestSnapshotOfLiveCluster: a snapshot is audited to the same JSON as the
// cluster that it was taken of.
func TestSnapshotOfLiveCluster(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mesh.snap")
	if status, out, errs, _ := onCluster(t, nil, "snapshot", "-o", file); status != plugin.ExitOK {
		t.Fatalf("exit status %d\n%s%s", status, out, errs)
	}
	args := []string{"scope", "-o", "json", "--resources", "--details"}
	status, live, errs, _ := onCluster(t, nil, args...)
	if status != plugin.ExitOK {
		t.Fatal(errs)
	}
	status, saved, errs := run(t, append(args, "-f", file)...)
	if status != plugin.ExitOK || saved != live {
		t.Errorf("exit status %d, %d bytes of JSON, live %d\n%s", status, len(saved), len(live), errs)
	}
}
