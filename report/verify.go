package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// VerifyOptions say how a verification is shown.
type VerifyOptions struct {
	All   bool // every row
	Color bool // escape codes for a terminal
}

// How much the first screen lists.
const (
	equalRows       = 20 // proxies that are equal
	detailedProxies = 5  // proxies that differ, with what differs
	detailedRows    = 50 // differences of one of them
	unreadReasons   = 5  // reasons why proxies could not be read
)

// Verify writes which proxies are as predicted, and for the others what is not.
func Verify(out io.Writer, v *result.Verification, o VerifyOptions) error {
	w := &errWriter{palette: newPalette(o.Color), w: out}
	t := v.Totals
	w.linef("%s: %d equal, %d differ%s", count(t.Proxies, "proxy", "proxies"), t.Equal, t.Differ, unreadText(t.Unread))
	if t.Proxies == 0 {
		return w.err
	}
	rows := [][]string{{"PROXY", "LDS", "RDS", "CDS", "EDS", "PREDICTED", "ACTUAL", "RESULT", "AGAINST"}}
	left := 0
	for i := range v.Proxies {
		p := &v.Proxies[i]
		if !o.All && p.Equal && len(rows) > equalRows {
			left++
			continue
		}
		if p.Unread == "" {
			rows = append(rows, verifiedRow(p))
		}
	}
	if len(rows) > 1 {
		w.linef("")
		w.err = cmp.Or(w.err, w.table(w, rows))
	}
	if left > 0 {
		w.linef("… and %d more that are equal (--all shows them)", left)
	}
	unreadProxies(w, v, o)
	shown := 0
	for i := range v.Proxies {
		p := &v.Proxies[i]
		if p.Equal || p.Unread != "" {
			continue
		}
		if shown++; shown > detailedProxies && !o.All {
			continue
		}
		verifiedDetails(w, p, o)
	}
	if rest := shown - detailedProxies; rest > 0 && !o.All {
		w.linef("")
		w.linef("… and %s more that differ (--all shows them)", count(rest, "proxy", "proxies"))
	}
	return w.err
}

// unreadProxies says for which proxies the actual config could not be read: a
// line for each, or, on the first screen, for each reason.
func unreadProxies(w *errWriter, v *result.Verification, o VerifyOptions) {
	more := map[string]int{}
	var lines []*result.Verified
	for i := range v.Proxies {
		p := &v.Proxies[i]
		if p.Unread == "" {
			continue
		}
		reason := unreadReason(p)
		if _, said := more[reason]; said && !o.All {
			more[reason]++
			continue
		}
		more[reason] = 0
		lines = append(lines, p)
	}
	if len(lines) > 0 {
		w.linef("")
	}
	left := 0
	for i, p := range lines {
		others := more[unreadReason(p)]
		if i >= unreadReasons && !o.All {
			left += 1 + others
			continue
		}
		text := p.Namespace + "/" + p.Name
		if others > 0 {
			text += fmt.Sprintf(" and %d more", others)
		}
		w.linef("%s", w.unread.Sprint(Clean("not read: "+p.Unread+" ("+text+")")))
	}
	if left > 0 {
		w.linef("… and %s more that could not be read, for other reasons (--all shows them)", count(left, "proxy", "proxies"))
	}
}

// ownIDs are what in a reason is of one pod or connection only: hashes and UIDs.
var ownIDs = regexp.MustCompile(`[0-9a-f]{8,}(-[0-9a-f]{4,})*`)

// unreadReason is why a proxy could not be read, in words that are the same for
// another proxy with the same trouble.
func unreadReason(p *result.Verified) string {
	text := strings.NewReplacer(p.Namespace+"/"+p.Name, "POD", p.Name, "POD", `namespace "`+p.Namespace+`"`, "NAMESPACE").Replace(p.Unread)
	return ownIDs.ReplaceAllString(text, "ID")
}

func unreadText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d not read", n)
}

func verifiedRow(p *result.Verified) []string {
	row := []string{p.Namespace + "/" + p.Name}
	for _, t := range []string{"lds", "rds", "cds", "eds"} {
		row = append(row, typeCell(p, t))
	}
	predicted, actual := "not comparable", ""
	if p.Bytes != nil {
		predicted, actual = bytesText(p.Bytes.Predicted), bytesText(p.Bytes.Actual)
	}
	return append(row, predicted, actual, verifiedWord(p), p.Actual)
}

