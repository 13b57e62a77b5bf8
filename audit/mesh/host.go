package mesh

import "strings"

// A host name that begins with "*" is a wildcard for every name that ends with
// the rest (Istio pkg/config/host/name.go).
func wildcard(host string) bool { return strings.HasPrefix(host, "*") }

// IsWildcard reports a wildcard host name.
func IsWildcard(host string) bool { return wildcard(host) }

// HostMatches reports that some name satisfies both a and b; either may be a wildcard.
func HostMatches(a, b string) bool {
	switch {
	case wildcard(a) && wildcard(b):
		if len(a) < len(b) {
			return strings.HasSuffix(b[1:], a[1:])
		}
		return strings.HasSuffix(a[1:], b[1:])
	case wildcard(a):
		return strings.HasSuffix(b, a[1:])
	case wildcard(b):
		return strings.HasSuffix(a, b[1:])
	}
	return a == b
}

// HostSubsetOf reports that every name of a is a name of b.
func HostSubsetOf(a, b string) bool {
	switch {
	case wildcard(a) && wildcard(b):
		return len(a) >= len(b) && strings.HasSuffix(a[1:], b[1:])
	case wildcard(a):
		return false
	case wildcard(b):
		return strings.HasSuffix(a, b[1:])
	}
	return a == b
}

// MoreSpecificHost orders host names as istiod does: exact names before
// wildcards, longer before shorter, then by the alphabet (Istio
// pkg/config/host/names.go).
func MoreSpecificHost(a, b string) bool {
	if wa, wb := wildcard(a), wildcard(b); wa != wb {
		return wb
	}
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a < b
}

// MostSpecificHost returns the most specific of hosts that is needle or a
// wildcard over it, and whether there is one.
func MostSpecificHost(needle string, hosts []string) (string, bool) {
	best, found := "", false
	for _, h := range hosts {
		if HostSubsetOf(needle, h) && (!found || MoreSpecificHost(h, best)) {
			best, found = h, true
		}
	}
	return best, found
}
