package diff

import (
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// lacks reports whether an object of one side may be missing from the other only
// because it, or the file that it may be in, could not be read there. A document
// of which not even a name could be read may be any object of the file that
// corresponds to its own.
func (c *comparer) lacks(other *side, o *result.Object) bool {
	for i := range other.Diagnostics {
		d := &other.Diagnostics[i]
		kind, _, _ := strings.Cut(o.Kind, ".")
		switch {
		case d.Kept || d.Object.Kind != "" && d.Object.Kind != kind:
		case d.Object.Name != "":
			if d.Object.Name == o.Name && (d.Object.Namespace == o.Namespace || d.Object.Namespace == "") {
				return true
			}
		case c.correspond(other, d.Source.File, o.Source.File):
			return true
		}
	}
	for i := range other.Gaps {
		if g := &other.Gaps[i]; g.Kind == result.Unread && g.Object.Kind == "File" && c.correspond(other, g.Object.Source.File, o.Source.File) {
			return true
		}
	}
	return false
}

// correspond reports whether a file of one side may be what the other side has
// as theirs: each is among those of its side that are most like the other, or
// neither side has anything like it. Files are alike by how their paths end,
// since the directories that are compared have other names.
func (c *comparer) correspond(other *side, theirs, ours string) bool {
	if theirs == "" || ours == "" {
		return false
	}
	own := c.head
	if other == c.head {
		own = c.base
	}
	alike := common(steps(theirs), steps(ours))
	return alike == other.files().most(ours) && alike == own.files().most(theirs)
}

func steps(file string) []string { return strings.Split(strings.ReplaceAll(file, `\`, "/"), "/") }

// common is how many steps at the end two paths have in common.
func common(a, b []string) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// fileNames are the ends of the paths of a side's files.
type fileNames map[string]bool

func (s *side) files() fileNames {
	if s.names != nil {
		return s.names
	}
	s.names = fileNames{}
	for i := range s.Objects {
		s.names.add(s.Objects[i].Source.File)
	}
	for i := range s.Diagnostics {
		s.names.add(s.Diagnostics[i].Source.File)
	}
	for i := range s.Gaps {
		s.names.add(s.Gaps[i].Object.Source.File)
	}
	return s.names
}

func (f fileNames) add(file string) {
	path := steps(file)
	for i := range path {
		f[end(path, i)] = true
	}
}

// most is how many steps at the end one of the files has in common with another.
func (f fileNames) most(file string) int {
	path := steps(file)
	for i := range path {
		if f[end(path, i)] {
			return len(path) - i
		}
	}
	return 0
}

func end(path []string, from int) string { return strings.Join(path[from:], "/") }
