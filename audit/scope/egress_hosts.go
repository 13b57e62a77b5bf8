package scope

import (
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// egressHosts is the hosts list of one egress listener, by namespace (SC-7;
// Istio pilot/pkg/model/sidecar.go convertIstioListenerToWrapper).
type egressHosts struct {
	byNamespace map[string]*hostSet
	any         *hostSet // of entries "*/…"; nil if none
	// exact: all entries that include name one host in one namespace (SC-10).
	exact bool
}

// hostSet is the entries for one namespace.
type hostSet struct {
	exact     map[string]int // host → position of its first entry
	wildcards []hostEntry
	all       []hostEntry
	excluded  []hostEntry
}

// hostEntry is the host part of an entry with its position in the list.
type hostEntry struct {
	host  string
	index int
}

// parseEgressHosts reads a hosts list for proxies of a namespace. Entries
// without exactly one "/" are ignored, as istiod ignores them. exclusions tells
// whether a leading "~" excludes; otherwise it is an ordinary namespace name.
func parseEgressHosts(hosts []string, ns string, exclusions bool) *egressHosts {
	out := &egressHosts{byNamespace: map[string]*hostSet{}, exact: true}
	for i, h := range hosts {
		owner, name, ok := strings.Cut(h, "/")
		if !ok || strings.Contains(name, "/") {
			continue
		}
		excluded := exclusions && strings.HasPrefix(owner, exportNone)
		if excluded {
			if owner = owner[1:]; owner == "" {
				owner = "*"
			}
		}
		if owner == "." {
			owner = ns
		}
		set := out.byNamespace[owner]
		if set == nil {
			set = &hostSet{exact: map[string]int{}}
			out.byNamespace[owner] = set
		}
		entry := hostEntry{name, i}
		if excluded {
			set.excluded = append(set.excluded, entry)
			continue
		}
		set.include(entry)
		if mesh.IsWildcard(name) || owner == "*" {
			out.exact = false
		}
	}
	out.any = out.byNamespace["*"]
	return out
}

func (h *hostSet) include(entry hostEntry) {
	h.all = append(h.all, entry)
	if mesh.IsWildcard(entry.host) {
		h.wildcards = append(h.wildcards, entry)
		return
	}
	if _, ok := h.exact[entry.host]; !ok {
		h.exact[entry.host] = entry.index
	}
}

// matchService returns the entry that a service's host, or an alias of it,
// satisfies (SC-8).
func (h *hostSet) matchService(host string) (int, bool) {
	if i, ok := h.exact[host]; ok {
		return i, true
	}
	for _, e := range h.wildcards {
		if mesh.HostSubsetOf(host, e.host) {
			return e.index, true
		}
	}
	return 0, false
}

// matchVirtualService returns the entry that a VirtualService's host
// satisfies: either may be the wildcard, unless the VirtualService was made
// from a Gateway API route (SC-11).
func (h *hostSet) matchVirtualService(host string, gatewayAPI bool) (int, bool) {
	if gatewayAPI {
		return h.matchService(host)
	}
	if i, ok := h.exact[host]; ok {
		return i, true
	}
	entries := h.wildcards
	if mesh.IsWildcard(host) {
		entries = h.all
	}
	for _, e := range entries {
		if mesh.HostMatches(host, e.host) {
			return e.index, true
		}
	}
	return 0, false
}

// excludes reports an exclusion that covers the host.
func (h *hostSet) excludes(host string) bool {
	if h == nil {
		return false
	}
	for _, e := range h.excluded {
		if mesh.HostSubsetOf(host, e.host) {
			return true
		}
	}
	return false
}

// excluded reports that an exclusion for the owner's namespace, or for all, covers the host.
func (e *egressHosts) excluded(host, owner string) bool {
	return e.byNamespace[owner].excludes(host) || e.any.excludes(host)
}

// namespaces are the namespaces that entries name, in no order; nil if some
// entry is for all namespaces.
func (e *egressHosts) namespaces() []string {
	if e.any != nil && len(e.any.all) > 0 {
		return nil
	}
	out := make([]string, 0, len(e.byNamespace))
	for ns, set := range e.byNamespace {
		if len(set.all) > 0 {
			out = append(out, ns)
		}
	}
	return out
}
