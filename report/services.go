package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Fanout writes the table of services: who receives each and what it weighs.
func Fanout(out io.Writer, a *result.Audit, o ScopeOptions) error {
	w := &errWriter{palette: newPalette(o.Color), w: out}
	header(w, a)
	w.linef("")
	services(w, a, limit(o.All, fanoutRows), "SERVICE", true)
	gaps(w, a.Gaps, o.All)
	return w.err
}

// services writes the n heaviest services; rest asks for what no single service
// accounts for, and the sum.
func services(w *errWriter, a *result.Audit, n int, title string, rest bool) {
	rows := [][]string{{title, "ADDRESSES", "PROXIES", "BYTES/PROXY", "TOTAL"}}
	shown := a.Services[:min(len(a.Services), n)]
	for _, s := range shown {
		name := s.Host
		if s.Headless {
			name += " (headless)"
		}
		if s.Istiod {
			name += " (istiod)"
		}
		rows = append(rows, []string{name, fmt.Sprint(s.Addresses), fmt.Sprint(s.Proxies), bytesText(s.Bytes), bytesText(s.Total)})
	}
	left := a.Services[len(shown):]
	var leftBytes int64
	for _, s := range left {
		leftBytes += s.Total
	}
	more := "… and " + count(len(left), "more service", "more services")
	if rest {
		if len(left) > 0 {
			rows = append(rows, []string{more + " (--all)", "", "", "", bytesText(leftBytes)})
		}
		rows = append(rows, remainderRows(a)...)
	}
	w.err = cmp.Or(w.err, w.table(w, rows))
	if len(left) > 0 && !rest {
		w.linef("%s, %s (--by service --all shows them)", more, bytesText(leftBytes))
	}
}

// remainderRows tell of what no single service accounts for, and the sum of all.
func remainderRows(a *result.Audit) [][]string {
	var rows [][]string
	for _, r := range a.Remainder {
		rows = append(rows, []string{"(" + r.Name + ")", "-", fmt.Sprint(r.Proxies), bytesText(r.Bytes), bytesText(r.Total)})
	}
	t := a.Mesh.Totals
	return append(rows, []string{"(sum)", "-", fmt.Sprint(t.Connections), bytesText(meanOf(t)), bytesText(t.Bytes)})
}

// remainderLine tells in one line what no single service accounts for, so that
// it and the services add up to the sum.
func remainderLine(w *errWriter, a *result.Audit) {
	if len(a.Remainder) == 0 {
		return
	}
	parts := make([]string, len(a.Remainder))
	for i, r := range a.Remainder {
		parts[i] = r.Name + " " + bytesText(r.Total)
	}
	w.linef("of no single service: %s; in all %s", strings.Join(parts, ", "), bytesText(a.Mesh.Totals.Bytes))
}

func meanOf(t result.Totals) int64 {
	if t.Connections == 0 {
		return 0
	}
	return t.Bytes / int64(t.Connections)
}
