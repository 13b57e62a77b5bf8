package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// ProxyOptions say which of a proxy's resources are listed and how.
type ProxyOptions struct {
	Type  string // lds, rds, cds, eds, nds, ecds; empty: all
	Host  string // only what is sent for this host; empty: all
	Wide  bool   // the columns of istioctl proxy-config
	Color bool   // escape codes for a terminal
}

// Proxy writes what one proxy gets, by type, with bytes and the deciding reason.
func Proxy(out io.Writer, a *result.Audit, p *result.Proxy, o ProxyOptions) error {
	w := &errWriter{palette: newPalette(o.Color), w: out}
	g := a.GroupByID(p.Group)
	all := a.Resolve(g)
	s := a.ScopeByID(g.Scope)
	w.linef("%s", Clean(fmt.Sprintf("%s/%s: %s of %s, revision %s, proxy version %s", p.Namespace, p.Name, p.Kind,
		cmp.Or(p.Workload, "no workload"), p.Revision, p.Version)))
	w.linef("%s", Clean("Scope: "+s.Text+sourceText(s.By.Source)))
	w.linef("%s, %s, %s, %s; %s a connection",
		count(g.Counts.LDS, "listener", "listeners"), count(g.Counts.RDS, "route configuration", "route configurations"),
		count(g.Counts.CDS, "cluster", "clusters"), count(g.Counts.Endpoints, "endpoint row", "endpoint rows"), bytesText(g.Bytes.Total))
	empty := true
	for _, t := range result.Types {
		if o.Type != "" && o.Type != t {
			continue
		}
		list := matching(*all.Of(t), o.Host)
		if len(list) == 0 {
			continue
		}
		empty = false
		w.linef("")
		rows := plainRows(t, a, list)
		if o.Wide {
			rows = wideRows(t, list)
		}
		w.err = cmp.Or(w.err, w.table(w, rows))
	}
	if empty {
		w.linef("")
		w.linef("%s", Clean("Nothing of type "+cmp.Or(o.Type, "any")+hostText(o.Host)+" is sent to this proxy."))
	}
	gaps(w, gapsOf(a, p), false)
	return w.err
}

func hostText(host string) string {
	if host == "" {
		return ""
	}
	return " for host " + host
}

