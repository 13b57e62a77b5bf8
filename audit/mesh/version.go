package mesh

// Version is a full Istio version. The zero Version is unknown.
type Version struct {
	Major, Minor, Patch int
	Suffix              string // "-rc.0", "-alpha.…"; "" for a release
}
