// Package report renders an audit. It knows audit/result and nothing else of
// ours: whatever it shows is in the result, so a saved result renders the same.
package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/fatih/color"
	"k8s.io/cli-runtime/pkg/printers"
)

// Clean makes a string of the cluster safe for a cell of a terminal table:
// control and other unprintable characters are shown, not obeyed.
func Clean(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(r)):
			fmt.Fprintf(&b, `\x%02x`, s[i]) // not UTF-8
		case unprintable(r):
			quoted := fmt.Sprintf("%+q", r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return printers.EscapeTerminal(b.String())
}

func unprintable(r rune) bool {
	return r != ' ' && !unicode.IsGraphic(r) || unicode.Is(unicode.Zs, r) && r != ' '
}

// bytesText shows a number of bytes in units of 1000, as istiod's metrics count.
func bytesText(n int64) string {
	units := []string{"kB", "MB", "GB", "TB"}
	if n < 1000 && n > -1000 {
		return fmt.Sprintf("%d B", n)
	}
	value := float64(n)
	unit := ""
	for _, u := range units {
		value, unit = value/1000, u
		if value < 999.95 && value > -999.95 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// count shows a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// shorten cuts s to width columns, keeping its end where the telling part is.
func shorten(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	return "…" + string(r[len(r)-width+1:])
}

// palette is how words stand out on a terminal; without colour it changes nothing.
type palette struct{ header, unread, unmodelled *color.Color }

func newPalette(on bool) palette {
	p := palette{header: color.New(color.Bold), unread: color.New(color.FgRed), unmodelled: color.New(color.FgYellow)}
	for _, c := range []*color.Color{p.header, p.unread, p.unmodelled} {
		c.DisableColor()
		if on {
			c.EnableColor()
		}
	}
	return p
}

// table writes rows in columns as kubectl does. The first row is the header.
func (p palette) table(w io.Writer, rows [][]string) error {
	var out bytes.Buffer
	if err := align(&out, rows); err != nil {
		return err
	}
	head, rest, _ := strings.Cut(out.String(), "\n")
	_, err := io.WriteString(w, p.header.Sprint(head)+"\n"+rest)
	return err
}

func align(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Clean(c)
		}
		if _, err := fmt.Fprintln(tw, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// errWriter keeps the first error, so that a renderer can write on and report once.
type errWriter struct {
	palette
	w   io.Writer
	err error
}

func (e *errWriter) Write(p []byte) (int, error) {
	if e.err != nil {
		return 0, e.err
	}
	n, err := e.w.Write(p)
	e.err = err
	return n, err
}

func (e *errWriter) linef(format string, args ...any) { fmt.Fprintf(e, format+"\n", args...) }
