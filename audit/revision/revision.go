// Package revision reads the files of a git revision from the repository's
// objects, through the git program: the work tree is neither read nor touched,
// and a bare or a shallow clone will do. It never fetches.
//
// It refuses to guess: a revision or an object that is not in the clone, a
// submodule and a link that leads out of the repository are errors that say so.
package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
)

// Repo is the repository that a directory is in.
type Repo struct {
	dir string
	// Prefix is the directory's path in the repository, with slashes: "" at its
	// root and in a bare repository.
	Prefix string
}

// Open finds the repository of a directory.
func Open(ctx context.Context, dir string) (*Repo, error) {
	r := &Repo{dir: dir}
	out, err := r.git(ctx, "rev-parse", "--show-prefix")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errors.New("reading a git revision needs the git program, which is not installed")
	case err != nil:
		return nil, err
	}
	r.Prefix = path.Clean("/" + strings.TrimSuffix(string(out), "\n"))[1:]
	return r, nil
}

// Top is the directory of the work tree; an error in a bare repository.
func (r *Repo) Top(ctx context.Context) (string, error) {
	out, err := r.git(ctx, "rev-parse", "--show-toplevel")
	return strings.TrimSuffix(string(out), "\n"), err
}

// git runs the program and returns what it prints. No hook, pager, prompt or
// lazy fetch of a partial clone comes of it.
func (r *Repo) git(ctx context.Context, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := r.command(ctx, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		return out, nil
	}
	if text := strings.Join(strings.Fields(stderr.String()), " "); text != "" {
		return nil, fmt.Errorf("git: %s", strings.TrimPrefix(text, "fatal: "))
	}
	return nil, fmt.Errorf("git %s: %w", args[0], err)
}

func (r *Repo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1")
	return cmd
}

// Tree reads which files a revision has: a branch, a tag, a commit or anything
// else that "git rev-parse" takes for a commit. Close ends it.
func (r *Repo) Tree(ctx context.Context, rev string) (*Tree, error) {
	commit, err := r.commit(ctx, rev)
	if err != nil {
		return nil, err
	}
	list, err := r.git(ctx, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, fmt.Errorf("cannot list the files of revision %s, whose trees may not be in this clone: %w", rev, err)
	}
	t := &Tree{repo: r, ctx: ctx, entries: map[string]*entry{".": {name: ".", kind: fs.ModeDir}}}
	for line := range strings.SplitSeq(string(list), "\x00") {
		if line == "" {
			continue
		}
		head, name, _ := strings.Cut(line, "\t")
		fields := strings.Fields(head) // mode, type, object
		if len(fields) != 3 {
			return nil, fmt.Errorf("git ls-tree wrote %q", line)
		}
		t.add(name, fields[0], fields[2])
	}
	return t, nil
}

func (r *Repo) commit(ctx context.Context, rev string) (string, error) {
	if rev == "" || strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\x00\n") {
		return "", fmt.Errorf("%q is no git revision", rev)
	}
	out, err := r.git(ctx, "rev-parse", "--verify", "--quiet", rev+"^{commit}")
	if err == nil {
		return strings.TrimSpace(string(out)), nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	text := fmt.Sprintf("%q is no revision of this git repository", rev)
	if shallow, _ := r.git(ctx, "rev-parse", "--is-shallow-repository"); string(shallow) == "true\n" {
		text += "; the clone is shallow: fetch what is missing, for example with \"git fetch --depth=1 origin " + strings.TrimPrefix(rev, "origin/") + "\" (then it is FETCH_HEAD) or \"git fetch --unshallow\""
	} else if _, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "origin/"+rev+"^{commit}"); err == nil {
		text += "; origin/" + rev + " is one"
	}
	return "", errors.New(text)
}
