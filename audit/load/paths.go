package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Stdin is the name that stands for standard input, on the command line and in
// a Source.
const Stdin = "-"

var extensions = []string{".json", ".yaml", ".yml"}

// place is where names are looked for: a tree, or the disk if that is nil.
type place struct{ tree fs.FS }

func (p place) stat(name string) (fs.FileInfo, error) {
	if p.tree != nil {
		return fs.Stat(p.tree, name)
	}
	return os.Stat(name)
}

func (p place) readDir(name string) ([]fs.DirEntry, error) {
	if p.tree != nil {
		return fs.ReadDir(p.tree, name)
	}
	return os.ReadDir(name)
}

func (p place) matches(pattern string) ([]string, error) {
	if p.tree != nil {
		return fs.Glob(p.tree, pattern)
	}
	return filepath.Glob(pattern)
}

func (p place) join(dir, name string) string {
	if p.tree != nil {
		return path.Join(dir, name)
	}
	return filepath.Join(dir, name)
}

// expand turns what the user named into files, in the order that kubectl reads
// them. A name that stands for nothing is an error, or noted as missing; a
// directory that cannot be listed is a gap.
func (p *parser) expand(from place, o *Options) (files []string, err error) {
	add := func(more ...string) {
		for _, file := range more {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	for _, name := range o.Filenames {
		switch {
		case name == Stdin:
			add(Stdin)
		case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
			return nil, fmt.Errorf("cannot read %s: URLs are not fetched; download it and pass the file, or pipe it to -f -", name)
		default:
			found, gaps, err := from.files(name, o.Recursive)
			switch {
			case err == nil:
				add(found...)
				p.result.Gaps = append(p.result.Gaps, gaps...)
			case o.MayBeMissing && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoFiles)):
				p.result.Missing = append(p.result.Missing, name)
			default:
				return nil, err
			}
		}
	}
	return files, nil
}

// lacks reports, and notes, that a directory may be missing and is.
func (p *parser) lacks(from place, o *Options, name string) bool {
	if !o.MayBeMissing {
		return false
	}
	if _, err := from.stat(name); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	p.result.Missing = append(p.result.Missing, name)
	return true
}

// files are what a name of the user stands for.
func (p place) files(name string, recursive bool) (files []string, gaps []result.Gap, err error) {
	matches, err := p.glob(name)
	if err != nil {
		return nil, nil, err
	}
	for _, match := range matches {
		f, g, err := p.list(match, recursive)
		if err != nil {
			return nil, nil, err
		}
		files, gaps = append(files, f...), append(gaps, g...)
	}
	return files, gaps, nil
}

// glob expands a pattern, unless a file has that very name.
func (p place) glob(pattern string) ([]string, error) {
	if _, err := p.stat(pattern); !errors.Is(err, fs.ErrNotExist) {
		return []string{pattern}, nil
	}
	matches, err := p.matches(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q is not valid: %w", pattern, err)
	}
	if len(matches) == 0 {
		return nil, notThere(pattern)
	}
	return matches, nil
}

// list returns the files that a path stands for: itself, or those of the
// directory. Symbolic links to directories below it are not followed.
func (p place) list(name string, recursive bool) (files []string, gaps []result.Gap, err error) {
	info, err := p.stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, nil, nil // reading it says what is wrong
	}
	entries, err := p.readDir(name)
	if err != nil {
		return nil, []result.Gap{unreadable(name, err)}, nil
	}
	for _, e := range entries {
		sub := p.join(name, e.Name())
		switch {
		case e.IsDir() && recursive:
			f, g, err := p.list(sub, true)
			if err != nil && !errors.Is(err, errNoFiles) {
				return nil, nil, err
			}
			files, gaps = append(files, f...), append(gaps, g...)
		case !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())):
			if p.linksToDirectory(sub, e) {
				continue
			}
			files = append(files, sub)
		}
	}
	if len(files) == 0 && len(gaps) == 0 {
		return nil, nil, fmt.Errorf("error reading %s: %w", name, errNoFiles)
	}
	return files, gaps, nil
}

// notThere is the error of a name that stands for nothing; it is fs.ErrNotExist.
type notThere string

func (name notThere) Error() string        { return fmt.Sprintf("the path %q does not exist", string(name)) }
func (name notThere) Is(target error) bool { return target == fs.ErrNotExist }

var errNoFiles = errors.New("no files; recognized file extensions are .json, .yaml and .yml (use -R for the directories in it)")

func (p place) linksToDirectory(name string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := p.stat(name)
	return err == nil && info.IsDir()
}

// linked says of a name in a tree that cannot be read that it is a link.
func (p place) linked(name string, err error) error {
	if p.tree != nil {
		if to, e := fs.ReadLink(p.tree, name); e == nil {
			return fmt.Errorf("it is a symbolic link to %s: %w", to, reason(err))
		}
	}
	return err
}

// reason is an error without the path that a message names anyway.
func reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

func unreadable(name string, err error) result.Gap {
	return result.Gap{
		Kind:   result.Unread,
		Object: result.Ref{Kind: "File", Name: name, Source: result.Source{File: name}},
		All:    true,
		Text:   fmt.Sprintf("cannot read %s: %v; what it holds is missing", name, reason(err)),
	}
}
