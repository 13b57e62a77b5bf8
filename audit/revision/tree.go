package revision

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxLinks bounds a chain of symbolic links.
const maxLinks = 40

// maxBlob bounds one file, in bytes.
const maxBlob = 2 << 30

// Tree is the file system of one revision, rooted at the repository's root. It
// may be used by several goroutines.
type Tree struct {
	repo    *Repo
	ctx     context.Context //nolint:containedctx // fs.FS has no place for one
	entries map[string]*entry

	mu    sync.Mutex
	batch *batch
}

var (
	_ fs.ReadDirFS  = (*Tree)(nil)
	_ fs.ReadFileFS = (*Tree)(nil)
	_ fs.StatFS     = (*Tree)(nil)
)

// entry is a file, a link, a directory or a submodule (ModeIrregular).
type entry struct {
	name     string // the last part of the path
	kind     fs.FileMode
	object   string
	children []*entry // in git's order of paths; sorted when asked for
}

func (t *Tree) add(name, mode, object string) {
	e := &entry{name: path.Base(name), object: object}
	switch mode {
	case "120000":
		e.kind = fs.ModeSymlink
	case "160000":
		e.kind = fs.ModeDir | fs.ModeIrregular
	}
	t.entries[name] = e
	for child := e; ; {
		name = path.Dir(name)
		parent, known := t.entries[name]
		if !known {
			parent = &entry{name: path.Base(name), kind: fs.ModeDir}
			t.entries[name] = parent
		}
		parent.children = append(parent.children, child)
		if known {
			return
		}
		child = parent
	}
}

// find follows links. What is in a submodule is not there to be found.
func (t *Tree) find(op, name string) (*entry, error) {
	fail := func(err error) (*entry, error) { return nil, &fs.PathError{Op: op, Path: name, Err: err} }
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	at := name
	for range maxLinks {
		e, rest := t.deepest(at)
		where := strings.TrimSuffix(strings.TrimSuffix(at, rest), "/")
		switch {
		case e.kind&fs.ModeIrregular != 0 && (rest != "" || op != "stat"):
			return fail(fmt.Errorf("%s is a submodule, whose files are in another repository", where))
		case e.kind&fs.ModeSymlink != 0:
			target, err := t.blob(e.object)
			if err != nil {
				return fail(err)
			}
			next := path.Join(path.Dir(where), string(target), rest)
			if path.IsAbs(string(target)) || !fs.ValidPath(next) {
				return fail(fmt.Errorf("%s is a symbolic link out of the repository, to %s", where, target))
			}
			at = next
		case rest != "":
			return fail(fs.ErrNotExist)
		default:
			return e, nil
		}
	}
	return fail(errors.New("too many symbolic links"))
}

// deepest is the last entry on the way to a path that is there, and the rest of the way.
func (t *Tree) deepest(name string) (e *entry, rest string) {
	for at := name; ; at = path.Dir(at) {
		if e := t.entries[at]; e != nil {
			if at == "." {
				at = ""
				if name == "." {
					return e, ""
				}
			}
			return e, strings.TrimPrefix(strings.TrimPrefix(name, at), "/")
		}
	}
}

// Open opens a file or a directory.
func (t *Tree) Open(name string) (fs.File, error) {
	e, err := t.find("open", name)
	if err != nil {
		return nil, err
	}
	if e.kind.IsDir() {
		return &directory{entry: e}, nil
	}
	data, err := t.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &file{Reader: strings.NewReader(string(data)), entry: e}, nil
}

// ReadFile reads a file's text.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	e, err := t.find("read", name)
	if err == nil && e.kind.IsDir() {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	if err != nil {
		return nil, err
	}
	data, err := t.blob(e.object)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

// ReadDir lists a directory by name.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !e.kind.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	return e.list(), nil
}

// Stat follows links. Sizes and times are not known.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return info{e}, nil
}

func (e *entry) list() []fs.DirEntry {
	out := make([]fs.DirEntry, 0, len(e.children))
	for _, c := range e.children {
		out = append(out, fs.FileInfoToDirEntry(info{c}))
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out
}

type info struct{ e *entry }

func (i info) Name() string       { return i.e.name }
func (i info) Size() int64        { return 0 }
func (i info) Mode() fs.FileMode  { return i.e.kind &^ fs.ModeIrregular }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.e.kind.IsDir() }
func (i info) Sys() any           { return nil }

type file struct {
	*strings.Reader
	entry *entry
}

func (f *file) Stat() (fs.FileInfo, error) { return info{f.entry}, nil }
func (f *file) Close() error               { return nil }

type directory struct {
	entry *entry
	read  int
}

func (d *directory) Stat() (fs.FileInfo, error) { return info{d.entry}, nil }
func (d *directory) Close() error               { return nil }
func (d *directory) Read([]byte) (int, error)   { return 0, errors.New("is a directory") }

func (d *directory) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.entry.list()[d.read:]
	if n > 0 {
		if len(rest) == 0 {
			return nil, io.EOF
		}
		rest = rest[:min(n, len(rest))]
	}
	d.read += len(rest)
	return rest, nil
}

// batch is a running "git cat-file --batch".
type batch struct {
	in  io.WriteCloser
	out *bufio.Reader
	end func() error
}

func (t *Tree) blob(object string) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.batch == nil {
		if err := t.start(); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(t.batch.in, object+"\n"); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	head, err := t.batch.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	var name, kind string
	var size int64
	if n, _ := fmt.Sscan(head, &name, &kind, &size); n != 3 {
		return nil, errors.New("its contents are not in this clone, which is a partial one or damaged (git: " + strings.TrimSpace(head) + ")")
	}
	if kind != "blob" || size > maxBlob {
		return nil, fmt.Errorf("is a %s of %d bytes", kind, size)
	}
	data := make([]byte, size+1) // a line feed follows
	if _, err := io.ReadFull(t.batch.out, data); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return data[:size], nil
}

func (t *Tree) start() error {
	cmd := t.repo.command(t.ctx, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t.batch = &batch{in: in, out: bufio.NewReaderSize(out, 1<<16), end: cmd.Wait}
	return nil
}

// Close ends the git program.
func (t *Tree) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.batch == nil {
		return nil
	}
	err := errors.Join(t.batch.in.Close(), t.batch.end())
	t.batch = nil
	return err
}
