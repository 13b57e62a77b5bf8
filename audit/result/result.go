// Package result holds the nouns of an audit: plain structs that a report
// renders, a file stores and a later diff compares. It knows nothing of
// Kubernetes, Istio's API or the terminal, and imports the standard library
// only, so that a saved result can be read without a cluster.
//
// Everything here is sorted once, at the end of a run: the same input in any
// order gives the same bytes out.
package result

import (
	"fmt"
	"strconv"
)

// Source is where an object was read from. The zero Source is the live cluster.
type Source struct {
	File string `json:"file,omitempty"` // as the user named it; "-" is standard input
	Line int    `json:"line,omitempty"` // first line of the object's document, from 1; 0: not known
}

// String is file:line, or the file alone where the line is not known.
func (s Source) String() string {
	if s.Line == 0 {
		return s.File
	}
	return s.File + ":" + strconv.Itoa(s.Line)
}

// Ref names one input object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // empty: cluster-scoped
	Name      string `json:"name"`
	Source    Source `json:"source,omitzero"`
}

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// ReasonID is an index into Audit.Reasons.
type ReasonID uint32

// Reason says why a resource is there: the rule of istiod that decided, and the
// object and field that it decided by.
type Reason struct {
	Rule string `json:"rule"` // id in docs/rules, for example "VIS-2"
	// Word is the stable term for why, for example "exportTo" or
	// "destinationrule-lookup"; empty: the rule has none.
	Word   string `json:"word,omitempty"`
	Object Ref    `json:"object,omitzero"` // zero: a default of istiod, no object
	Field  string `json:"field,omitempty"` // for example "spec.egress[0].hosts[1]"
	Text   string `json:"text"`
}

// Part is what can be lost from a resource without changing its name: a
// listener's filter chain, a route configuration's virtual host, a cluster's
// type and DestinationRule, the number of endpoints of a load assignment. The
// fields up to Hosts are the canonical form compared with the real generator;
// a field that the resource's type does not use is empty.
type Part struct {
	Name      string   `json:"name,omitempty"`      // virtual host
	Match     *string  `json:"match,omitempty"`     // filter chain; "" matches all, "default" is the default chain
	Domains   []string `json:"domains,omitempty"`   // virtual host
	To        []string `json:"to,omitempty"`        // chain: "cluster N", "rds N", "inline-route -> A,B"; virtual host: cluster names, "mirror N", "redirect", "direct:404" …
	Type      string   `json:"type,omitempty"`      // cluster: EDS, STRICT_DNS, ORIGINAL_DST …
	Rule      *string  `json:"rule,omitempty"`      // cluster: ns/name of the DestinationRule, "" if none
	Endpoints *int     `json:"endpoints,omitempty"` // load assignment, and clusters that resolve by DNS
	Hosts     *int     `json:"hosts,omitempty"`     // name table

	Service string   `json:"service,omitempty"` // host name of the service that the part is sent for; empty: none or several
	Matches []string `json:"matches,omitempty"` // virtual host: what its routes match, in order, as istioctl prints it ("/*", "/login*" …)
	Names   []string `json:"names,omitempty"`   // name table: its hosts, sorted; empty: not asked for
	By      Ref      `json:"by,omitzero"`       // VirtualService, Gateway, Sidecar … that the part comes from; zero: from the service itself
	Bytes   int64    `json:"bytes,omitzero"`    // the part's share of the resource's bytes; 0: not known apart
	Digest  Digest   `json:"digest,omitzero"`   // of a virtual host's or filter chain's content
	// Fails says how requests fail that nothing but their path decides on: all
	// are denied by AuthorizationPolicies, or end in a fault; empty: no such.
	Fails []string `json:"fails,omitempty"`
	// TLS is how a cluster connects: "plaintext", "mutual" (with the proxy's own
	// certificate), "tls"; empty: as each endpoint can.
	TLS string `json:"tls,omitempty"`
}

// Resource is one xDS resource, by the name that Envoy knows it by.
type Resource struct {
	Name string `json:"name"`
	// Address is what a listener is bound to, as "address_port"; empty: its name says so.
	Address string `json:"address,omitempty"`
	// Bytes is the length of the serialised message in the Any that istiod
	// sends (what istiod's pilot_xds_config_size_bytes adds up).
	Bytes     int64      `json:"bytes"`
	Endpoints int        `json:"endpoints,omitzero"` // eds and DNS clusters: endpoint rows carried
	Service   string     `json:"service,omitempty"`  // host name of the service it is sent for; empty: none or several
	Parts     []Part     `json:"parts,omitempty"`
	Because   []ReasonID `json:"because,omitempty"`
	Digest    Digest     `json:"digest,omitzero"` // of the content that no part has a digest of
}

// Digest tells contents apart that have equal names, parts and bytes: the start
// of the SHA-256 of the Envoy message, without the values that each proxy has
// of its own. 0: not known.
type Digest uint64

// MarshalText writes 16 hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(d)), nil }

// UnmarshalText reads what MarshalText writes.
func (d *Digest) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	*d = Digest(n)
	return err
}

// XDS is a number for each xDS type.
type XDS[T int | int64] struct {
	LDS  T `json:"lds"`
	RDS  T `json:"rds"`
	CDS  T `json:"cds"`
	EDS  T `json:"eds"`
	NDS  T `json:"nds,omitzero"`
	ECDS T `json:"ecds,omitzero"`
}

// Lists is a list for each xDS type, sorted by name. A nil list says nothing of
// the type and is left out of JSON; an empty one is written.
type Lists[T any] struct {
	LDS  []T `json:"lds,omitzero"`
	RDS  []T `json:"rds,omitzero"`
	CDS  []T `json:"cds,omitzero"`
	EDS  []T `json:"eds,omitzero"`
	NDS  []T `json:"nds,omitzero"`
	ECDS []T `json:"ecds,omitzero"`
}

// Types are the names of the xDS types, in the order in which they are shown.
var Types = []string{"lds", "rds", "cds", "eds", "nds", "ecds"}

// CommonTypes are those that every proxy has.
var CommonTypes = Types[:4:4]

// Of returns the number of the named type, which must be one of Types.
func (x *XDS[T]) Of(xdsType string) *T {
	return choose(xdsType, &x.LDS, &x.RDS, &x.CDS, &x.EDS, &x.NDS, &x.ECDS)
}

// Of returns the list of the named type, which must be one of Types.
func (l *Lists[T]) Of(xdsType string) *[]T {
	return choose(xdsType, &l.LDS, &l.RDS, &l.CDS, &l.EDS, &l.NDS, &l.ECDS)
}

func choose[T any](xdsType string, values ...*T) *T {
	for i, t := range Types {
		if t == xdsType {
			return values[i]
		}
	}
	panic("result: no xDS type " + xdsType)
}
