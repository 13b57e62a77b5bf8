// Package report holds the answer of the judge: what istiod sends to each
// proxy, in the canonical form that the plugin's answer is compared with.
package report

import (
	"bytes"
	"encoding/json"
	"io"
	"sort"
	"strings"
)

// Module is the Istio module whose generators give the answers.
const Module = "istio.io/istio v0.0.0-20260827124520-eed52ebb66ad"

// IstioVersion is the Istio line that Module stands for.
const IstioVersion = "1.31"

// IstioRelease is the version of the istiods and proxies of a generated mesh,
// and of a proxy whose image tag is no version.
const IstioRelease = "1.31.0"

// Types lists the xDS types in the order in which Envoy asks for them.
var Types = []string{"cds", "eds", "lds", "rds", "ecds", "nds"}

// Report is the judge's answer for one mesh.
type Report struct {
	Module       string     `json:"module"`
	IstioVersion string     `json:"istioVersion"`
	Proxies      []Proxy    `json:"proxies"`
	Unstable     []Unstable `json:"unstable,omitempty"`
	// Sizes are those of resources that istiod makes with other bytes at times.
	Sizes []Size `json:"sizes,omitempty"`
}

// Proxy is what one proxy receives on a fresh connection.
type Proxy struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Kind      string                `json:"kind"`
	Revision  string                `json:"revision,omitempty"`
	Resources map[string][]Resource `json:"resources"`
	Counts    map[string]int        `json:"counts"`
	Bytes     map[string]int        `json:"bytes"`
}

// Resource is one xDS resource: its name, the length of its encoded value
// and its parts.
type Resource struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	Parts []Part `json:"parts,omitempty"`
}

// Part is a piece of a resource that can be lost without its name changing.
// Which fields are set depends on the type of the resource.
type Part struct {
	Match     *string  `json:"match,omitempty"`
	Name      string   `json:"name,omitempty"`
	Domains   []string `json:"domains,omitempty"`
	To        []string `json:"to,omitempty"`
	Type      string   `json:"type,omitempty"`
	Rule      *string  `json:"rule,omitempty"`
	Endpoints *int     `json:"endpoints,omitempty"`
	Hosts     *int     `json:"hosts,omitempty"`
}

// Unstable names something that istiod does not make the same every time.
// Part is empty if the resource itself comes and goes.
type Unstable struct {
	Namespace string `json:"namespace"`
	Proxy     string `json:"proxy"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Part      string `json:"part,omitempty"`
}

// key is what parts are sorted by before their JSON.
func (p Part) key() string {
	if p.Match != nil {
		return *p.Match
	}
	return p.Name
}

// JSON returns the part's encoding; parts are compared by it.
func (p Part) JSON() string {
	var b bytes.Buffer
	encode(&b, p, "")
	return strings.TrimSuffix(b.String(), "\n")
}

// SortParts puts parts into their canonical order.
func SortParts(parts []Part) {
	sort.SliceStable(parts, func(i, j int) bool {
		if a, b := parts[i].key(), parts[j].key(); a != b {
			return a < b
		}
		return parts[i].JSON() < parts[j].JSON()
	})
}

// Sort puts the whole report into its canonical order and fills in the
// counts and the sums of bytes.
func (r *Report) Sort() {
	sort.SliceStable(r.Proxies, func(i, j int) bool {
		return r.Proxies[i].ID() < r.Proxies[j].ID()
	})
	for i := range r.Proxies {
		r.Proxies[i].finish()
	}
	sort.Slice(r.Unstable, func(i, j int) bool { return r.Unstable[i].ID() < r.Unstable[j].ID() })
}

// ID is the proxy's namespace and name.
func (p Proxy) ID() string { return p.Namespace + "/" + p.Name }

// ID joins all of u's fields.
func (u Unstable) ID() string {
	return strings.Join([]string{u.Namespace, u.Proxy, u.Type, u.Name, u.Part}, "\x00")
}

// finish sorts the proxy's resources and sums them up.
func (p *Proxy) finish() {
	p.Counts, p.Bytes = map[string]int{}, map[string]int{}
	for _, t := range Types {
		list := p.Resources[t]
		if list == nil {
			list = []Resource{}
			p.Resources[t] = list
		}
		sort.SliceStable(list, func(i, j int) bool { return list[i].Name < list[j].Name })
		p.Counts[t] = len(list)
		for _, res := range list {
			p.Bytes[t] += res.Bytes
		}
		p.Counts["total"] += p.Counts[t]
		p.Bytes["total"] += p.Bytes[t]
	}
}

// Write prints the report as indented JSON.
func (r *Report) Write(w io.Writer) error { return encode(w, r, " ") }

// encode writes JSON without HTML escapes, so that names stay readable.
func encode(w io.Writer, v any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	return enc.Encode(v)
}
