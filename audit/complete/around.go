package complete

import (
	"iter"
)

// Around is what completion has to know of a mesh that the input is laid on.
type Around struct {
	Addresses iter.Seq[string]                       // in use there; nil: none
	Nodes     int                                    // in it
	Sliced    func(namespace, name string) bool      // the Service has endpoints that stay; nil: none has
	Running   func(kind, namespace, name string) int // how many pods of the workload stay; nil: none
}

// Assigned are made-up addresses by what they were made up for.
type Assigned struct {
	services map[target]string
	pods     map[podSlot]string
	entries  map[entryHost][2]string // IPv4, IPv6
}

// podSlot is one of a workload's pods: a changed template changes its name.
type podSlot struct {
	workload target
	number   int
}

type entryHost struct {
	entry target
	host  string
}

// NewAssigned has none yet.
func NewAssigned() *Assigned {
	return &Assigned{services: map[target]string{}, pods: map[podSlot]string{}, entries: map[entryHost][2]string{}}
}

// Pod gives the address that the numbered pod of a workload is to have.
func (a *Assigned) Pod(kind, namespace, name string, number int, address string) {
	a.pods[podSlot{target{kind, namespace, name}, number}] = address
}
