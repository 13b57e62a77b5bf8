package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Stdin is the name that stands for standard input, on the command line and in
// a Source.
const Stdin = "-"

var extensions = []string{".json", ".yaml", ".yml"}

// expand turns what the user named into files, in the order that kubectl reads
// them. A name that stands for nothing is an error; a directory that cannot be
// listed is a gap.
func expand(names []string, recursive bool) (files []string, gaps []result.Gap, err error) {
	for _, name := range names {
		switch {
		case name == Stdin:
			if !slices.Contains(files, Stdin) {
				files = append(files, Stdin)
			}
		case strings.HasPrefix(name, "http://"), strings.HasPrefix(name, "https://"):
			return nil, nil, fmt.Errorf("cannot read %s: URLs are not fetched; download it and pass the file, or pipe it to -f -", name)
		default:
			matches, err := glob(name)
			if err != nil {
				return nil, nil, err
			}
			for _, path := range matches {
				f, g, err := list(path, recursive)
				if err != nil {
					return nil, nil, err
				}
				for _, file := range f {
					if !slices.Contains(files, file) {
						files = append(files, file)
					}
				}
				gaps = append(gaps, g...)
			}
		}
	}
	return files, gaps, nil
}

// glob expands a pattern, unless a file has that very name.
func glob(pattern string) ([]string, error) {
	if _, err := os.Stat(pattern); !errors.Is(err, fs.ErrNotExist) {
		return []string{pattern}, nil
	}
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %q is not valid: %w", pattern, err)
	}
	if len(matches) == 0 {
		return nil, fmt.Errorf("the path %q does not exist", pattern)
	}
	return matches, nil
}

// list returns the files that a path stands for: itself, or those of the
// directory. Symbolic links to directories below it are not followed.
func list(path string, recursive bool) (files []string, gaps []result.Gap, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, nil, nil // reading it says what is wrong
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, []result.Gap{unreadable(path, err)}, nil
	}
	for _, e := range entries {
		sub := filepath.Join(path, e.Name())
		switch {
		case e.IsDir() && recursive:
			f, g, err := list(sub, true)
			if err != nil && !errors.Is(err, errNoFiles) {
				return nil, nil, err
			}
			files, gaps = append(files, f...), append(gaps, g...)
		case !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())):
			if linksToDirectory(sub, e) {
				continue
			}
			files = append(files, sub)
		}
	}
	if len(files) == 0 && len(gaps) == 0 {
		return nil, nil, fmt.Errorf("error reading %s: %w", path, errNoFiles)
	}
	return files, gaps, nil
}

var errNoFiles = errors.New("no files; recognized file extensions are .json, .yaml and .yml (use -R for the directories in it)")

func linksToDirectory(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func unreadable(name string, err error) result.Gap {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return result.Gap{
		Kind:   result.Unread,
		Object: result.Ref{Kind: "File", Name: name, Source: result.Source{File: name}},
		All:    true,
		Text:   fmt.Sprintf("cannot read %s: %v; what it holds is missing", name, err),
	}
}
