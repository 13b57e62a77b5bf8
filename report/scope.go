package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// How many rows the default tables show: header, groups, services and gaps
// together fit one screen.
const (
	groupRows   = 14
	serviceRows = 6
	gapRows     = 6
	fanoutRows  = 40
)

// ScopeOptions say how much the scope table shows.
type ScopeOptions struct {
	Wide  bool // bytes by type, revision, version
	All   bool // every row
	Color bool // escape codes for a terminal
	Width int  // columns that a row should not pass: long names are cut at their start; 0: no limit
}

// Scope writes the table of the whole mesh: what each group of proxies gets,
// what weighs most, istiod's side, and the gaps.
func Scope(out io.Writer, a *result.Audit, o ScopeOptions) error {
	w := &errWriter{palette: newPalette(o.Color), w: out}
	header(w, a)
	w.linef("")
	groups(w, a, o)
	if len(a.Services) > 0 {
		w.linef("")
		services(w, a, limit(o.All, serviceRows), "HEAVIEST SERVICES", false)
		remainderLine(w, a)
	}
	w.linef("")
	t := a.Mesh.Totals
	w.linef("istiod: %s, %d endpoint rows, %s of config when all connect",
		count(t.Connections, "connection", "connections"), t.EndpointRows, bytesText(t.Bytes))
	gaps(w, a.Gaps, o.All)
	return w.err
}

func limit(all bool, n int) int {
	if all {
		return int(^uint(0) >> 1)
	}
	return n
}

func header(w *errWriter, a *result.Audit) {
	for _, c := range a.Mesh.ControlPlanes {
		assumed := ""
		if c.VersionAssumed {
			assumed = " (assumed)"
		}
		line := fmt.Sprintf("Istio %s%s, revision %s", c.Version, assumed, c.Revision)
		if len(c.Tags) > 0 {
			line += " (tags " + strings.Join(c.Tags, ", ") + ")"
		}
		line += fmt.Sprintf(", root namespace %s, outbound %s", c.RootNamespace, c.OutboundPolicy)
		if len(a.Mesh.ControlPlanes) > 1 {
			line += ": " + count(c.Proxies, "proxy", "proxies")
		}
		w.linef("%s", Clean(line))
		for _, name := range sortedKeys(c.Flags) {
			w.linef("  %s", Clean(name+"="+c.Flags[name]))
		}
	}
	m := a.Mesh
	line := fmt.Sprintf("%s, %s, %s, %s", count(m.Namespaces, "namespace", "namespaces"), count(m.Services, "service", "services"),
		count(m.EndpointRows, "endpoint row", "endpoint rows"), count(m.Proxies, "proxy", "proxies"))
	if m.Assumed > 0 {
		line += fmt.Sprintf(" (%d assumed from workload templates)", m.Assumed)
	}
	if len(a.Proxies) != m.Proxies {
		line += fmt.Sprintf("; %d shown", len(a.Proxies))
	}
	w.linef("%s", line)
	if m.Partial != "" {
		w.linef("PARTIAL: only namespace %s was read; what other namespaces define is missing", Clean(m.Partial))
	}
}

// row is one line of the group table: groups that differ only in which of
// their pods' own headless listeners they are without stand together.
type row struct {
	kind, where, scope, revision, version string
	counts                                result.Counts
	bytes                                 result.Bytes
	proxies                               int
}

