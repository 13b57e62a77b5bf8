package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dist is a file of the release of this platform, which make e2e builds.
func dist(name string) string { return filepath.Join(root, "e2e", "bin", "dist", name) }

// TestKrew installs the plugin with a real krew from the manifest and archive
// as make dist builds them, and runs it through kubectl.
func TestKrew(t *testing.T) {
	linkKrew(t)
	krewRoot := t.TempDir()
	run := func(args ...string) outcome {
		cmd := command(t, small.kubeconfig, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+small.kubeconfig, "HOME="+t.TempDir(), "KREW_ROOT="+krewRoot, "KREW_NO_UPGRADE_CHECK=1",
			"PATH="+filepath.Join(krewRoot, "bin")+":"+filepath.Join(root, "e2e", "bin")+":/usr/bin:/bin")
		return finish(t, cmd)
	}
	o := run("krew", "install", "--manifest="+dist("mesh-audit.yaml"), "--archive="+dist("kubectl-mesh_audit_linux_amd64.tar.gz"))
	if o.status != 0 || !strings.Contains(o.stderr, "Installed plugin: mesh-audit") {
		t.Fatalf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
	}
	if o := run("mesh-audit", "version"); o.status != 0 || !strings.HasPrefix(o.stdout, "mesh-audit v") {
		t.Errorf("exit status %d: %s%s", o.status, o.stdout, o.stderr)
	}
	if o := run("mesh-audit", "scope", "-o", "json"); o.status != 0 || decode(t, o).Mesh.Proxies == 0 {
		t.Errorf("exit status %d: %s", o.status, o.stderr)
	}
	if o := run("mesh-audit", "completion", "install"); o.status != 0 {
		t.Errorf("completion install: %s%s", o.stdout, o.stderr)
	}
	// kubectl itself completes the plugin's arguments then.
	if o := run("__complete", "mesh-audit", "scope", "-n", "sh"); !strings.Contains(o.stdout, "shop") {
		t.Errorf("completion of -n sh: %s%s", o.stdout, o.stderr)
	}
}

// linkKrew makes krew the plugin of kubectl that it is.
func linkKrew(t testing.TB) {
	t.Helper()
	if err := os.Symlink("krew", bin("kubectl-krew")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

func sum(t testing.TB, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TestReproducible builds an archive again, from a copy of the sources in
// another place: it is the same.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the plugin")
	}
	elsewhere, out := t.TempDir(), t.TempDir()
	for _, part := range []string{"go.mod", "go.sum", "LICENSE", "krew.yaml", "cmd", "plugin", "report", "audit", "internal"} {
		copyTree(t, filepath.Join(root, part), filepath.Join(elsewhere, part))
	}
	text, err := os.ReadFile(dist("mesh-audit.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(text), "\n  version: ")
	version, _, _ = strings.Cut(version, "\n")
	cmd := exec.CommandContext(t.Context(), "go", "run", "./internal/dist", "-version", version, "-only", "linux/amd64", "-o", out)
	cmd.Dir = elsewhere
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	const name = "kubectl-mesh_audit_linux_amd64.tar.gz"
	if first, again := sum(t, dist(name)), sum(t, filepath.Join(out, name)); first != again {
		t.Errorf("%s is %s, and built again %s", name, first, again)
	}
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
