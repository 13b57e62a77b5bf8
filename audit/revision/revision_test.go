package revision_test

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/revision"
)

// git runs the program in a directory, as nobody in particular.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// repository has two commits: the second renames a file and changes another.
func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git program")
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir, "mesh/a.yaml", "one\n")
	write(t, dir, "mesh/deep/b.yaml", "b\n")
	write(t, dir, "mesh-more.yaml", "more\n")
	write(t, dir, "umlaut ä\".yaml", "ä\n")
	if err := os.Symlink("mesh", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../outside", filepath.Join(dir, "mesh", "out.yaml")); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "first")
	git(t, dir, "mv", "mesh/deep/b.yaml", "mesh/c.yaml")
	write(t, dir, "mesh/a.yaml", "two\n")
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	write(t, dir, "mesh/a.yaml", "not committed\n")
	return dir
}

func open(t *testing.T, dir, rev string) *revision.Tree {
	t.Helper()
	repo, err := revision.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Tree(context.Background(), rev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
	})
	return tree
}

func files(t *testing.T, tree fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			data, err := fs.ReadFile(tree, name)
			out[name] = string(data)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	first  = map[string]string{"mesh/a.yaml": "one\n", "mesh/deep/b.yaml": "b\n", "mesh-more.yaml": "more\n", "umlaut ä\".yaml": "ä\n"}
	second = map[string]string{"mesh/a.yaml": "two\n", "mesh/c.yaml": "b\n", "mesh-more.yaml": "more\n", "umlaut ä\".yaml": "ä\n"}
)

// TestClones: a work tree and a directory in it, a bare clone and a shallow one
// give the same files, those of the revision and not of the work tree.
func TestClones(t *testing.T) {
	dir := repository(t)
	bare, shallow := filepath.Join(t.TempDir(), "bare"), filepath.Join(t.TempDir(), "shallow")
	git(t, dir, "clone", "-q", "--bare", dir, bare)
	git(t, dir, "clone", "-q", "--depth=1", "--no-checkout", "file://"+dir, shallow)
	for _, c := range []struct {
		dir, rev string
		want     map[string]string
	}{
		{dir, "HEAD", second}, {dir, "HEAD~1", first}, {filepath.Join(dir, "mesh"), "main", second},
		{bare, "main~1", first}, {shallow, "origin/main", second},
	} {
		tree := open(t, c.dir, c.rev)
		if diff := cmp.Diff(c.want, files(t, tree)); diff != "" {
			t.Errorf("%s in %s: %s", c.rev, filepath.Base(c.dir), diff)
		}
	}
	if have := git(t, dir, "status", "--porcelain"); have != "M mesh/a.yaml" {
		t.Errorf("the work tree was touched: %s", have)
	}
}

// TestFileSystem runs the standard library's own test of file systems.
func TestFileSystem(t *testing.T) {
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir, "mesh/a.yaml", "one\n")
	write(t, dir, "mesh/deep/b.yaml", "b\n")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "first")
	if err := fstest.TestFS(open(t, dir, "HEAD"), "mesh/a.yaml", "mesh/deep/b.yaml"); err != nil {
		t.Error(err)
	}
}

func TestLinks(t *testing.T) {
	tree := open(t, repository(t), "HEAD")
	if data, err := fs.ReadFile(tree, "link/a.yaml"); err != nil || string(data) != "two\n" {
		t.Errorf("through a link: %q, %v", data, err)
	}
	if _, err := fs.ReadFile(tree, "mesh/out.yaml"); err == nil || !strings.Contains(err.Error(), "mesh/out.yaml is a symbolic link out of the repository, to ../../outside") {
		t.Error(err)
	}
	if _, err := fs.ReadFile(tree, "mesh/none.yaml"); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestUnreadable: what cannot be read is said, and how to get it.
func TestUnreadable(t *testing.T) {
	dir := repository(t)
	sub, shallow, partial := filepath.Join(t.TempDir(), "sub"), filepath.Join(t.TempDir(), "shallow"), filepath.Join(t.TempDir(), "partial")
	git(t, dir, "clone", "-q", "--depth=1", "file://"+dir, shallow)
	fails := func(dir, rev, want string) {
		t.Helper()
		repo, err := revision.Open(context.Background(), dir)
		if err == nil {
			_, err = repo.Tree(context.Background(), rev)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rev, err, want)
		}
	}
	fails(dir, "nowhere", `"nowhere" is no revision of this git repository`)
	fails(dir, "--help", `"--help" is no git revision`)
	fails(shallow, "HEAD~1", `the clone is shallow: fetch what is missing, for example with "git fetch --depth=1 origin HEAD~1"`)
	git(t, dir, "update-ref", "refs/remotes/origin/topic", "HEAD")
	fails(dir, "topic", "origin/topic is one")
	fails(t.TempDir(), "HEAD", "not a git repository")

	git(t, dir, "clone", "-q", dir, sub)
	git(t, sub, "submodule", "add", "-q", dir, "vendored")
	git(t, sub, "commit", "-q", "-m", "submodule")
	tree := open(t, sub, "HEAD")
	for _, name := range []string{"vendored", "vendored/mesh/a.yaml"} {
		if _, err := fs.ReadFile(tree, name); err == nil || !strings.Contains(err.Error(), "vendored is a submodule, whose files are in another repository") {
			t.Errorf("%s: %v", name, err)
		}
	}

	git(t, dir, "config", "uploadpack.allowFilter", "true")
	git(t, dir, "clone", "-q", "--no-checkout", "--filter=blob:none", "file://"+dir, partial)
	git(t, partial, "remote", "set-url", "origin", "file:///nowhere")
	if _, err := fs.ReadFile(open2(t, partial), "mesh/a.yaml"); err == nil || !strings.Contains(err.Error(), "mesh/a.yaml") {
		t.Errorf("a partial clone: %v", err)
	}
}

// open2 is open for a tree whose git program may end badly.
func open2(t *testing.T, dir string) *revision.Tree {
	t.Helper()
	repo, err := revision.Open(context.Background(), dir)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := repo.Tree(context.Background(), "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}