func groupRowsOf(a *result.Audit) []row {
	revisions := map[string][2]string{}
	for _, p := range a.Proxies {
		if _, ok := revisions[p.Group]; !ok {
			revisions[p.Group] = [2]string{p.Revision, p.Version}
		}
	}
	scopes := map[string]*result.Scope{}
	for i := range a.Scopes {
		scopes[a.Scopes[i].ID] = &a.Scopes[i]
	}
	index := map[row]int{}
	var rows []row
	for i := range a.Groups {
		g := &a.Groups[i]
		r := row{kind: g.Kind, where: g.Namespace + "/" + cmp.Or(g.Workload, "(bare pod)"), counts: g.Counts, bytes: g.Bytes,
			revision: revisions[g.ID][0], version: revisions[g.ID][1]}
		if s := scopes[g.Scope]; s != nil {
			r.scope = s.Text
		}
		at, ok := index[r]
		if !ok {
			at = len(rows)
			index[r] = at
			rows = append(rows, r)
		}
		rows[at].proxies += g.Proxies
	}
	slices.SortStableFunc(rows, func(x, y row) int {
		return cmp.Or(cmp.Compare(y.bytes.Total*int64(y.proxies), x.bytes.Total*int64(x.proxies)),
			cmp.Compare(x.where, y.where), cmp.Compare(x.scope, y.scope))
	})
	return rows
}

// noProxies says why there are none: whoever may not list pods does not know.
func noProxies(a *result.Audit) string {
	for _, g := range a.Gaps {
		switch {
		case g.Kind != result.Unread || g.Object.Kind != "Pod":
		case strings.Contains(g.Text, "forbidden"):
			return "No proxies are known: pods could not be read. With rights in one namespace only, give --only-namespace."
		default:
			return "No proxies are known: pods could not be read."
		}
	}
	return "No proxies: no pod with an istio-proxy container, nor, in files, a workload that injection selects."
}

func groups(w *errWriter, a *result.Audit, o ScopeOptions) {
	all := groupRowsOf(a)
	shown := all[:min(len(all), limit(o.All, groupRows))]
	if len(all) == 0 {
		w.linef("%s", noProxies(a))
		return
	}
	head := []string{"PROXIES", "WORKLOAD", "LISTENERS", "ROUTES", "CLUSTERS", "EP ROWS", "BYTES/PROXY", "TOTAL", "SCOPE"}
	if o.Wide {
		head = append(head[:7:7], "LDS", "RDS", "CDS", "EDS", "NDS", "ECDS", "TOTAL", "SCOPE", "KIND", "REVISION", "VERSION")
	}
	rows := [][]string{head}
	for _, r := range shown {
		cells := []string{fmt.Sprint(r.proxies), where(r.where, o), fmt.Sprint(r.counts.LDS), fmt.Sprint(r.counts.RDS),
			fmt.Sprint(r.counts.CDS), fmt.Sprint(r.counts.Endpoints), bytesText(r.bytes.Total)}
		if o.Wide {
			for _, n := range []int64{r.bytes.LDS, r.bytes.RDS, r.bytes.CDS, r.bytes.EDS, r.bytes.NDS, r.bytes.ECDS} {
				cells = append(cells, fmt.Sprint(n))
			}
		}
		cells = append(cells, bytesText(r.bytes.Total*int64(r.proxies)), scopeText(r.scope, o))
		if o.Wide {
			cells = append(cells, r.kind, r.revision, r.version)
		}
		rows = append(rows, cells)
	}
	w.err = cmp.Or(w.err, w.table(w, rows))
	if rest := all[len(shown):]; len(rest) > 0 {
		proxies, bytes := 0, int64(0)
		for _, r := range rest {
			proxies += r.proxies
			bytes += r.bytes.Total * int64(r.proxies)
		}
		w.linef("… and %s: %s, %s (--all shows them)", count(len(rest), "more row", "more rows"), count(proxies, "proxy", "proxies"), bytesText(bytes))
	}
}

func where(s string, o ScopeOptions) string {
	if o.Wide {
		return s
	}
	if parts := strings.Split(s, "/"); len(parts) == 3 {
		s = parts[0] + "/" + parts[2]
	}
	if o.Width == 0 {
		return s
	}
	return shorten(Clean(s), 24+(o.Width-120)/2)
}

func scopeText(s string, o ScopeOptions) string {
	if o.Wide || o.Width == 0 {
		return s
	}
	return shorten(Clean(s), 22+(o.Width-120)/2)
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
