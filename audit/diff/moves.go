package diff

import (
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// moves joins what is lost under one name and gained under another to one
// change: a listener or chain that goes to another address of the same port, a
// virtual host that another route configuration has, a subset that is renamed.
// Only what has exactly one counterpart is a move.
// A cluster that a route still leads to by its old name is lost, not moved, and
// one that a route led to before it was there is gained.
func (c *comparer) moves(x *pairView, list []*found) []*found {
	lost, gained := map[string][]*found{}, map[string][]*found{}
	for _, f := range list {
		side := lost
		switch {
		case f.Kind == result.Gained && len(f.Before) == 0:
			side = gained
		case f.Kind != result.Lost || len(f.After) > 0:
			continue
		}
		if f.Type == "cds" || f.Type == "eds" {
			if v := map[result.ChangeKind]groupView{result.Lost: x.head, result.Gained: x.base}[f.Kind]; c.refs(v).leads(f.Resource) {
				continue
			}
		}
		if s := x.signature(f); s != "" {
			side[s] = append(side[s], f)
		}
	}
	drop := map[*found]bool{}
	for s, from := range lost {
		to := gained[s]
		if len(from) != 1 || len(to) != 1 || from[0].Resource == to[0].Resource {
			continue
		}
		drop[to[0]] = true
		f, t := from[0], to[0]
		f.Kind, f.To, f.ToPart, f.After, f.head = result.Moved, t.Resource, t.Part, t.After, t.head
		f.LeastBytes += t.LeastBytes
		f.MostBytes = f.LeastBytes
	}
	return slices.DeleteFunc(list, func(f *found) bool { return drop[f] })
}

// signature is equal for the two ends of a move; empty: it cannot be one.
func (x *pairView) signature(f *found) string {
	parts, view := f.Before, x.base
	if f.Kind == result.Gained {
		parts, view = f.After, x.head
	}
	switch f.Type {
	case "lds":
		return join("lds", portOf(f.Resource), targets(parts)...)
	case "rds":
		var hosts []string
		for i := range parts {
			if !catchAll(&parts[i]) {
				hosts = append(hosts, parts[i].Name+" -> "+strings.Join(parts[i].To, ","))
			}
		}
		slices.Sort(hosts)
		return join("rds", configPort(f.Resource), hosts...)
	case "cds":
		return view.subsetSignature(f.Resource, parts)
	case "eds":
		for _, r := range view.find("cds", f.Resource) {
			if s := view.subsetSignature(f.Resource, r.Parts); s != "" {
				return "eds" + s
			}
		}
	}
	return ""
}

// configPort is the port in a route configuration's name: "8080", "host:8080",
// "http.8080", "https.443.name.gateway.namespace".
func configPort(name string) string {
	if scheme, rest, ok := strings.Cut(name, "."); ok && (scheme == "http" || scheme == "https") {
		port, _, _ := strings.Cut(rest, ".")
		return port
	}
	return name[strings.LastIndexByte(name, ':')+1:]
}

// subsetSignature says that a subset's cluster is known by its endpoints: what
// has the same ones under another subset's name is the same, renamed.
func (v groupView) subsetSignature(name string, parts []result.Part) string {
	c, ok := parseCluster(name)
	if !ok || c.subset == "" || len(parts) != 1 {
		return ""
	}
	assignments := v.find("eds", name)
	if len(assignments) != 1 || assignments[0].Digest == 0 || assignments[0].Endpoints == 0 {
		return ""
	}
	digest, _ := assignments[0].Digest.MarshalText()
	return join("cds", c.direction, c.port, c.host, parts[0].Type, text(parts[0].Rule), string(digest))
}

// targets are where chains lead to, apart from passing through or dropping.
func targets(parts []result.Part) []string {
	var out []string
	for i := range parts {
		for _, to := range parts[i].To {
			if c := strings.TrimPrefix(to, "cluster "); c != passthroughCluster && c != blackHoleCluster {
				out = append(out, to)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// join is empty if there is nothing to join.
func join(kind, first string, rest ...string) string {
	if len(rest) == 0 {
		return ""
	}
	return kind + "\x00" + first + "\x00" + strings.Join(rest, "\x00")
}

// cluster is the name of an Envoy cluster taken apart, as istiod makes it:
// direction|port|subset|host.
type cluster struct{ direction, port, subset, host string }

func parseCluster(name string) (cluster, bool) {
	words := strings.Split(name, "|")
	if len(words) != 4 {
		return cluster{}, false
	}
	return cluster{words[0], words[1], words[2], words[3]}, true
}
