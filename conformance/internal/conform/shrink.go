package conform

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Shrink looks for the smallest mesh that still shows the first difference of
// a result (or, without any, the first resource with other bytes), by leaving
// out objects. It writes the mesh into a folder, and beside it the judge's
// answer, as a regression to keep.
func (r *Runner) Shrink(res *Result, folder string) (string, error) {
	if len(res.Differences)+len(res.Sizes) == 0 {
		return "", nil
	}
	docs, err := r.documents(res.Mesh)
	if err != nil {
		return "", err
	}
	s := &shrinker{runner: *r, want: res}
	s.runner.Complete, s.runner.Cache, s.runner.Rules, s.runner.Confirm = false, "", nil, 0
	docs = s.shrink(docs)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	name := strings.ReplaceAll(strings.TrimSuffix(short(res.Mesh), ".yaml"), string(filepath.Separator), "-")
	target := filepath.Join(folder, name)
	if err := os.WriteFile(target+".yaml", join(docs), 0o644); err != nil {
		return "", err
	}
	answer, err := r.answer(target+".yaml", r.Repeat)
	if err != nil {
		return "", err
	}
	return target + ".yaml", os.WriteFile(target+".json", answer, 0o644)
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
	return withSlices(out), nil
}

var (
	kindLine    = regexp.MustCompile(`(?m)^kind: (\S+)`)
	nameLine    = regexp.MustCompile(`(?m)^  name: (\S+)`)
	spaceLine   = regexp.MustCompile(`(?m)^  namespace: (\S+)`)
	serviceLine = regexp.MustCompile(`(?m)^    kubernetes.io/service-name: (\S+)`)
)

// withSlices joins EndpointSlices to their Service: a Service without the
// slices that a cluster makes is no mesh to keep.
func withSlices(docs [][]byte) [][]byte {
	services := map[string]int{}
	var out, parts [][]byte
	for _, d := range docs {
		switch word(kindLine, d) {
		case "Service":
			services[word(spaceLine, d)+"/"+word(nameLine, d)] = len(out)
			out = append(out, d)
		case "EndpointSlice":
			parts = append(parts, d)
		default:
			out = append(out, d)
		}
	}
	for _, d := range parts {
		i, ok := services[word(spaceLine, d)+"/"+word(serviceLine, d)]
		if !ok {
			out = append(out, d)
			continue
		}
		out[i] = append(append(append([]byte{}, out[i]...), "\n---"...), d...)
	}
	return out
}

// word is the first match of a line's pattern.
func word(pattern *regexp.Regexp, doc []byte) string {
	if m := pattern.FindSubmatch(doc); m != nil {
		return string(m[1])
	}
	return ""
}

// join makes one stream of documents.
func join(docs [][]byte) []byte {
	return append(bytes.TrimSpace(bytes.Join(docs, []byte("\n---"))), '\n')
}

// shrinker leaves out objects as long as a difference stays.
type shrinker struct {
	runner Runner
	want   *Result
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

// differs is whether a mesh still shows what is looked for.
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
	return res.Err == nil && res.shows(s.want)
}

// shows is whether a result has the first difference of another one (of the
// same kind, type and name, on a proxy that showed it there), or its first
// resource with other bytes.
func (res *Result) shows(want *Result) bool {
	if len(want.Differences) == 0 {
		first := want.Sizes[0]
		return len(res.Differences) == 0 && slices.ContainsFunc(res.Sizes, func(e SizeError) bool {
			return e.Proxy == first.Proxy && e.Type == first.Type && e.Name == first.Name
		})
	}
	first := want.Differences[0]
	return slices.ContainsFunc(res.Differences, func(d Difference) bool {
		return d.Kind == first.Kind && d.Type == first.Type && d.Name == first.Name && meet(d.Proxies, first.Proxies)
	})
}

// meet is whether two lists have anything in common.
func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(x string) bool { return slices.Contains(b, x) })
}
