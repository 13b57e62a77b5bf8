package load

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// treeFiles shows a tree to kustomize, rooted at "/". Only what is asked for is
// read; what kustomize would write goes nowhere.
type treeFiles struct {
	filesys.FileSystem
	tree fs.FS
}

func newTreeFiles(tree fs.FS) treeFiles {
	return treeFiles{filesys.MakeEmptyDirInMemory(), tree}
}

// inside is the tree's own name of a path.
func inside(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
	if name == "" {
		return "."
	}
	return name
}

func (t treeFiles) Exists(name string) bool {
	_, err := fs.Stat(t.tree, inside(name))
	return err == nil
}

func (t treeFiles) IsDir(name string) bool {
	info, err := fs.Stat(t.tree, inside(name))
	return err == nil && info.IsDir()
}

func (t treeFiles) ReadFile(name string) ([]byte, error) { return fs.ReadFile(t.tree, inside(name)) }

func (t treeFiles) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	info, err := fs.Stat(t.tree, inside(name))
	if err != nil {
		return "", "", err
	}
	clean := "/" + strings.TrimPrefix(inside(name), ".")
	if info.IsDir() {
		return filesys.ConfirmedDir(clean), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(clean)), path.Base(clean), nil
}
