package mesh

import (
	"cmp"
	"strconv"
	"strings"
)

// Version is a full Istio version. The zero Version is unknown.
type Version struct {
	Major, Minor, Patch int
	Suffix              string // "-rc.0", "-alpha.…"; "" for a release
}

// DefaultVersion is taken where nothing tells istiod's version.
var DefaultVersion = Version{1, 31, 0, ""}

// distroSuffixes are image flavours that are no part of a version.
var distroSuffixes = []string{"-distroless", "-debug", "-fips", "-ubi"}

// ParseVersion reads a version such as "1.28.3", "v1.31", "1.31.0-rc.0" or an
// image tag "1.24.6-distroless". False: s does not begin with two numbers.
func ParseVersion(s string) (Version, bool) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "v")
	for _, suffix := range distroSuffixes {
		s = strings.Replace(s, suffix, "", 1)
	}
	core, suffix := s, ""
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		core, suffix = s[:i], s[i:]
	}
	parts := strings.Split(core, ".")
	if len(parts) < 2 {
		return Version{}, false
	}
	v := Version{Suffix: suffix}
	for i, field := range []*int{&v.Major, &v.Minor, &v.Patch} {
		if i >= len(parts) {
			break
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			if i < 2 {
				return Version{}, false
			}
			v.Suffix = "-" + parts[i] + suffix
			break
		}
		*field = n
	}
	return v, true
}

// IsZero reports an unknown version.
func (v Version) IsZero() bool { return v == Version{} }

// String is the version as Istio writes it; "" for the zero Version.
func (v Version) String() string {
	if v.IsZero() {
		return ""
	}
	return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) + "." + strconv.Itoa(v.Patch) + v.Suffix
}

// Compare orders versions; a release comes after its pre-releases.
func (v Version) Compare(w Version) int {
	if c := cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch)); c != 0 {
		return c
	}
	vPre, wPre := preRelease(v.Suffix), preRelease(w.Suffix)
	switch {
	case vPre && !wPre:
		return -1
	case !vPre && wPre:
		return 1
	}
	return strings.Compare(v.Suffix, w.Suffix)
}

// AtLeast reports that v is the version or a later one. A pre-release counts
// as its release: what a release candidate does is what the release does.
func (v Version) AtLeast(major, minor, patch int) bool {
	return cmp.Or(cmp.Compare(v.Major, major), cmp.Compare(v.Minor, minor), cmp.Compare(v.Patch, patch)) >= 0
}

func preRelease(suffix string) bool {
	for _, word := range []string{"alpha", "beta", "rc", "dev"} {
		if strings.Contains(suffix, word) {
			return true
		}
	}
	return false
}
