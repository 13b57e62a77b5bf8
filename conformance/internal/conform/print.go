package conform

import (
	"fmt"
	"io"
	"path/filepath"
	"sort"
	"strings"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// PrintHeader prints the table's head.
func PrintHeader(w io.Writer) {
	fmt.Fprintf(w, "%-44s %7s %7s %5s  %s\n", "MESH", "PROXIES", "EQUAL", "GAPS", "EXACT SETS cds/eds/lds/rds/ecds/nds  MISSING EXTRA PARTS  BYTES")
}

// Print prints one mesh's row, and up to most of its differences.
func (res *Result) Print(w io.Writer, most int) {
	name := short(res.Mesh)
	if res.Err != nil {
		fmt.Fprintf(w, "%-44s ERROR %v\n", name, res.Err)
		return
	}
	var exact []string
	missing, extra, parts := 0, 0, 0
	for _, t := range report.Types {
		f := res.figures(t)
		exact = append(exact, fmt.Sprint(f.Exact))
		missing, extra, parts = missing+f.Missing, extra+f.Extra, parts+f.Parts
	}
	fmt.Fprintf(w, "%-44s %7d %7d %5d  %-36s %7d %5d %5d  %s", name, res.Proxies, res.Equal, res.Gapped,
		strings.Join(exact, "/"), missing, extra, parts, spread(res.figures(Total).Errors))
	if res.Unstable > 0 {
		fmt.Fprintf(w, "  (%d unstable left out)", res.Unstable)
	}
	fmt.Fprintln(w)
	for i, d := range res.Differences {
		if i == most {
			fmt.Fprintf(w, "    … %d more\n", len(res.Differences)-most)
			break
		}
		d.print(w)
	}
	for i, g := range res.Gaps {
		if i < most {
			fmt.Fprintf(w, "    gap: %s\n", g)
		}
	}
}

// figures of a type; empty without any proxy.
func (res *Result) figures(t string) *Figures {
	if f := res.Types[t]; f != nil {
		return f
	}
	return &Figures{}
}

// print shows one difference: what only the judge has (-) and what only the
// plugin has (+).
func (d Difference) print(w io.Writer) {
	fmt.Fprintf(w, "    %s %s %s  on %s\n", d.Kind, d.Type, d.Name, some(d.Proxies))
	for _, p := range d.Judge {
		fmt.Fprintf(w, "        istiod  %s\n", p)
	}
	for _, p := range d.Plugin {
		fmt.Fprintf(w, "        plugin  %s\n", p)
	}
	if d.Because != "" {
		fmt.Fprintf(w, "        because %s\n", d.Because)
	}
}

// some names the first of a list and counts the others.
func some(list []string) string {
	const most = 2
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// short keeps the last two elements of a path.
func short(path string) string {
	dir, file := filepath.Split(filepath.Clean(path))
	return filepath.Join(filepath.Base(dir), file)
}

// spread writes the median, the 99th percentile and the worst of errors.
func spread(errors []float64) string {
	if len(errors) == 0 {
		return "-"
	}
	e := append([]float64{}, errors...)
	sort.Float64s(e)
	at := func(q float64) float64 { return 100 * e[int(q*float64(len(e)-1)+0.5)] }
	return fmt.Sprintf("%.2f%% / %.2f%% / %.2f%%", at(0.5), at(0.99), at(1))
}
