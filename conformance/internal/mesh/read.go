package mesh

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Read reads all objects of the files and folders; "-" is standard input. Of
// two objects with the same name the later one counts.
func Read(paths []string) ([]Object, error) {
	var all []Object
	for _, p := range paths {
		files, err := expand(p)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			objs, err := readFile(f)
			if err != nil {
				return nil, err
			}
			all = append(all, objs...)
		}
	}
	return latest(all), nil
}

// expand lists the YAML and JSON files under a path.
func expand(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && isManifest(p) {
			out = append(out, p)
		}
		return err
	})
	sort.Strings(out)
	return out, err
}

// isManifest goes by the file's extension.
func isManifest(path string) bool {
	switch filepath.Ext(path) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// readFile reads the objects of one file.
func readFile(file string) ([]Object, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(os.Stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	var out []Object
	docs := kyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", file, n, err)
		}
		objs, err := readDoc(file, doc)
		if err != nil {
			return nil, fmt.Errorf("document %d of %w", n, err)
		}
		out = append(out, objs...)
	}
}

// readDoc reads one document: an object, a list of objects, or nothing.
func readDoc(file string, doc []byte) ([]Object, error) {
	raw, err := yaml.YAMLToJSON(doc)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if text := strings.TrimSpace(string(raw)); text == "null" || text == "{}" {
		return nil, nil
	}
	var list struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !strings.HasSuffix(list.Kind, "List") {
		list.Items = []json.RawMessage{raw}
	}
	var out []Object
	for _, item := range list.Items {
		o, err := newObject(file, item)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// latest drops the earlier versions of objects.
func latest(all []Object) []Object {
	last := map[string]int{}
	for i, o := range all {
		last[o.id()] = i
	}
	var out []Object
	for i, o := range all {
		if last[o.id()] == i {
			out = append(out, o)
		}
	}
	return out
}
