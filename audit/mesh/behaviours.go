package mesh

// Behaviours are the differences between Istio versions that no flag controls.
// Each field is set from one row of the table below; code asks for the
// behaviour, never for a version.
type Behaviours struct {
	DefaultExportToNames bool // VIS-1: names and "~" of mesh default exportTo lists are honoured
	EgressExclusions     bool // SC-7: a leading "~" in egress hosts excludes
	CombinedPrivateOrder bool // VIS-2: private and exported services in one list by creation
}

// behaviour is one row: from which exact versions a behaviour holds.
type behaviour struct {
	rule  string    // digest id
	since []Version // first release of each line that has it, newest line last
	set   func(*Behaviours)
}

// behaviours is the one table of version differences.
var behaviours = []behaviour{
	{"VIS-1", []Version{{1, 30, 3, ""}, {1, 31, 0, ""}}, func(b *Behaviours) { b.DefaultExportToNames = true }},
	{"VIS-2", []Version{{1, 30, 3, ""}, {1, 31, 0, ""}}, func(b *Behaviours) { b.CombinedPrivateOrder = true }},
	{"SC-7", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.EgressExclusions = true }},
}
