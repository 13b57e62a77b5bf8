package cases

import (
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Holds is whether a proxy has what an expectation in the cases' notation
// says.
func Holds(p report.Proxy, typ, want string) bool {
	left, to, hasTo := strings.Cut(want, " -> ")
	switch typ {
	case "cds":
		name, rule, hasRule := strings.Cut(left, " @ ")
		return hasPart(p, typ, name, func(part report.Part) bool {
			return !hasRule || part.Rule != nil && *part.Rule == rule
		})
	case "lds":
		name, match, _ := strings.Cut(left, " ")
		return hasPart(p, typ, name, func(part report.Part) bool {
			return matches(part, match) && (!hasTo || leads(part, listenerTarget(to)))
		}) || !hasTo && match == "" && names(p, typ)[name]
	case "rds":
		name, domain, hasDomain := strings.Cut(left, " # ")
		if !hasDomain {
			return names(p, typ)[name]
		}
		return hasPart(p, typ, name, func(part report.Part) bool {
			return has(part.Domains, domain) && (!hasTo || has(part.To, to))
		})
	}
	return names(p, typ)[left]
}

// hasPart is whether a resource of that name has such a part.
func hasPart(p report.Proxy, typ, name string, ok func(report.Part) bool) bool {
	for _, r := range p.Resources[typ] {
		if r.Name != name {
			continue
		}
		for _, part := range r.Parts {
			if ok(part) {
				return true
			}
		}
	}
	return false
}

// matches is whether a chain is the default one, or serves a server name.
func matches(part report.Part, want string) bool {
	if want == "" {
		return true
	}
	if part.Match == nil {
		return false
	}
	sni, isSNI := strings.CutPrefix(want, "sni:")
	if !isSNI {
		return *part.Match == want
	}
	first, _, _ := strings.Cut(*part.Match, " ")
	list, ok := strings.CutPrefix(first, "sni:")
	return ok && has(strings.Split(list, ","), sni)
}

// listenerTarget turns the notation of cases into that of parts.
func listenerTarget(to string) string {
	if name, ok := strings.CutPrefix(to, "rds:"); ok {
		return "rds " + name
	}
	return "cluster " + to
}

// leads is whether a chain leads to a target.
func leads(part report.Part, target string) bool { return has(part.To, target) }

// has is whether list holds value.
func has(list []string, value string) bool {
	for _, v := range list {
		if v == value {
			return true
		}
	}
	return false
}
