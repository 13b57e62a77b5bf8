package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/fatih/color"
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
	asideLines      = 5  // why proxies could not be read, or not compared in all
)

// Verify writes which proxies are as predicted, and for the others what is not.
func Verify(out io.Writer, v *result.Verification, o VerifyOptions) error {
	w := &errWriter{palette: newPalette(o.Color), w: out}
	t := v.Totals
	w.linef("%s: %d equal%s, %d differ%s", count(t.Proxies, "proxy", "proxies"), t.Equal, inPart(v), t.Differ, unreadText(t.Unread))
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
	asides(w, unreadProxies(v), o, w.unread, "that could not be read, for other reasons")
	asides(w, equalProxies(v), o, w.unmodelled, "that are equal, of which something else is to be said")
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

// aside is what is said of a proxy beside its row.
type aside struct {
	proxy *result.Verified
	text  string
}

// unreadProxies are those of which the actual config could not be read, with why.
func unreadProxies(v *result.Verification) (out []aside) {
	for i := range v.Proxies {
		if p := &v.Proxies[i]; p.Unread != "" {
			out = append(out, aside{p, "not read: " + p.Unread})
		}
	}
	return out
}

// equalProxies says of equal proxies what was not compared, and what their Envoys
// do or refused.
func equalProxies(v *result.Verification) (out []aside) {
	for i := range v.Proxies {
		p := &v.Proxies[i]
		if !p.Equal {
			continue
		}
		why := map[string][]string{}
		var reasons []string
		for _, t := range p.NotCompared() {
			if why[t.NotCompared] == nil {
				reasons = append(reasons, t.NotCompared)
			}
			why[t.NotCompared] = append(why[t.NotCompared], t.Type)
		}
		for _, reason := range reasons {
			out = append(out, aside{p, strings.Join(why[reason], ", ") + " not compared: " + reason})
		}
		for _, text := range p.May {
			out = append(out, aside{p, "note: " + text})
		}
	}
	return out
}

// asides writes a line for each or, on the first screen, one for all proxies of
// which the same is to be said; more says of what further ones there are.
func asides(w *errWriter, list []aside, o VerifyOptions, style *color.Color, more string) {
	also := map[string]int{}
	var lines []aside
	for _, a := range list {
		key := a.inGeneral()
		if _, said := also[key]; said && !o.All {
			also[key]++
			continue
		}
		also[key] = 0
		lines = append(lines, a)
	}
	if len(lines) > 0 {
		w.linef("")
	}
	left := 0
	for i, a := range lines {
		others := also[a.inGeneral()]
		if i >= asideLines && !o.All {
			left += 1 + others
			continue
		}
		of := a.proxy.Namespace + "/" + a.proxy.Name
		if others > 0 {
			of += fmt.Sprintf(" and %d more", others)
		}
		w.linef("%s", style.Sprint(Clean(a.text+" ("+of+")")))
	}
	if left > 0 {
		w.linef("… and %s more %s (--all shows them)", count(left, "proxy", "proxies"), more)
	}
}

// ownIDs are what in a text is of one pod or connection only: hashes and UIDs.
var ownIDs = regexp.MustCompile(`[0-9a-f]{8,}(-[0-9a-f]{4,})*`)

// inGeneral is what is said, in words that are the same for another proxy of which
// the same is said.
func (a aside) inGeneral() string {
	p := a.proxy
	text := strings.NewReplacer(p.Namespace+"/"+p.Name, "POD", p.Name, "POD", `namespace "`+p.Namespace+`"`, "NAMESPACE").Replace(a.text)
	return ownIDs.ReplaceAllString(text, "ID")
}

// inPart says of how many equal proxies only a part was compared.
func inPart(v *result.Verification) string {
	n := 0
	for i := range v.Proxies {
		if p := &v.Proxies[i]; p.Equal && len(p.NotCompared()) > 0 {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d only in part)", n)
}

func unreadText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d not read", n)
}

func verifiedRow(p *result.Verified) []string {
	row := []string{p.Namespace + "/" + p.Name}
	for _, t := range result.CommonTypes {
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
	switch {
	case !p.Equal:
		return "differs"
	case len(p.NotCompared()) > 0:
		return "equal in part"
	}
	return "equal"
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
