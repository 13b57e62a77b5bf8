// Package rules reads the project's list of Istio's rules and says which of
// them a mesh touches.
package rules

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Rule is one line of the list.
type Rule struct {
	ID string
	// Probes say what touches the rule: any of them is enough. A rule without
	// probes is touched if the plugin gives it as a reason.
	Probes []Probe
	// Excuse is why no mesh has to touch the rule; empty if one has to.
	Excuse string
}

// Probe is a kind of thing and what its fields have to be, all of them.
type Probe struct {
	Kind   string
	Fields []field
}

// field is a path and, if not nil, what one of its values has to match.
type field struct {
	path  string
	value *regexp.Regexp
}

// row is a line of a table of the list: id, words, what touches it.
var row = regexp.MustCompile(`^\| ([A-Z]+-\d+) \| (.*) \| ([^|]*(?:\\\|[^|]*)*) \|$`)

// Read reads the list: the rows of its tables whose first column is an id.
// Their last column is "reason", "not: " and an excuse, or probes in
// backquotes.
func Read(file string) ([]Rule, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []Rule
	seen := map[string]bool{}
	for n, line := range strings.Split(string(data), "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		r, err := parse(m[1], strings.ReplaceAll(m[3], `\|`, "|"))
		if err == nil && seen[r.ID] {
			err = fmt.Errorf("%s is listed twice", r.ID)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n+1, err)
		}
		seen[r.ID] = true
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no rules", file)
	}
	return out, nil
}

// parse reads a rule's last column.
func parse(id, text string) (Rule, error) {
	r := Rule{ID: id}
	if why, ok := strings.CutPrefix(text, "not: "); ok {
		r.Excuse = why
		return r, nil
	}
	if text == "reason" {
		return r, nil
	}
	quoted := strings.Split(text, "`")
	if len(quoted) < 3 || len(quoted)%2 == 0 {
		return r, fmt.Errorf("%s: no reason, excuse or probe: %q", id, text)
	}
	for i := 1; i < len(quoted); i += 2 {
		p, err := parseProbe(quoted[i])
		if err != nil {
			return r, fmt.Errorf("%s: %w", id, err)
		}
		r.Probes = append(r.Probes, p)
	}
	return r, nil
}

// parseProbe reads "KIND path path=regexp …".
func parseProbe(text string) (Probe, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return Probe{}, fmt.Errorf("an empty probe")
	}
	p := Probe{Kind: words[0]}
	for _, w := range words[1:] {
		path, value, has := strings.Cut(w, "=")
		f := field{path: path}
		if has {
			re, err := regexp.Compile("^(?:" + value + ")$")
			if err != nil {
				return p, err
			}
			f.value = re
		}
		p.Fields = append(p.Fields, f)
	}
	return p, nil
}

// Touched is whether any thing of the mesh touches the rule, or the plugin's
// reasons name it.
func (r Rule) Touched(things []Thing, reasons map[string]bool) bool {
	if reasons[r.ID] {
		return true
	}
	for _, p := range r.Probes {
		for _, t := range things {
			if t.Kind == p.Kind && p.matches(t) {
				return true
			}
		}
	}
	return false
}

// matches is whether a thing has all fields.
func (p Probe) matches(t Thing) bool {
	for _, f := range p.Fields {
		if !t.has(f) {
			return false
		}
	}
	return true
}
