package conform

import (
	"encoding/json"
	"net"
	"net/netip"
	"slices"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// addressesDiffer is whether a difference may be one that istiod itself makes:
// of a host with several addresses, or of several hosts with one, it takes
// any as the address among a virtual host's domains.
func addressesDiffer(diffs []Difference) bool {
	return slices.ContainsFunc(diffs, func(d Difference) bool {
		return d.Kind == Parts && d.Type == "rds" && slices.Equal(withoutAddresses(d.Judge), withoutAddresses(d.Plugin))
	})
}

// withoutAddresses encodes parts without the addresses among their domains.
func withoutAddresses(parts []string) []string {
	var out []string
	for _, js := range parts {
		var p report.Part
		if json.Unmarshal([]byte(js), &p) != nil {
			return nil
		}
		p.Domains = slices.DeleteFunc(p.Domains, isAddress)
		out = append(out, p.JSON())
	}
	slices.Sort(out)
	return out
}

// isAddress is whether a domain is an address or a range, perhaps with a port.
func isAddress(domain string) bool {
	if host, _, err := net.SplitHostPort(domain); err == nil {
		domain = host
	}
	if _, err := netip.ParsePrefix(domain); err == nil {
		return true
	}
	_, err := netip.ParseAddr(domain)
	return err == nil
}
