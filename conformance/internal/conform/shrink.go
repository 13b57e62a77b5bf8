package conform

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Shrink looks for the smallest mesh that still shows the first difference of
// a failed result, by leaving out objects, and writes it into a folder.
func (r *Runner) Shrink(res *Result, folder string) (string, error) {
	if len(res.Differences) == 0 {
		return "", nil
	}
	docs, err := r.documents(res.Mesh)
	if err != nil {
		return "", err
	}
	s := &shrinker{runner: *r, want: res.Differences[0]}
	s.runner.Complete, s.runner.Cache = false, ""
	docs = s.shrink(docs)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	name := strings.ReplaceAll(strings.TrimSuffix(short(res.Mesh), ".yaml"), string(filepath.Separator), "-") + ".yaml"
	target := filepath.Join(folder, name)
	return target, os.WriteFile(target, join(docs), 0o644)
}

// documents splits a completed mesh into its documents.
func (r *Runner) documents(mesh string) ([][]byte, error) {
	input, cleanup, err := r.input(mesh)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	data, err := os.ReadFile(input)
	if err != nil {
		return nil, fmt.Errorf("only a file can be shrunk: %w", err)
	}
	var out [][]byte
	for _, doc := range bytes.Split(append([]byte("\n"), data...), []byte("\n---")) {
		if len(bytes.TrimSpace(doc)) > 0 {
			out = append(out, doc)
		}
	}
	return out, nil
}

// join makes one stream of documents.
func join(docs [][]byte) []byte {
	return append(bytes.TrimSpace(bytes.Join(docs, []byte("\n---"))), '\n')
}

// shrinker leaves out objects as long as a difference stays.
type shrinker struct {
	runner Runner
	want   Difference
}

// shrink drops chunks of documents, of half the size each round.
func (s *shrinker) shrink(docs [][]byte) [][]byte {
	for size := len(docs) / 2; size > 0; size /= 2 {
		for start := 0; start < len(docs); {
			end := min(start+size, len(docs))
			less := append(append([][]byte{}, docs[:start]...), docs[end:]...)
			if len(less) > 0 && s.differs(less) {
				docs = less
				continue
			}
			start = end
		}
	}
	return docs
}

// differs is whether a mesh shows a difference of the same kind, type and
// name.
func (s *shrinker) differs(docs [][]byte) bool {
	tmp, err := os.CreateTemp("", "shrink-*.yaml")
	if err != nil {
		return false
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(join(docs)); err != nil || tmp.Close() != nil {
		return false
	}
	res := s.runner.one(tmp.Name())
	if res.Err != nil {
		return false
	}
	for _, d := range res.Differences {
		if d.Kind == s.want.Kind && d.Type == s.want.Type && d.Name == s.want.Name {
			return true
		}
	}
	return false
}
