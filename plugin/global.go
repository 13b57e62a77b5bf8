package plugin

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// global is what all commands share.
type global struct {
	config  *genericclioptions.ConfigFlags
	streams genericiooptions.IOStreams
	quiet   bool
	verbose bool
	color   string
	told    map[string]bool // diagnostics that are on the error output
}

func (g *global) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&g.quiet, "quiet", "q", false, "Print no progress, notes or warnings on standard error; errors are still printed")
	flags.StringVar(&g.color, "color", "auto", "Colour in tables: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.BoolVarP(&g.verbose, "verbose", "v", false, "Also tell on standard error which objects were ignored")
}

// namespace is the one given with -n; empty if none was.
func (g *global) namespace() string { return *g.config.Namespace }

// notef tells the user something that is not the report.
func (g *global) notef(format string, args ...any) {
	if !g.quiet {
		fmt.Fprintf(g.streams.ErrOut, format+"\n", args...)
	}
}

// colors are the values of --color.
var colors = []string{"auto", "always", "never"}

func (g *global) validate() error {
	if !slices.Contains(colors, g.color) {
		return usageError("--color %q: use auto, always or never", g.color)
	}
	if n := g.namespace(); n != "" && !isNamespace(n) {
		return usageError("-n %q: no name of a namespace", n)
	}
	return nil
}

// isNamespace reports whether a namespace can have the name.
func isNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// width is the number of columns that a table may take: the terminal's, at
// least 120; 0, no limit, where the output is no terminal.
func (g *global) width() int {
	file, ok := g.streams.Out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return max(columns, 120)
}

// colored tells whether tables may have colour.
func (g *global) colored() bool {
	switch g.color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal(g.streams.Out) && os.Getenv("NO_COLOR") == ""
}

// progress shows how far long work has come: on a terminal only, one line that
// is rewritten, at most five times a second.
type progress struct {
	out  io.Writer
	last time.Time
	drew bool
}

func (g *global) newProgress() *progress {
	if g.quiet || !terminal(g.streams.ErrOut) {
		return &progress{}
	}
	return &progress{out: g.streams.ErrOut}
}

func (p *progress) printf(format string, args ...any) {
	if p.out == nil || time.Since(p.last) < 200*time.Millisecond {
		return
	}
	p.last, p.drew = time.Now(), true
	fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
}

// done removes the line.
func (p *progress) done() {
	if p.drew {
		clearLine(p.out)
	}
}

// clearLine removes what is on a terminal's last line.
func clearLine(w io.Writer) {
	if terminal(w) {
		fmt.Fprint(w, "\r\x1b[K")
	}
}

func terminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
