package report

// AllParts stands for all parts of a resource, where they have no key.
const AllParts = "*"

// Compare lists what differs between two reports of the same mesh.
func Compare(a, b *Report) []Unstable {
	var out []Unstable
	other := map[string]Proxy{}
	for _, p := range b.Proxies {
		other[p.ID()] = p
	}
	for _, p := range a.Proxies {
		for _, t := range Types {
			for _, u := range compareResources(p.Resources[t], other[p.ID()].Resources[t]) {
				u.Namespace, u.Proxy, u.Type = p.Namespace, p.Name, t
				out = append(out, u)
			}
		}
	}
	return out
}

// compareResources lists names that only one side has, and keys of parts
// that differ.
func compareResources(a, b []Resource) []Unstable {
	left, right := index(a), index(b)
	var out []Unstable
	for name, l := range left {
		r, ok := right[name]
		if !ok {
			out = append(out, Unstable{Name: name})
			continue
		}
		for _, key := range differingParts(l.Parts, r.Parts) {
			out = append(out, Unstable{Name: name, Part: key})
		}
	}
	for name := range right {
		if _, ok := left[name]; !ok {
			out = append(out, Unstable{Name: name})
		}
	}
	return out
}

// index finds resources by name.
func index(list []Resource) map[string]Resource {
	out := map[string]Resource{}
	for _, r := range Merge(list) {
		out[r.Name] = r
	}
	return out
}

// Merge joins resources of one name: istiod may send a proxy two, say a
// Sidecar's ingress listener that binds to its port, and an outbound one.
func Merge(list []Resource) []Resource {
	at := map[string]int{}
	var out []Resource
	for _, r := range list {
		i, seen := at[r.Name]
		if !seen {
			at[r.Name] = len(out)
			out = append(out, r)
			continue
		}
		out[i].Bytes += r.Bytes
		out[i].Parts = append(append([]Part{}, out[i].Parts...), r.Parts...)
		SortParts(out[i].Parts)
	}
	return out
}

// differingParts lists the keys of the parts that only one side has.
func differingParts(a, b []Part) []string {
	count := map[string]int{}
	keys := map[string]string{}
	add := func(parts []Part, n int) {
		for _, p := range parts {
			js := p.JSON()
			count[js] += n
			keys[js] = p.Key()
		}
	}
	add(a, 1)
	add(b, -1)
	var out []string
	for js, n := range count {
		if n != 0 {
			out = append(out, keys[js])
		}
	}
	return Set(out)
}

// Key names the part within its resource; AllParts if it has no name.
func (p Part) Key() string {
	if k := p.key(); k != "" {
		return k
	}
	return AllParts
}