// typeCell is the number of resources, both numbers where they are not equal.
func typeCell(p *result.Verified, xdsType string) string {
	for i := range p.Types {
		t := &p.Types[i]
		switch {
		case t.Type != xdsType:
			continue
		case t.NotCompared != "":
			return "-"
		case t.Predicted != t.Actual:
			return fmt.Sprintf("%d≠%d", t.Predicted, t.Actual)
		}
		return strconv.Itoa(t.Actual)
	}
	return "0"
}

func verifiedWord(p *result.Verified) string {
	if p.Equal {
		return "equal"
	}
	return "differs"
}

// verifiedDetails lists what of a proxy is not as predicted.
func verifiedDetails(w *errWriter, p *result.Verified, o VerifyOptions) {
	w.linef("")
	w.linef("%s", w.header.Sprint(Clean(fmt.Sprintf("%s/%s (%s) against %s", p.Namespace, p.Name, p.Kind, p.Actual))))
	rows := [][]string{{"TYPE", "CHANGE", "NAME", "WHAT"}}
	for i := range p.Types {
		rows = append(rows, differenceRows(&p.Types[i])...)
	}
	if rest := len(rows) - 1 - detailedRows; rest > 0 && !o.All {
		rows = rows[:detailedRows+1]
		defer w.linef("… and %d more differences (--all shows them)", rest)
	}
	if len(rows) > 1 {
		w.err = cmp.Or(w.err, w.table(w, rows))
	}
	for i := range p.Types {
		if t := &p.Types[i]; t.NotCompared != "" {
			w.linef("%s", Clean(t.Type+" not compared: "+t.NotCompared))
		}
	}
	if p.Bytes != nil && !p.Bytes.Within {
		w.linef("bytes: %d predicted, %d actual", p.Bytes.Predicted, p.Bytes.Actual)
	}
	if len(p.May) > 0 {
		w.linef("%s", w.header.Sprint("MAY EXPLAIN IT"))
		for _, text := range p.May {
			w.linef("  %s", Clean(text))
		}
	}
}

func differenceRows(t *result.VerifiedType) [][]string {
	if t.NotCompared != "" {
		return nil
	}
	var rows [][]string
	for _, name := range t.Missing {
		rows = append(rows, []string{t.Type, "missing", name, "predicted, but not there"})
	}
	for _, name := range t.Extra {
		rows = append(rows, []string{t.Type, "extra", name, "there, but not predicted"})
	}
	for i := range t.Differing {
		d := &t.Differing[i]
		for j := range d.Missing {
			rows = append(rows, []string{t.Type, "part missing", d.Name, partText(&d.Missing[j])})
		}
		for j := range d.Extra {
			rows = append(rows, []string{t.Type, "part extra", d.Name, partText(&d.Extra[j])})
		}
	}
	for _, r := range t.Resized {
		rows = append(rows, []string{t.Type, "bytes", r.Name, fmt.Sprintf("%d predicted, %d actual", r.Predicted, r.Actual)})
	}
	return rows
}

// partText shows the canonical form of a part.
func partText(p *result.Part) string {
	var words []string
	add := func(name, value string) { words = append(words, name+" "+value) }
	if p.Name != "" {
		add("virtual host", p.Name)
	}
	if p.Match != nil {
		add("chain", cmp.Or(*p.Match, "of all"))
	}
	if p.Type != "" {
		add("type", p.Type)
	}
	if p.Rule != nil && *p.Rule != "" {
		add("DestinationRule", *p.Rule)
	}
	if len(p.Domains) > 0 {
		add("domains", strings.Join(p.Domains, ","))
	}
	if len(p.To) > 0 {
		add("to", strings.Join(p.To, ","))
	}
	if p.Endpoints != nil {
		words = append(words, count(*p.Endpoints, "endpoint", "endpoints"))
	}
	if p.Hosts != nil {
		words = append(words, count(*p.Hosts, "host", "hosts"))
	}
	return strings.Join(words, ", ")
}

// VerifyJSON writes the verification as one indented JSON document.
func VerifyJSON(w io.Writer, v *result.Verification) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// VerifyYAML writes the same document as YAML.
func VerifyYAML(w io.Writer, v *result.Verification) error {
	out, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
