package load

import (
	"fmt"
	"io/fs"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize renders a directory as "kubectl kustomize" does. Lines in a Source
// count in that rendering.
func (p place) kustomize(dir string) ([]byte, error) {
	files, at := filesys.MakeFsOnDisk(), dir
	if p.tree != nil {
		at = "/" + dir
		var err error
		if files, err = inMemory(p.tree); err != nil {
			return nil, fmt.Errorf("cannot build the kustomization %s: %w", dir, err)
		}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, at)
	if err != nil {
		return nil, fmt.Errorf("cannot build the kustomization %s: %w", dir, err)
	}
	data, err := resources.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("cannot write out the kustomization %s: %w", dir, err)
	}
	return data, nil
}

// maxKustomized bounds, in bytes, the files of a tree that a kustomization sees.
const maxKustomized = 4 << 20

// inMemory copies the files of a tree, as far as they can be read: what a
// kustomization needs and lacks it names itself.
func inMemory(tree fs.FS) (filesys.FileSystem, error) {
	out := filesys.MakeFsInMemory()
	return out, fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil && e != nil && e.IsDir():
			return fs.SkipDir // a submodule
		case err != nil || e.IsDir():
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil || len(data) > maxKustomized {
			return nil //nolint:nilerr // see above
		}
		return out.WriteFile("/"+name, data)
	})
}
