package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/report"
)

const diffLong = `Predict what a change does to every proxy, before it is applied.

Two meshes are compared, base and head. By default base is the live cluster, and head is
it with the files of -f and -k laid on it: an object keeps what the API server had set, a
new one is younger than all others, pods of a changed workload are predicted anew. With
--base and --head each side can be a directory, a snapshot, a saved report or a git
revision, whole or laid on the rest of the mesh (--on).

It tells what each proxy loses, gains, or gets with another
content, judged on filter chains, virtual hosts, cluster types, DestinationRules, endpoints
and the content of each message, not only on names. Each difference is told once, with the
proxies it touches, the changed object that causes it, and what callers will see. Then: an
order of applying that loses no traffic in between, and what the push itself costs.

Exit status: 0 no difference; 1 differences (with --fail-on: a gate trips); 2 wrong usage;
3 something needed could not be read. It is the same in every format.`

const diffExample = `  # What do these files change in the live cluster? (As kubectl diff -f; helm template … | … -f - works)
  kubectl mesh-audit diff -f manifests/

  # What does this work tree change, compared with main? The rest of the mesh is in a snapshot
  kubectl mesh-audit diff --base origin/main -f manifests/ -R --on mesh.snap

  # What does an upgrade of istiod change, and what breaks without this Service?
  kubectl mesh-audit diff --head-istio-version 1.30.3
  kubectl mesh-audit diff --delete svc/shop/cart

  # What do the manifests of a branch change?
  kubectl mesh-audit diff --base main/ --head branch/

  # One proxy, every difference
  kubectl mesh-audit diff --base main/ --head branch/ cart-0 -n shop --show all

  # Against a saved answer; fail only if something is lost or a proxy grows by more than 10 %
  kubectl mesh-audit scope -f main/ -o json --resources --details > main.json
  kubectl mesh-audit diff --base main.json --head branch/ --fail-on lost --fail-on 'bytes>10%'

  # A comment for a pull request, and annotations on its lines
  kubectl mesh-audit diff --base main/ --head branch/ -o markdown
  kubectl mesh-audit diff --base main/ --head branch/ -o github`

// diffFormats are the values of --output, the empty one being text.
var diffFormats = []string{"text", "json", "yaml", "markdown", "sarif", "github"}

// diffFlags are what was typed.
type diffFlags struct {
	sides         sideFlags
	output        string
	selector      string
	xdsType       string
	show          string
	allNamespaces bool
	failOn        []string
}

// diffOptions are what a run needs.
type diffOptions struct {
	diffFlags
	selection audit.Selection
	gates     []gate
}

func newDiffCommand(g *global) *cobra.Command {
	f := &diffFlags{}
	cmd := &cobra.Command{
		Use:               "diff [POD | TYPE/NAME]",
		Short:             "Predict what a change does to every proxy: lost, gained, changed, and why",
		Long:              diffLong,
		Example:           diffExample,
		ValidArgsFunction: completePods(g),
		Args:              maxOneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.toOptions(g, args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), g)
		},
	}
	f.sides.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "text", "Output format: "+strings.Join(diffFormats, ", "))
	flags.StringVarP(&f.selector, "selector", "l", "", "Only proxies whose pods have these labels; with --prune: only objects that have them are deleted")
	flags.StringVar(&f.xdsType, "type", "", "Show only changes of this type: "+strings.Join(result.Types, ", "))
	flags.StringVar(&f.show, "show", "summary", "How much the text shows: summary or all")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "Proxies of all namespaces (the default unless -n is given)")
	flags.StringArrayVar(&f.failOn, "fail-on", nil, "Exit with 1 only if this holds: lost (that callers notice, or all proxies of a workload), gained, changed, any, unsafe-order, bytes>10%, bytes>200KiB (any one proxy grows by more), istiod>5%; may be given several times")
	fixedCompletion(cmd, "output", diffFormats...)
	fixedCompletion(cmd, "type", result.Types...)
	fixedCompletion(cmd, "show", "summary", "all")
	fixedCompletion(cmd, "fail-on", "lost", "gained", "changed", "any", "unsafe-order", "bytes>10%", "bytes>200KiB", "istiod>5%")
	return cmd
}

func (f *diffFlags) toOptions(g *global, args []string) (*diffOptions, error) {
	o := &diffOptions{diffFlags: *f}
	if err := f.sides.validate(); err != nil {
		return nil, err
	}
	if !slices.Contains(diffFormats, f.output) {
		return nil, usageError("-o %q: use one of %s", f.output, strings.Join(diffFormats, ", "))
	}
	if f.xdsType != "" && !slices.Contains(result.Types, f.xdsType) {
		return nil, usageError("--type %q: use one of %s", f.xdsType, strings.Join(result.Types, ", "))
	}
	if f.show != "summary" && f.show != "all" {
		return nil, usageError("--show %q: use summary or all", f.show)
	}
	for _, text := range f.failOn {
		gate, err := parseGate(text)
		if err != nil {
			return nil, err
		}
		o.gates = append(o.gates, gate)
	}
	selector := f.selector
	if f.sides.prune {
		o.sides.pruned, selector = selector, ""
		if o.sides.pruned == "" {
			return nil, usageError("--prune needs -l: the labels of what may be deleted")
		}
	}
	selected, err := selectionOf(g, args, selector, f.allNamespaces)
	o.selection = selected
	return o, err
}

