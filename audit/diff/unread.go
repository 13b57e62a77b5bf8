package diff

import (
	"path"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// lacks reports whether an object may be missing from an audit only because it,
// or the file that it may be in, could not be read. A document of which not even
// a name could be read may be any object that the other side has from a file of
// the same name.
func lacks(a *result.Audit, o *result.Object) bool {
	for i := range a.Diagnostics {
		d := &a.Diagnostics[i]
		kind, _, _ := strings.Cut(o.Kind, ".")
		switch {
		case d.Kept || d.Object.Kind != "" && d.Object.Kind != kind:
		case d.Object.Name != "":
			if d.Object.Name == o.Name && (d.Object.Namespace == o.Namespace || d.Object.Namespace == "") {
				return true
			}
		case sameFile(d.Source, o.Source):
			return true
		}
	}
	for i := range a.Gaps {
		if g := &a.Gaps[i]; g.Kind == result.Unread && g.Object.Kind == "File" && sameFile(g.Object.Source, o.Source) {
			return true
		}
	}
	return false
}

func sameFile(x, y result.Source) bool {
	base := func(s result.Source) string { return path.Base(strings.ReplaceAll(s.File, `\`, "/")) }
	return x.File != "" && y.File != "" && base(x) == base(y)
}
