package mesh

// Behaviours are the differences between Istio versions that no flag controls.
// Each field is set from one row of the table below; code asks for the
// behaviour, never for a version.
type Behaviours struct {
	DefaultExportToNames bool // VIS-1: names and "~" of mesh default exportTo lists are honoured
	EgressExclusions     bool // SC-7: a leading "~" in egress hosts excludes
	CombinedPrivateOrder bool // VIS-2: private and exported services in one list by creation

	NamespaceTrafficDistribution bool // REG-9: the Namespace's annotation is inherited
	SameZoneTrafficDistribution  bool // REG-9: PreferSameZone and PreferSameNode are known
	TrafficDistribution          bool // REG-9: read at all
	TerminatingEndpoints         bool // TRAP-40: an unready endpoint without conditions.terminating is Terminating
	ServiceEntryVisibility       bool // VIS-4: meshConfig.serviceEntryVisibility is obeyed
	ExactHostLookup              bool // SC-10: egress hosts that are all exact are looked up, not matched
	ScopedProviderHosts          bool // CDS-13: an extension provider's "ns/host" is scoped to the namespace
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
	{"VIS-4", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.ServiceEntryVisibility = true }},
	{"SC-7", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.EgressExclusions = true }},
	{"SC-10", []Version{{1, 31, 0, ""}}, func(b *Behaviours) { b.ExactHostLookup = true }},
	{"CDS-13", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.ScopedProviderHosts = true }},
	{"REG-9", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.TrafficDistribution = true }},
	{"REG-9", []Version{{1, 28, 0, ""}}, func(b *Behaviours) { b.SameZoneTrafficDistribution = true }},
	{"REG-9", []Version{{1, 30, 0, ""}}, func(b *Behaviours) { b.NamespaceTrafficDistribution = true }},
	{"TRAP-40", []Version{{1, 26, 0, ""}}, func(b *Behaviours) { b.TerminatingEndpoints = true }},
}

// BehavioursOf tells what an istiod of version v does.
func BehavioursOf(v Version) Behaviours {
	var b Behaviours
	for _, row := range behaviours {
		if reached(v, row.since) {
			row.set(&b)
		}
	}
	return b
}

// reached reports that v is in a listed line at or after its release, or in a
// line newer than all listed.
func reached(v Version, since []Version) bool {
	for i, s := range since {
		sameLine := v.Major == s.Major && v.Minor == s.Minor
		if (sameLine || i == len(since)-1) && v.AtLeast(s.Major, s.Minor, s.Patch) {
			return true
		}
	}
	return false
}
