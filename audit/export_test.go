package audit

import "github.com/mesh-audit/mesh-audit/audit/snapshot"

// SetParts makes runs cut into parts of that many proxies, until undo is called.
func SetParts(proxies int) (undo func()) {
	least, most := leastPart, mostParts
	leastPart, mostParts = proxies, 1000
	return func() { leastPart, mostParts = least, most }
}

// Touches is which namespaces' proxies Change computes for a mesh, and whether
// those alone.
func (c *Computation) Touches(snap *snapshot.Snapshot) (map[string]bool, bool) {
	r, err := newRun(snap, c.options)
	if err != nil {
		return nil, false
	}
	return c.touched(r)
}
