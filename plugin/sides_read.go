package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/demo"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/revision"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// liveName stands for the live cluster where a path may stand.
const liveName = "live"

// reading is what a value of --base, --head or --on stands for.
type reading struct {
	label     string
	live      bool
	saved     *result.Audit  // a saved report
	files     *load.Result   // manifests or a snapshot
	tree      *revision.Tree // files are those of this revision
	missing   []string       // names of -f and -k that are not there
	completed bool
}

func (r *reading) manifests() bool { return r.files != nil && r.files.Saved == nil }

// overrides are those that a snapshot was saved with.
func (r *reading) overrides() snapshot.Overrides {
	if r.files == nil || r.files.Saved == nil {
		return snapshot.Overrides{}
	}
	return r.files.Saved.Snapshot.Overrides
}

// repository is the current one, opened when the first revision is read.
type repository struct {
	*revision.Repo
	top   string // directory of the work tree; empty: bare
	trees []*revision.Tree
}

func (c *comparison) close() {
	if c.repo == nil {
		return
	}
	for _, t := range c.repo.trees {
		_ = t.Close() // all that was needed was read
	}
}

// read takes a value of a flag: empty for the live cluster, a path that exists,
// else a git revision.
func (c *comparison) read(ctx context.Context, value, what string) (*reading, error) {
	if _, forced := strings.CutPrefix(value, "git:"); !forced && value != "" {
		if _, err := os.Stat(value); err == nil || value == load.Stdin {
			return c.readPath(ctx, value)
		}
	}
	if value == "" && c.input.demo {
		files, err := demo.Load(ctx)
		return &reading{label: "demo mesh", files: files}, err
	}
	if value == "" || value == liveName {
		return &reading{label: "live cluster", live: true}, nil
	}
	return c.readRevision(ctx, value, what)
}

// readFiles is read for what is to be laid on another mesh.
func (c *comparison) readFiles(ctx context.Context, value, what string) (*reading, error) {
	r, err := c.read(ctx, value, what)
	if err == nil && !r.manifests() {
		err = usageError("%s: only files can be laid on --on %s", value, c.on)
	}
	return r, err
}

func (c *comparison) readPath(ctx context.Context, name string) (*reading, error) {
	if saved, err := savedReport(name); saved != nil || err != nil {
		return &reading{label: name, saved: saved}, err
	}
	from := c.input
	from.filenames, from.kustomize, from.demo = []string{name}, "", false
	files, err := from.readFiles(ctx, c.g)
	return &reading{label: name, files: files}, err
}

func (c *comparison) readRevision(ctx context.Context, value, what string) (*reading, error) {
	rev := strings.TrimPrefix(value, "git:")
	if !c.input.files() {
		return nil, usageError("%s, %q, does not exist as a path; to read it as a git revision, name the paths in it with -f or -k", what, value)
	}
	if slices.Contains(c.input.filenames, load.Stdin) {
		return nil, usageError("-f - is not in a git revision")
	}
	if err := c.open(ctx); err != nil {
		return nil, unreadError(fmt.Errorf("%s, %q, does not exist as a path, and no git revision can be read: %w", what, value, err))
	}
	tree, err := c.repo.Tree(ctx, rev)
	if err != nil {
		return nil, unreadError(fmt.Errorf("%s: %w", what, err))
	}
	c.repo.trees = append(c.repo.trees, tree)
	from := c.input
	from.tree = tree
	r := &reading{label: "git:" + rev, tree: tree}
	err = from.keepThere(r, func(name string) (string, error) { return c.inRepository(name) })
	if err != nil {
		return nil, err
	}
	r.files, err = from.loadFiles(ctx, c.g)
	return r, err
}

func (c *comparison) open(ctx context.Context) error {
	if c.repo != nil {
		return nil
	}
	repo, err := revision.Open(ctx, ".")
	if err != nil {
		return err
	}
	c.repo = &repository{Repo: repo}
	c.repo.top, _ = repo.Top(ctx) // none in a bare repository
	return nil
}

// inRepository is the path of a name, relative to the current directory or
// absolute, from the repository's root.
func (c *comparison) inRepository(name string) (string, error) {
	inside := path.Join(c.repo.Prefix, filepath.ToSlash(name))
	if filepath.IsAbs(name) {
		top, err1 := filepath.EvalSymlinks(c.repo.top)
		dir, err2 := filepath.EvalSymlinks(filepath.Dir(name))
		rel, err := filepath.Rel(top, filepath.Join(dir, filepath.Base(name)))
		if err := errors.Join(err1, err2, err); err != nil {
			return "", usageError("%s is not in the git repository: %w", name, err)
		}
		inside = filepath.ToSlash(rel)
	}
	if !fs.ValidPath(inside) {
		return "", usageError("%s is not in the git repository", name)
	}
	return inside, nil
}

