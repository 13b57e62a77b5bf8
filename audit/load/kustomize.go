package load

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// kustomize renders a directory as "kubectl kustomize" does, and parses each
// object with its place in the file that it was made from.
func (p *parser) kustomize(from place, dir string) error {
	files, at := filesys.MakeFsOnDisk(), dir
	if from.tree != nil {
		files, at = newTreeFiles(from.tree), "/"+dir
	}
	b := build{from, dir}
	root, _, err := files.CleanedAbs(at)
	if err == nil {
		err = b.run(p, withOrigins{files, root}, at)
	}
	if err != nil {
		return fmt.Errorf("cannot build the kustomization %s: %w", dir, err)
	}
	return nil
}

// build is one kustomization.
type build struct {
	from place
	dir  string
}

func (b *build) run(p *parser, files filesys.FileSystem, at string) error {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, at)
	if err != nil {
		return err
	}
	list := resources.Resources()
	sources := make([]result.Source, len(list))
	for i, r := range list {
		origin, err := r.GetOrigin()
		if err == nil {
			err = r.SetOrigin(nil)
		}
		if err != nil {
			return err
		}
		sources[i] = b.source(origin)
	}
	b.addLines(list, sources)
	for i, r := range list {
		text, err := r.AsYAML()
		if err != nil {
			return err
		}
		p.parseAt(sources[i].File, text, &sources[i])
	}
	return nil
}

// source is the file that an object was made from, else the kustomization.
func (b *build) source(origin *resource.Origin) result.Source {
	switch {
	case origin == nil || origin.Repo != "":
		return result.Source{File: b.dir}
	case origin.Path == "": // made by a generator
		return result.Source{File: b.from.join(b.dir, cmp.Or(origin.ConfiguredIn, "."))}
	}
	return result.Source{File: b.from.join(b.dir, filepath.ToSlash(origin.Path))}
}

// addLines looks for the rendered objects in the files that they were made
// from. Line 0 stays where it cannot be told.
func (b *build) addLines(list []*resource.Resource, sources []result.Source) {
	type key struct{ file, kind string }
	made := map[key][]int{}
	for i, r := range list {
		k := key{sources[i].File, r.GetKind()}
		made[k] = append(made[k], i)
	}
	refs := map[string][]result.Ref{}
	for k, indexes := range made {
		if _, known := refs[k.file]; !known {
			data, err := b.from.read(k.file, nil)
			if err != nil {
				data = nil // the directory of the kustomization
			}
			refs[k.file] = refsIn(data)
		}
		var written []result.Ref
		for _, ref := range refs[k.file] {
			if kind, _, _ := strings.Cut(ref.Kind, "."); kind == k.kind {
				written = append(written, ref)
			}
		}
		names := make([]string, len(indexes))
		for n, i := range indexes {
			names[n] = list[i].GetName()
		}
		for n, line := range linesOf(written, names) {
			sources[indexes[n]].Line = line
		}
	}
}

// linesOf matches rendered names with what is written in a file, all of one
// kind: names may have got a prefix and a suffix. Kustomize keeps the file's
// order.
func linesOf(written []result.Ref, names []string) []int {
	lines := make([]int, len(names))
	inOrder := len(written) == len(names)
	for n, name := range names {
		found := 0
		for i := range written {
			if strings.Contains(name, written[i].Name) {
				lines[n] = written[i].Source.Line
				found++
			}
		}
		if found != 1 {
			lines[n] = 0
		}
		inOrder = inOrder && strings.Contains(name, written[n].Name)
	}
	if inOrder {
		for n := range lines {
			lines[n] = written[n].Source.Line
		}
	}
	return lines
}

// refsIn lists the objects of a text.
func refsIn(data []byte) []result.Ref {
	var out []result.Ref
	for _, doc := range split(data) {
		one := &parsed{}
		one.document(doc)
		for _, o := range one.objects {
			if m, ok := o.Obj.(metav1.Object); ok {
				out = append(out, result.Ref{Kind: o.Obj.GetObjectKind().GroupVersionKind().Kind, Name: m.GetName(), Source: o.Source})
			}
		}
		for i := range one.unmodelled {
			out = append(out, one.unmodelled[i].Ref())
		}
		for _, d := range one.diagnostics {
			out = append(out, d.Object)
		}
	}
	return out
}

// withOrigins makes the kustomization of a directory note where its objects
// come from.
type withOrigins struct {
	filesys.FileSystem
	root filesys.ConfirmedDir
}

func (w withOrigins) ReadFile(name string) ([]byte, error) {
	data, err := w.FileSystem.ReadFile(name)
	if err != nil || filepath.Dir(name) != w.root.String() || !slices.Contains(konfig.RecognizedKustomizationFileNames(), filepath.Base(name)) {
		return data, err
	}
	return noteOrigins(data), nil
}

// noteOrigins asks for origins in the text of a kustomization. One that is not
// valid, or has nothing that an origin could be noted of, stays as it is.
func noteOrigins(data []byte) []byte {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return data
	}
	top := doc.Content[0]
	if valueOf(top, "resources") == nil && valueOf(top, "bases") == nil && valueOf(top, "components") == nil {
		return data
	}
	asked := valueOf(top, "buildMetadata")
	if asked == nil {
		asked = &yaml.Node{Kind: yaml.SequenceNode}
		top.Content = append(top.Content, word("buildMetadata"), asked)
	}
	asked.Content = append(asked.Content, word("originAnnotations"))
	out, err := yaml.Marshal(&doc)
	if err != nil {
		return data
	}
	return out
}

func word(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// valueOf is the value of a mapping's key; nil if it has none.
func valueOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// IsKustomization reports whether a file of a directory says how to build it.
func IsKustomization(e fs.DirEntry) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), e.Name())
}