func sourceText(s result.Source) string {
	if s.File == "" {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", s.File, s.Line)
}

// matching keeps the resources that are sent for the host, or whose virtual
// hosts, chains or names tell of it.
func matching(list []*result.Resource, host string) []*result.Resource {
	if host == "" {
		return list
	}
	var out []*result.Resource
	for _, r := range list {
		hit := r.Service == host || strings.Contains(r.Name, host)
		for i := range r.Parts {
			p := &r.Parts[i]
			hit = hit || p.Service == host || slices.Contains(p.Domains, host) || slices.Contains(p.Names, host)
			for _, to := range p.To {
				hit = hit || strings.HasSuffix(to, "|"+host)
			}
		}
		if hit {
			out = append(out, r)
		}
	}
	return out
}

var titles = map[string]string{"lds": "LISTENER", "rds": "ROUTE CONFIGURATION", "cds": "CLUSTER", "eds": "LOAD ASSIGNMENT", "nds": "NAME TABLE", "ecds": "EXTENSION"}

func plainRows(xdsType string, a *result.Audit, list []*result.Resource) [][]string {
	rows := [][]string{{titles[xdsType], "BYTES", "BECAUSE"}}
	switch xdsType {
	case "eds":
		rows[0] = []string{titles[xdsType], "BYTES", "ENDPOINT ROWS", "BECAUSE"}
	case "nds":
		rows[0] = []string{titles[xdsType], "BYTES", "HOSTS", "BECAUSE"}
	}
	for _, r := range list {
		because := ""
		if len(r.Because) > 0 && int(r.Because[0]) < len(a.Reasons) {
			because = reasonText(a.Reasons[r.Because[0]])
		}
		row := []string{r.Name, strconv.FormatInt(r.Bytes, 10), because}
		switch xdsType {
		case "eds":
			row = []string{r.Name, row[1], strconv.Itoa(r.Endpoints), because}
		case "nds":
			row = []string{nameTable, row[1], hostsOf(r), because}
		}
		rows = append(rows, row)
		for _, id := range r.Because[min(1, len(r.Because)):] {
			if int(id) < len(a.Reasons) && slices.Contains(policyKinds, a.Reasons[id].Object.Kind) {
				more := make([]string, len(row))
				more[len(row)-1] = reasonText(a.Reasons[id])
				rows = append(rows, more)
			}
		}
	}
	return rows
}

// policyKinds are those that a row of its own tells of, besides the reason why
// the resource is there.
var policyKinds = []string{
	"PeerAuthentication", "RequestAuthentication", "AuthorizationPolicy", "Telemetry", "WasmPlugin", "EnvoyFilter",
}

func reasonText(r result.Reason) string {
	text := r.Text
	if !r.Object.IsZero() {
		text += " [" + refText(r.Object)
		if r.Field != "" {
			text += " " + r.Field
		}
		text += "]"
	}
	return text
}

// wideRows shows the columns that users know from istioctl proxy-config.
func wideRows(xdsType string, list []*result.Resource) [][]string {
	switch xdsType {
	case "lds":
		return listenerRows(list)
	case "rds":
		return routeRows(list)
	case "cds":
		return clusterRows(list)
	case "nds":
		rows := [][]string{{titles[xdsType], "BYTES", "HOSTS"}}
		for _, r := range list {
			rows = append(rows, []string{nameTable, strconv.FormatInt(r.Bytes, 10), hostsOf(r)})
		}
		return rows
	}
	rows := [][]string{{titles[xdsType], "BYTES", "ENDPOINT ROWS"}}
	for _, r := range list {
		rows = append(rows, []string{r.Name, strconv.FormatInt(r.Bytes, 10), strconv.Itoa(r.Endpoints)})
	}
	return rows
}

// nameTable stands for the table of names, which has no name of its own.
const nameTable = "(all names)"

// hostsOf is the number of hosts in a name table.
func hostsOf(r *result.Resource) string {
	if len(r.Parts) == 0 || r.Parts[0].Hosts == nil {
		return "0"
	}
	return strconv.Itoa(*r.Parts[0].Hosts)
}

func listenerRows(list []*result.Resource) [][]string {
	rows := [][]string{{"ADDRESSES", "PORT", "MATCH", "DESTINATION", "BYTES"}}
	for _, r := range list {
		address, port := addressOf(r)
		size := strconv.FormatInt(r.Bytes, 10)
		for _, p := range r.Parts {
			match := "ALL"
			if p.Match != nil && *p.Match != "" {
				match = *p.Match
			}
			rows = append(rows, []string{address, port, match, destinationText(p.To), size})
			size = ""
		}
		if len(r.Parts) == 0 {
			rows = append(rows, []string{address, port, "", "", size})
		}
	}
	return rows
}

// addressOf is what a listener is bound to, which most are named after.
func addressOf(r *result.Resource) (address, port string) {
	name := cmp.Or(r.Address, r.Name)
	if i := strings.LastIndexByte(name, '_'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// destinationText uses the words of istioctl.
func destinationText(to []string) string {
	words := make([]string, len(to))
	for i, t := range to {
		kind, rest, _ := strings.Cut(t, " ")
		switch kind {
		case "cluster":
			words[i] = "Cluster: " + rest
		case "rds":
			words[i] = "Route: " + rest
		case "inline-route":
			words[i] = "Inline Route: " + strings.TrimPrefix(rest, "-> ")
		default:
			words[i] = t
		}
	}
	return strings.Join(words, ", ")
}

func routeRows(list []*result.Resource) [][]string {
	rows := [][]string{{"NAME", "VHOST NAME", "DOMAINS", "MATCH", "VIRTUAL SERVICE", "BYTES"}}
	for _, r := range list {
		size := strconv.FormatInt(r.Bytes, 10)
		for _, p := range r.Parts {
			by := ""
			if p.By.Kind == "VirtualService" {
				by = p.By.Name + "." + p.By.Namespace
			}
			matches := p.Matches
			if len(matches) == 0 {
				matches = []string{""}
			}
			for _, m := range matches {
				rows = append(rows, []string{r.Name, p.Name, domainsText(p.Domains), m, by, size})
				size = ""
			}
		}
	}
	return rows
}

func domainsText(domains []string) string {
	if len(domains) <= 3 {
		return strings.Join(domains, ", ")
	}
	return fmt.Sprintf("%s + %d more…", strings.Join(domains[:2], ", "), len(domains)-2)
}

func clusterRows(list []*result.Resource) [][]string {
	rows := [][]string{{"SERVICE FQDN", "PORT", "SUBSET", "DIRECTION", "TYPE", "DESTINATION RULE", "BYTES"}}
	for _, r := range list {
		cells := []string{r.Name, "-", "-", "-"}
		if parts := strings.SplitN(r.Name, "|", 4); len(parts) == 4 {
			cells = []string{parts[3], cmp.Or(parts[1], "-"), cmp.Or(parts[2], "-"), parts[0]}
		}
		kind, rule := "", ""
		if len(r.Parts) > 0 {
			kind = r.Parts[0].Type
			if r.Parts[0].Rule != nil {
				namespace, name, _ := strings.Cut(*r.Parts[0].Rule, "/")
				if name != "" {
					rule = name + "." + namespace
				}
			}
		}
		rows = append(rows, append(cells, kind, rule, strconv.FormatInt(r.Bytes, 10)))
	}
	return rows
}