// keepThere translates the names of -f and -k, and leaves out those that are
// not there: files may have come, gone or moved between two revisions.
func (f *inputFlags) keepThere(r *reading, translate func(string) (string, error)) error {
	var names []string
	there := func(name string) (string, bool, error) {
		inside, err := translate(name)
		if err != nil {
			return "", false, err
		}
		found := false
		if f.tree != nil {
			_, err = fs.Stat(f.tree, inside)
			matches, _ := fs.Glob(f.tree, inside)
			found = !errors.Is(err, fs.ErrNotExist) || len(matches) > 0
		} else {
			_, err = os.Stat(inside)
			matches, _ := filepath.Glob(inside)
			found = !errors.Is(err, fs.ErrNotExist) || len(matches) > 0
		}
		if !found {
			r.missing = append(r.missing, name)
		}
		return inside, found, nil
	}
	for _, name := range f.filenames {
		inside, found, err := there(name)
		if err != nil {
			return err
		}
		if found {
			names = append(names, inside)
		}
	}
	f.filenames = names
	if f.kustomize != "" {
		inside, found, err := there(f.kustomize)
		if err != nil {
			return err
		}
		if f.kustomize = ""; found {
			f.kustomize = inside
		}
	}
	return nil
}

// checkNames refuses a name of -f or -k that neither side has.
func (c *comparison) checkNames() error {
	for _, name := range c.baseRead.missing {
		if slices.Contains(c.headRead.missing, name) {
			return unreadError(fmt.Errorf("the path %q is neither in %s nor in %s", name, c.baseRead.label, c.headRead.label))
		}
	}
	return nil
}

// filesHavePlace refuses -f and -k where no side is a revision in which they
// could be paths.
func (c *comparison) filesHavePlace() error {
	if c.input.files() && c.baseRead.tree == nil && c.headRead.tree == nil {
		return usageError("-f and -k are paths in a revision, or make head from base: with %s and %s, which are neither, they have no place", c.baseRead.label, c.headRead.label)
	}
	return nil
}

// readWorkTree reads -f and -k from the disk. Beside a revision, places in
// files are told from the repository's root, as the revision's are.
func (c *comparison) readWorkTree(ctx context.Context) (*reading, error) {
	from := c.input
	r := &reading{label: "work tree"}
	if c.repo == nil {
		r.label = c.changeLabel()
		files, err := from.loadFiles(ctx, c.g)
		if err == nil && files.Saved != nil {
			err = usageError("-f names a snapshot, which is no change: give it to --base or --on")
		}
		r.files = files
		return r, err
	}
	if c.repo.top == "" {
		return nil, usageError("this git repository is bare, so that there is no work tree to compare with: give --head REVISION")
	}
	if err := from.keepThere(r, func(name string) (string, error) { return name, nil }); err != nil {
		return nil, err
	}
	files, err := from.loadFiles(ctx, c.g)
	if err != nil {
		return nil, err
	}
	c.fromRoot(files)
	r.files = files
	return r, nil
}

// fromRoot rewrites where the objects are from to paths from the repository's root.
func (c *comparison) fromRoot(r *load.Result) {
	known := map[string]string{load.Stdin: load.Stdin, "": ""}
	root := func(s *result.Source) {
		to, ok := known[s.File]
		if !ok {
			var err error
			if to, err = c.inRepository(s.File); err != nil {
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

// mesh makes a side of what was read.
func (c *comparison) mesh(ctx context.Context, r *reading, overrides snapshot.Overrides) (side, error) {
	out := side{label: r.label, saved: r.saved}
	switch {
	case r.saved != nil:
		return out, nil
	case r.live:
		if c.live == nil {
			in, err := c.input.readLive(ctx, c.g, overrides)
			if err != nil {
				return out, err
			}
			c.live = &side{label: r.label, snap: in.snapshot, diagnostics: in.diagnostics}
		}
		snap := *c.live.snap
		snap.Overrides = overrides
		out.snap, out.diagnostics = &snap, c.live.diagnostics
		return out, nil
	case r.files.Saved != nil:
		in := savedInput(r.files, overrides)
		out.snap, out.diagnostics = in.snapshot, in.diagnostics
		return out, nil
	}
	if !r.completed {
		complete.Apply(r.files, complete.Options{Overrides: overrides, Assigned: c.assigned})
	}
	out.snap, out.diagnostics = r.files.Snapshot(), r.files.Diagnostics
	out.snap.Overrides = overrides
	return out, nil
}

// savedReport reads a ScopeReport; nil if the file is something else.
func savedReport(path string) (*result.Audit, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadError(err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return nil, nil
	}
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil && bytes.Contains(text[:min(len(text), 4096)], []byte(`"`+result.KindScopeReport+`"`)) {
		return nil, unreadError(fmt.Errorf("%s: a ScopeReport that is damaged or cut short: %w", path, err))
	}
	if head.Kind != result.KindScopeReport {
		return nil, nil
	}
	if head.APIVersion != result.APIVersion {
		return nil, unreadError(fmt.Errorf("%s: a ScopeReport of %s: this plugin reads %s; make it again from its source", path, head.APIVersion, result.APIVersion))
	}
	saved := &result.Audit{}
	if err := json.Unmarshal(text, saved); err != nil {
		return nil, unreadError(fmt.Errorf("%s: %w", path, err))
	}
	if err := saved.Check(); err != nil {
		return nil, unreadError(fmt.Errorf("%s: a damaged ScopeReport: %w", path, err))
	}
	if len(saved.Proxies) > 0 && len(saved.Objects) == 0 {
		return nil, unreadError(fmt.Errorf("%s: a ScopeReport without its details cannot be compared: save it with scope -o json --resources --details", path))
	}
	return saved, nil
}
