package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// platforms are those that a release has to have, or that make dist-check
// PLATFORMS=... has built.
func platforms() []string {
	all := cmp.Or(os.Getenv("MESH_AUDIT_PLATFORMS"), "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64")
	return strings.Split(strings.ReplaceAll(all, "/", "_"), ",")
}

// TestManifest: krew's own check of a manifest for its index, which downloads
// and installs the archive of each platform.
func TestManifest(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dist, bin := filepath.Join(root, "dist"), filepath.Join(root, "e2e", "bin")
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	defer server.Close()
	text, err := os.ReadFile(filepath.Join(dist, "mesh-audit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Spec struct {
			Version   string `json:"version"`
			Platforms []struct {
				URI    string `json:"uri"`
				SHA256 string `json:"sha256"`
			} `json:"platforms"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	served := string(text)
	want := platforms()
	if len(manifest.Spec.Platforms) != len(want) {
		t.Fatalf("%d platforms, want %v", len(manifest.Spec.Platforms), want)
	}
	for i, p := range manifest.Spec.Platforms {
		base, name := p.URI[:strings.LastIndex(p.URI, "/")], filepath.Base(p.URI)
		if base != "https://github.com/mesh-audit/mesh-audit/releases/download/"+manifest.Spec.Version || !strings.Contains(name, want[i]) {
			t.Errorf("address %s", p.URI)
		}
		archive, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(archive); hex.EncodeToString(sum[:]) != p.SHA256 {
			t.Errorf("%s has the checksum %x, the manifest says %s", name, sum, p.SHA256)
		}
		served = strings.ReplaceAll(served, base, server.URL)
	}
	file := filepath.Join(t.TempDir(), "mesh-audit.yaml")
	if err := os.WriteFile(file, []byte(served), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("krew", filepath.Join(bin, "kubectl-krew")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "validate-krew-manifest"), "-manifest", file)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
