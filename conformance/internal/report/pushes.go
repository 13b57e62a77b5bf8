package report

import "io"

// Pushes is what istiod sent to each connected proxy because of a change.
type Pushes struct {
	Module       string `json:"module"`
	IstioVersion string `json:"istioVersion"`
	// Proxies are all that were connected, by namespace and name.
	Proxies []PushedProxy `json:"proxies"`
}

// PushedProxy is what one connection was sent.
type PushedProxy struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Sent is by short type name; a type that is not in it was not sent.
	Sent map[string]Sent `json:"sent,omitempty"`
}

// Sent is the responses of one type.
type Sent struct {
	Bytes int `json:"bytes"` // of the resources, as encoded, without those that are given up
	Count int `json:"count"` // of all of them
	// GivenUp is the bytes of resources that the proxy no longer asks for once
	// it knows the clusters and listeners of the same push.
	GivenUp int `json:"givenUp,omitempty"`
	Removed int `json:"removed,omitempty"` // names that istiod says are gone
	// Resources are without parts, in the order sent; nil: not asked for.
	Resources []Resource `json:"resources,omitempty"`
}

// Add counts a response of the resources and of so many names that go.
func (s Sent) Add(resources []Resource, removed int) Sent {
	for _, r := range resources {
		s.Bytes += r.Bytes
	}
	s.Count += len(resources)
	s.Removed += removed
	s.Resources = append(s.Resources, resources...)
	return s
}

// Give moves the bytes of resources that the proxy gave up.
func (s Sent) Give(up func(name string) bool) Sent {
	for _, r := range s.Resources {
		if up(r.Name) {
			s.Bytes -= r.Bytes
			s.GivenUp += r.Bytes
		}
	}
	return s
}

// Brief leaves out the single resources.
func (p *Pushes) Brief() {
	for i := range p.Proxies {
		for short, sent := range p.Proxies[i].Sent {
			sent.Resources = nil
			p.Proxies[i].Sent[short] = sent
		}
	}
}

// Write prints the report as indented JSON.
func (p *Pushes) Write(w io.Writer) error { return encode(w, p, " ") }
