package report

import "sort"

// Set returns the values without repetition, sorted by byte value; nil if
// there are none.
func Set(values []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, v := range values {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	sort.Strings(out)
	return out
}
