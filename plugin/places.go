package plugin

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/revision"
)

// places turns where things were read into places that annotations can have:
// paths from the repository's root, or from the current directory where there is
// no repository.
type places struct {
	top    string // directory of the root
	prefix string // of the current directory in it, with slashes
}

// newPlaces finds the root.
func newPlaces(ctx context.Context) *places {
	if repo, err := revision.Open(ctx, "."); err == nil {
		if top, err := repo.Top(ctx); err == nil {
			return &places{top, repo.Prefix}
		}
	}
	here, err := filepath.Abs(".")
	if err != nil {
		here = "." // then absolute paths stay as they are
	}
	return &places{top: here}
}

// inside is a path from the root, of a name relative to the current directory
// or absolute; false if it leads elsewhere.
func (p *places) inside(name string) (string, bool) {
	inside := path.Join(p.prefix, filepath.ToSlash(name))
	if filepath.IsAbs(name) {
		top, err1 := filepath.EvalSymlinks(p.top)
		dir, err2 := filepath.EvalSymlinks(filepath.Dir(name))
		rel, err3 := filepath.Rel(top, filepath.Join(dir, filepath.Base(name)))
		if errors.Join(err1, err2, err3) != nil {
			return "", false
		}
		inside = filepath.ToSlash(rel)
	}
	return inside, fs.ValidPath(inside)
}

// rewrite makes the places of what was read from the disk paths from the root;
// a nil p leaves them as the user named them.
func (p *places) rewrite(r *load.Result) {
	if p == nil {
		return
	}
	known := map[string]string{"": ""}
	root := func(s *result.Source) {
		to, ok := known[s.File]
		if !ok {
			if to, ok = p.inside(s.File); !ok || s.File == load.Stdin {
				to = s.File
			}
			known[s.File] = to
		}
		s.File = to
	}
	for i := range r.Objects {
		root(&r.Objects[i].Source)
	}
	for i := range r.Unmodelled {
		root(&r.Unmodelled[i].Source)
	}
	for i := range r.Diagnostics {
		root(&r.Diagnostics[i].Source)
		root(&r.Diagnostics[i].Object.Source)
	}
	for i := range r.Gaps {
		root(&r.Gaps[i].Object.Source)
	}
}

// annotated is the place that an annotation gets: none in what is no file of the
// repository, and of what is gone the line only if the head still has the file.
func (p *places) annotated(s result.Source, gone bool, head *reading) result.Source {
	if s.File == load.Stdin || filepath.IsAbs(s.File) || strings.HasPrefix(s.File, "../") {
		return result.Source{}
	}
	if gone && s.File != "" && !p.has(head, s.File) {
		s.Line = 0
	}
	return s
}

func (p *places) has(head *reading, file string) bool {
	if head != nil {
		if tree, ok := head.tree.(*revision.Tree); ok {
			_, err := fs.Stat(tree, file)
			return err == nil
		}
	}
	_, err := os.Stat(filepath.Join(p.top, filepath.FromSlash(file)))
	return err == nil
}
