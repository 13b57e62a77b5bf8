package plugin

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// gate is one --fail-on.
type gate struct {
	text string
	on   func(*result.Diff) string // why it trips; empty: it does not
}

// gateWords are the gates without a number.
var gateWords = map[string]func(*result.Diff) string{
	"lost": func(d *result.Diff) string {
		var why []string
		if n := d.Summary.Lose; n > 0 {
			why = append(why, counted(n, "proxy loses", "proxies lose")+" something that callers notice")
		}
		if n := d.Summary.Emptied; n > 0 {
			why = append(why, counted(n, "workload loses all its proxies", "workloads lose all their proxies"))
		}
		return strings.Join(why, "; ")
	},
	"gained": func(d *result.Diff) string {
		n := 0
		for i := range d.Changes {
			if d.Changes[i].Gains() {
				n++
			}
		}
		return said(n > 0, "something is gained: %s", counted(n, "change", "changes"))
	},
	"changed": func(d *result.Diff) string {
		n := d.Summary.Altered + d.Summary.Moved
		return said(n > 0, "%s changed or moved", counted(n, "resource or part is", "resources or parts are"))
	},
	"any": func(d *result.Diff) string {
		return said(differs(d), "%s, %d new, %d gone", counted(d.Summary.Changed, "proxy changes", "proxies change"), d.Summary.Added, d.Summary.Removed)
	},
	"unsafe-order": func(d *result.Diff) string { return said(d.Order.Unsafe != "", "%s", d.Order.Unsafe) },
}

// counted is a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func said(on bool, format string, args ...any) string {
	if !on {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// differs reports whether any proxy gets anything else than before.
func differs(d *result.Diff) bool {
	return d.Summary.Changed+d.Summary.Added+d.Summary.Removed > 0
}

// parseGate reads lost, gained, changed, any, unsafe-order, bytes>AMOUNT or istiod>AMOUNT,
// where AMOUNT is a percentage or a number of bytes.
func parseGate(text string) (gate, error) {
	if on := gateWords[text]; on != nil {
		return gate{text, on}, nil
	}
	what, limit, found := strings.Cut(text, ">")
	if !found || what != "bytes" && what != "istiod" {
		return gate{}, usageError("--fail-on %q: use lost, gained, changed, any, unsafe-order, bytes>10%%, bytes>200KiB or istiod>5%%", text)
	}
	exceeds, err := parseLimit(limit)
	if err != nil {
		return gate{}, usageError("--fail-on %q: %w", text, err)
	}
	if what == "istiod" {
		return gate{text, func(d *result.Diff) string {
			return said(exceeds(d.Summary.Istiod), "istiod's total grows from %d to %d bytes", d.Summary.Istiod.Base, d.Summary.Istiod.Head)
		}}, nil
	}
	return gate{text, func(d *result.Diff) string {
		for i := range d.Groups {
			if g := d.Groups[i].Growth(); exceeds(g) {
				return fmt.Sprintf("a connection of %s/%s grows from %d to %d bytes", d.Groups[i].Namespace, d.Groups[i].Proxies[0], g.Base, g.Head)
			}
		}
		return ""
	}}, nil
}

var limitUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
}

// parseLimit reads "10%", "200KiB", "5MB" or a number of bytes.
func parseLimit(text string) (func(result.Growth) bool, error) {
	if number, ok := strings.CutSuffix(text, "%"); ok {
		most, err := amountOf(number)
		if err != nil {
			return nil, err
		}
		return func(g result.Growth) bool {
			if g.Base == 0 {
				return g.Head > 0
			}
			return g.Percent() > most
		}, nil
	}
	for _, unit := range limitUnits {
		number, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		most, err := amountOf(number)
		if err != nil {
			return nil, err
		}
		return func(g result.Growth) bool { return float64(g.Delta()) > most*unit.bytes }, nil
	}
	return nil, fmt.Errorf("no amount")
}

func amountOf(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || n < 0 || n != n || n > 1e18 {
		return 0, fmt.Errorf("%q is no amount: give a percentage such as 10%% or bytes such as 200KiB", text)
	}
	return n, nil
}