func (o *diffOptions) run(ctx context.Context, g *global) error {
	if o.output == "sarif" || o.output == "github" {
		o.sides.places = newPlaces(ctx)
	}
	base, head, err := o.sides.sides(ctx, g)
	if err != nil {
		return err
	}
	before, after, err := o.audits(g, &base, &head)
	if err != nil {
		return err
	}
	if o.narrowed() && len(before.Proxies)+len(after.Proxies) == 0 {
		return usageError("no such proxy in %s or %s (a namespace is given with -n)", base.label, head.label)
	}
	d := audit.Compare(before, after, base.label, head.label)
	var exit *exitError
	if err := o.print(g, d, head.read); errors.As(err, &exit) {
		return err
	} else if err != nil {
		return unreadError(fmt.Errorf("write the report: %w", err))
	}
	return o.verdict(g, d)
}

// narrowed reports whether only some proxies are asked for.
func (o *diffOptions) narrowed() bool {
	s := &o.selection
	return s.Pod != "" || s.Workload != "" || s.Namespace != "" || s.Labels != nil
}

// audits answers for both sides.
func (o *diffOptions) audits(g *global, base, head *side) (before, after *result.Audit, err error) {
	options := func(p progressFunc) audit.Options {
		return audit.Options{Select: o.selection, Details: true, Progress: p}
	}
	var computed *audit.Computation
	if base.saved != nil {
		before, err = o.saved(base)
	} else {
		computed, err = compute(g, base, func(p progressFunc) (*audit.Computation, error) {
			return audit.Compute(base.snap, options(p))
		})
		if err == nil {
			before = computed.Audit
			before.Diagnostics = base.diagnostics
		}
	}
	if err != nil {
		return nil, nil, err
	}
	switch {
	case head.saved != nil:
		after, err = o.saved(head)
		return before, after, err
	case computed != nil:
		after, err = compute(g, head, func(p progressFunc) (*result.Audit, error) { return computed.Change(head.snap, p) })
	default:
		after, err = compute(g, head, func(p progressFunc) (*result.Audit, error) {
			return audit.Run(head.snap, options(p))
		})
	}
	if err != nil {
		return nil, nil, err
	}
	after.Diagnostics = head.diagnostics
	return before, after, nil
}

type progressFunc = func(done, total int)

// compute shows the progress of computing a side.
func compute[T any](g *global, s *side, run func(progressFunc) (T, error)) (T, error) {
	bar := g.newProgress()
	defer bar.done()
	out, err := run(func(done, total int) { bar.printf("computing %s: %d of %d proxies", s.label, done, total) })
	if err != nil {
		return out, unreadError(err)
	}
	return out, nil
}

// saved is the answer of a saved report.
func (o *diffOptions) saved(s *side) (*result.Audit, error) {
	if o.selection.Labels != nil {
		return nil, usageError("-l needs the pods' labels, which a saved report (%s) does not have", s.label)
	}
	return o.selection.Narrow(s.saved), nil
}

func (o *diffOptions) print(g *global, d *result.Diff, head *reading) error {
	out := g.streams.Out
	annotated := func(s result.Source, gone bool) result.Source { return o.sides.places.annotated(s, gone, head) }
	d = report.OnlyType(d, o.xdsType)
	switch o.output {
	case "json":
		return report.DiffJSON(out, d)
	case "yaml":
		return report.DiffYAML(out, d)
	case "markdown":
		return report.DiffMarkdown(out, d)
	case "sarif":
		return report.DiffSARIF(out, d, version(), annotated)
	case "github":
		return report.DiffGitHub(out, d, annotated)
	}
	return report.Diff(out, d, report.DiffOptions{All: o.show == "all", Color: g.colored(), Width: max(g.width(), 120)})
}

// verdict is the exit status.
func (o *diffOptions) verdict(g *global, d *result.Diff) error {
	tripped := false
	for _, gate := range o.gates {
		if why := gate.on(d); why != "" {
			tripped = true
			g.notef("--fail-on %s: %s", gate.text, why)
		}
	}
	if s := d.Summary; len(o.gates) > 0 && s.Proxies+s.Added+s.Removed == 0 {
		g.notef("no --fail-on could trip: neither mesh has a proxy")
	}
	switch {
	case unread(d):
		return &exitError{status: ExitUnread}
	case tripped, len(o.gates) == 0 && differs(d):
		return &exitError{status: ExitYes}
	}
	return nil
}

// unread reports whether something that either side needed could not be read.
func unread(d *result.Diff) bool {
	return result.LeftOut(d.Diagnostics) || slices.ContainsFunc(d.Gaps, func(g result.Gap) bool { return g.Kind == result.Unread })
}
