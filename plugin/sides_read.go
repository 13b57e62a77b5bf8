package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	saved     *result.Audit // a saved report
	files     *load.Result  // manifests or a snapshot
	tree      fs.FS         // files are those of this revision, or of the work tree
	missing   []string      // names of -f and -k that stand for nothing there
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
	top    string // directory of the work tree; empty: bare
	opened []io.Closer
}

func (c *comparison) close() {
	if c.repo == nil {
		return
	}
	for _, o := range c.repo.opened {
		_ = o.Close() // all that was needed was read
	}
}

// read takes a value of a flag: empty for the live cluster, a path that exists,
// else a git revision.
func (c *comparison) read(ctx context.Context, value, what string) (*reading, error) {
	if value != "" && !strings.HasPrefix(value, "git:") && exists(value) && !c.isBareRef(ctx, value) {
		return c.readPath(ctx, value)
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

// isBareRef reports whether a path is git's own file of a bare repository that is
// the current directory, such as HEAD: there, the revision is meant.
func (c *comparison) isBareRef(ctx context.Context, value string) bool {
	return c.input.files() && strings.HasSuffix(value, "HEAD") && c.open(ctx) == nil && c.repo.top == ""
}

// readFiles is read for what is to be laid on another mesh.
func (c *comparison) readFiles(ctx context.Context, value, what string) (*reading, error) {
	r, err := c.read(ctx, value, what)
	if err == nil && !r.manifests() {
		err = usageError("%s: only files can be laid on --on %s", value, c.on)
	}
	return r, err
}

// readRest reads what --on names, which is no revision.
func (c *comparison) readRest(ctx context.Context) (*reading, error) {
	switch {
	case exists(c.on):
	case c.on == liveName:
		return c.read(ctx, c.on, "--on")
	default:
		return nil, unreadError(fmt.Errorf("--on %s: no such file or directory (give a snapshot, a directory, or live)", c.on))
	}
	r, err := c.readPath(ctx, c.on)
	if err == nil && r.saved != nil {
		err = usageError("--on %s is a saved report, on which no files can be laid: give a snapshot, a directory or live", c.on)
	}
	return r, err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist) || name == load.Stdin
}

func (c *comparison) readPath(ctx context.Context, name string) (*reading, error) {
	if saved, err := savedReport(name); saved != nil || err != nil {
		return &reading{label: name, saved: saved}, err
	}
	from := c.input
	from.filenames, from.kustomize, from.demo, from.mayBeMissing = []string{name}, "", false, true
	files, err := from.loadFiles(ctx, c.g)
	if err == nil && reportAmong(files) != "" {
		err = unreadError(fmt.Errorf("%s: a %s is read from a file only, not from a pipe", name, reportAmong(files)))
	}
	if err == nil && nothingIn(files) && (len(files.Missing) == 0 || from.hint(name) != "") {
		err = unreadError(fmt.Errorf("no objects in %s that istiod would read%s", name, from.hint(name)))
	}
	if err != nil {
		return nil, err
	}
	c.places.rewrite(files)
	return &reading{label: name, files: files}, nil
}

// readChange reads what -f and -k lay on the base.
func (c *comparison) readChange(ctx context.Context) (*load.Result, error) {
	files, err := c.input.loadFiles(ctx, c.g)
	switch {
	case err != nil:
		return nil, err
	case files.Saved != nil:
		return nil, usageError("-f names a snapshot, which is no change: give it to --base or --on")
	case reportAmong(files) != "":
		return nil, usageError("-f names a %s, which is no change: give it to --base or --head", reportAmong(files))
	case nothingIn(files) && len(files.Ignored) == 0:
		return nil, usageError("no objects passed to diff")
	}
	c.places.rewrite(files)
	return files, nil
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
	c.repo.opened = append(c.repo.opened, tree)
	return c.readTree(ctx, &reading{label: "git:" + rev, tree: tree})
}

// readTree reads the names of -f and -k in the reading's tree. Those that stand
// for nothing there are missing: files may have come, gone or moved.
func (c *comparison) readTree(ctx context.Context, r *reading) (*reading, error) {
	from := c.input
	from.tree, from.mayBeMissing = r.tree, true
	typed := map[string]string{}
	translate := func(name string) (string, error) {
		inside, err := c.inRepository(name)
		typed[inside] = name
		return inside, err
	}
	from.filenames = nil
	for _, name := range c.input.filenames {
		inside, err := translate(name)
		if err != nil {
			return nil, err
		}
		from.filenames = append(from.filenames, inside)
	}
	var err error
	if from.kustomize != "" {
		if from.kustomize, err = translate(from.kustomize); err != nil {
			return nil, err
		}
	}
	if r.files, err = from.loadFiles(ctx, c.g); err != nil {
		return nil, err
	}
	for _, inside := range r.files.Missing {
		r.missing = append(r.missing, typed[inside])
	}
	return r, nil
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

// inRepository is the path of a name from the repository's root.
func (c *comparison) inRepository(name string) (string, error) {
	inside, ok := (&places{c.repo.top, c.repo.Prefix}).inside(name)
	if !ok {
		return "", usageError("%s is not in the git repository", name)
	}
	return inside, nil
}

// checkNames refuses a name that neither side has anything of. That one side has
// nothing is a change: all is new, or deleted.
func (c *comparison) checkNames() error {
	base, head := c.baseRead, c.headRead
	for _, name := range base.missing {
		if slices.Contains(head.missing, name) {
			return unreadError(fmt.Errorf("the path %q has no manifests, neither in %s nor in %s%s", name, base.label, head.label, c.input.hint(name)))
		}
	}
	for _, r := range []*reading{base, head} {
		for _, name := range r.missing {
			c.g.notef("%s: no manifests there in %s: taken as empty", name, r.label)
		}
	}
	if base.manifests() && head.manifests() && nothingIn(base.files) && nothingIn(head.files) {
		return unreadError(fmt.Errorf("no objects that istiod would read, neither in %s nor in %s", base.label, head.label))
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

// readWorkTree reads -f and -k from the disk. Beside a revision, they are read
// as those of the revision are: from the repository's root, and not out of it.
func (c *comparison) readWorkTree(ctx context.Context) (*reading, error) {
	if c.repo != nil {
		if c.repo.top == "" {
			return nil, usageError("this git repository is bare, so that there is no work tree to compare with: give --head REVISION")
		}
		root, err := os.OpenRoot(c.repo.top)
		if err != nil {
			return nil, unreadError(err)
		}
		c.repo.opened = append(c.repo.opened, root)
		return c.readTree(ctx, &reading{label: "work tree", tree: root.FS()})
	}
	files, err := c.readChange(ctx)
	return &reading{label: c.changeLabel(), files: files}, err
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
