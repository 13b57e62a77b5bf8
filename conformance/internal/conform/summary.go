package conform

import (
	"fmt"
	"io"
	"sort"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Summary adds up all meshes.
type Summary struct {
	Meshes, Failed, Proxies, Equal, Gapped, Later, LaterDiffer int

	types map[string]*Figures
	sizes []SizeError
	rules map[string]int
}

// Add adds one mesh.
func (s *Summary) Add(res *Result) {
	if s.types == nil {
		s.types, s.rules = map[string]*Figures{}, map[string]int{}
	}
	s.Meshes++
	if res.Failed() {
		s.Failed++
	}
	s.Proxies += res.Proxies
	s.Equal += res.Equal
	s.Gapped += res.Gapped
	s.Later += res.Later
	s.LaterDiffer += res.LaterDiffer
	for t, f := range res.Types {
		all := s.types[t]
		if all == nil {
			all = &Figures{}
			s.types[t] = all
		}
		all.Exact, all.Missing, all.Extra, all.Parts = all.Exact+f.Exact, all.Missing+f.Missing, all.Extra+f.Extra, all.Parts+f.Parts
		all.Errors = append(all.Errors, f.Errors...)
	}
	seen := map[SizeError]bool{}
	for _, e := range res.Sizes {
		same := e
		same.Proxy = ""
		if seen[same] {
			continue
		}
		seen[same] = true
		e.Proxy = short(res.Mesh) + " " + e.Proxy
		s.sizes = append(s.sizes, e)
	}
	for _, r := range res.Rules {
		s.rules[r]++
	}
}

// The bars for the bytes of a connection, as shares.
const (
	leastExact = 0.95 // of the proxies have the exact bytes
	worstTotal = 0.01 // off on any proxy
	worstType  = 0.02 // off in any type of any proxy
)

// Bars says how far the bytes are from what istiod sends, and lists the bars
// that they miss.
func (s *Summary) Bars(w io.Writer) (missed []string) {
	total := s.types[Total]
	if total == nil || len(total.Errors) == 0 {
		return nil
	}
	exact := float64(total.exactBytes()) / float64(len(total.Errors))
	fmt.Fprintf(w, "bytes per connection: exact on %.2f%% of the proxies, at worst %.2f%% off", 100*exact, 100*total.worst())
	if exact < leastExact {
		missed = append(missed, fmt.Sprintf("exact on %.2f%%, the bar is %.0f%%", 100*exact, 100*leastExact))
	}
	if total.worst() > worstTotal {
		missed = append(missed, fmt.Sprintf("%.2f%% off, the bar is %.0f%%", 100*total.worst(), 100*worstTotal))
	}
	for _, t := range report.Types {
		if f := s.types[t]; f != nil {
			fmt.Fprintf(w, ", %s %.2f%%", t, 100*f.worst())
			if f.worst() > worstType {
				missed = append(missed, fmt.Sprintf("%s %.2f%% off, the bar is %.0f%%", t, 100*f.worst(), 100*worstType))
			}
		}
	}
	fmt.Fprintln(w)
	for _, m := range missed {
		fmt.Fprintln(w, "  missed:", m)
	}
	return missed
}

// exactBytes counts the proxies without any error.
func (f *Figures) exactBytes() int {
	n := 0
	for _, e := range f.Errors {
		if e == 0 {
			n++
		}
	}
	return n
}

// worst is the largest error.
func (f *Figures) worst() float64 {
	worst := 0.0
	for _, e := range f.Errors {
		worst = max(worst, e)
	}
	return worst
}

// Print prints the sums and the most resources with wrong bytes.
func (s *Summary) Print(w io.Writer, most int) {
	fmt.Fprintf(w, "\n%d meshes, %d failed; %d proxies, %d equal, %d with gaps\n", s.Meshes, s.Failed, s.Proxies, s.Equal, s.Gapped)
	if s.Later > 0 {
		fmt.Fprintf(w, "left out below: %d proxies whose gaps are of kinds modelled later; %d of them differ\n", s.Later, s.LaterDiffer)
	}
	fmt.Fprintf(w, "%-6s %8s %8s %8s %8s  %s\n", "TYPE", "EXACT", "MISSING", "EXTRA", "PARTS", "BYTES PER PROXY median / p99 / worst, exact")
	for _, t := range append(append([]string{}, report.Types...), Total) {
		if f := s.types[t]; f != nil {
			fmt.Fprintf(w, "%-6s %8d %8d %8d %8d  %s, %d of %d\n", t, f.Exact, f.Missing, f.Extra, f.Parts, spread(f.Errors), f.exactBytes(), len(f.Errors))
		}
	}
	s.printSizes(w, most)
}

// printSizes lists the resources with the largest errors.
func (s *Summary) printSizes(w io.Writer, most int) {
	sort.SliceStable(s.sizes, func(i, j int) bool { return s.sizes[i].Error() > s.sizes[j].Error() })
	if len(s.sizes) > 0 && most > 0 {
		fmt.Fprintf(w, "%d resources with other bytes, each once for a mesh; the worst:\n", len(s.sizes))
	}
	for i, e := range s.sizes {
		if i == most {
			break
		}
		fmt.Fprintf(w, "  %6.2f%%  %s %s  istiod %d, plugin %d  on %s\n", 100*e.Error(), e.Type, e.Name, e.Judge, e.Plugin, e.Proxy)
	}
}
