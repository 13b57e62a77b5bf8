package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// diffRow is changes of a block that callers see alike.
type diffRow struct {
	sees    string
	changes []*result.Change
}

// rows groups a block's changes by what callers see; what they see nothing of
// comes last.
func (b *block) rows() []diffRow {
	var rows []diffRow
	for _, c := range b.changes {
		i := slices.IndexFunc(rows, func(r diffRow) bool { return r.sees == c.Sees })
		if i < 0 {
			i = len(rows)
			rows = append(rows, diffRow{sees: c.Sees})
		}
		rows[i].changes = append(rows[i].changes, c)
	}
	silent := slices.IndexFunc(rows, func(r diffRow) bool { return r.sees == "" })
	if silent < 0 {
		return rows
	}
	last := rows[silent]
	return append(slices.Delete(rows, silent, silent+1), last)
}

// subjects names what the row's changes are of: services, else resources.
func (r *diffRow) subjects(most int) string {
	var names []string
	for _, c := range r.changes {
		name := cmp.Or(c.Service, c.Resource)
		if c.Type == "rds" && c.Service == "" && c.Part != nil {
			name = *c.Part
		}
		if name == "" {
			name = "name table"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	text := strings.Join(names[:min(most, len(names))], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

// sums counts the row's resources and parts by what they are.
func (r *diffRow) sums() string {
	var order []string
	numbers := map[string]int{}
	for _, c := range r.changes {
		one := noun(c)
		if numbers[one] == 0 {
			order = append(order, one)
		}
		numbers[one]++
	}
	texts := make([]string, 0, len(order))
	for _, one := range order {
		texts = append(texts, count(numbers[one], one, plural(one)))
	}
	return strings.Join(texts, ", ")
}

var nouns = map[string]string{
	"lds": "listener", "rds": "route configuration", "cds": "cluster", "eds": "load assignment", "nds": "name table", "ecds": "extension config",
}

func noun(c *result.Change) string {
	switch {
	case c.Type == "lds" && c.Part != nil:
		return "filter chain"
	case c.Type == "rds" && c.Part != nil:
		return "virtual host"
	}
	return nouns[c.Type]
}

func plural(one string) string { return one + "s" }

// describe tells of one change in one line.
func describe(c *result.Change) string {
	text := noun(c) + " "
	switch {
	case c.Type == "nds":
		text = "name table"
	case c.Part != nil && c.Type == "lds":
		text += fmt.Sprintf("%q of listener %s", *c.Part, c.Resource)
	case c.Part != nil:
		text += *c.Part + " of route configuration " + c.Resource
	default:
		text += c.Resource
	}
	if c.Kind == result.Moved {
		if c.To == c.Resource {
			return text
		}
		return text + " -> " + c.To
	}
	var what []string
	for _, f := range c.Fields {
		what = append(what, fieldText(f, c))
	}
	if len(what) > 0 {
		text += ": " + strings.Join(what, "; ")
	}
	return text
}

// fieldText tells how one field of a part changed.
func fieldText(field string, c *result.Change) string {
	if len(c.Before) != 1 || len(c.After) != 1 {
		return bytesChange(field, c)
	}
	x, y := &c.Before[0], &c.After[0]
	switch field {
	case "domains":
		return "domains " + setChange(x.Domains, y.Domains)
	case "to":
		return "leads to " + setChange(x.To, y.To)
	case "type":
		return fmt.Sprintf("type %s -> %s", x.Type, y.Type)
	case "rule":
		return fmt.Sprintf("DestinationRule %s -> %s", orNone(x.Rule), orNone(y.Rule))
	case "endpoints":
		return fmt.Sprintf("%d -> %s", number(x.Endpoints), count(number(y.Endpoints), "endpoint", "endpoints"))
	case "hosts":
		return fmt.Sprintf("%d -> %d names", number(x.Hosts), number(y.Hosts))
	}
	return bytesChange(field, c)
}

func bytesChange(field string, c *result.Change) string {
	if c.MostBytes == 0 && c.LeastBytes == 0 {
		return field
	}
	return field + " " + span(c.LeastBytes, c.MostBytes, func(n int64) string { return signed(n) })
}

func setChange(before, after []string) string {
	var words []string
	for _, s := range before {
		if !slices.Contains(after, s) {
			words = append(words, "-"+s)
		}
	}
	for _, s := range after {
		if !slices.Contains(before, s) {
			words = append(words, "+"+s)
		}
	}
	return strings.Join(words, " ")
}

func orNone(s *string) string {
	if s == nil || *s == "" {
		return "none"
	}
	return *s
}

func number(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

// signed shows a difference of bytes.
func signed(n int64) string {
	switch {
	case n > 0:
		return "+" + bytesText(n)
	case n < 0:
		return "−" + bytesText(-n)
	}
	return "±0 B"
}

// span shows two ends, once where they are equal.
func span[T comparable](least, most T, show func(T) string) string {
	if least == most {
		return show(least)
	}
	return show(least) + " … " + show(most)
}

func percent(p float64) string {
	switch text := fmt.Sprintf("%.1f %%", p); {
	case p == 0:
		return "±0 %"
	case text == "0.0 %":
		return "+<0.1 %"
	case text == "-0.0 %":
		return "−<0.1 %"
	case p > 0:
		return "+" + text
	default:
		return "−" + text[1:]
	}
}
