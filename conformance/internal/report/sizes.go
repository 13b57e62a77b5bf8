package report

import (
	"cmp"
	"slices"
)

// Size lists the bytes that istiod gives a resource at different times, though
// names and parts are the same.
type Size struct {
	Namespace string `json:"namespace"`
	Proxy     string `json:"proxy"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	// Bytes are at least two lengths, in order.
	Bytes []int `json:"bytes"`
}

// Sizes collects the resources whose bytes vary.
type Sizes map[[4]string][]int

// Compare adds what differs between two reports of the same mesh.
func (s Sizes) Compare(a, b *Report) {
	other := map[string]Proxy{}
	for _, p := range b.Proxies {
		other[p.ID()] = p
	}
	for _, p := range a.Proxies {
		for _, t := range Types {
			theirs := index(other[p.ID()].Resources[t])
			for _, r := range Merge(p.Resources[t]) {
				x, ok := theirs[r.Name]
				if !ok || x.Bytes == r.Bytes {
					continue
				}
				key := [4]string{p.Namespace, p.Name, t, r.Name}
				s[key] = append(s[key], r.Bytes, x.Bytes)
			}
		}
	}
}

// List gives the collected sizes in order.
func (s Sizes) List() []Size {
	var out []Size
	for key, bytes := range s {
		slices.Sort(bytes)
		out = append(out, Size{key[0], key[1], key[2], key[3], slices.Compact(bytes)})
	}
	slices.SortFunc(out, func(a, b Size) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Proxy, b.Proxy), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name))
	})
	return out
}
