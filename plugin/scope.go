package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/report"
	"github.com/spf13/cobra"
)

const scopeLong = `Predict, for every proxy, the xDS resources that istiod sends it and what they weigh.

Without -f, -k or --demo the live cluster is read. The table has one row for each group
of proxies with the same configuration, heaviest first. Name a pod, or a workload as
deploy/NAME, to list the resources of one proxy with the reason for each.

Bytes are the length of the serialised resources as istiod puts them on the wire (what
its metric pilot_xds_config_size_bytes adds up), for a proxy that connects afresh.`

const scopeExample = `  # Every proxy of a directory of manifests
  kubectl mesh-audit scope -f manifests/ -R

  # What a chart would make of the mesh
  helm template shop ./chart | kubectl mesh-audit scope -f -

  # The clusters of one proxy, in the columns of istioctl proxy-config
  kubectl mesh-audit scope checkout-0 -n shop --type cds -o wide

  # Which services cost most, over all proxies
  kubectl mesh-audit scope --by service

  # With gateways sent only what their VirtualServices use
  kubectl mesh-audit scope --set-env PILOT_FILTER_GATEWAY_CLUSTER_CONFIG=true

  # Everything, for another program
  kubectl mesh-audit scope -f manifests/ -o json --resources --details`

// scopeFlags are what was typed.
type scopeFlags struct {
	input         inputFlags
	output        string
	by            string
	selector      string
	xdsType       string
	host          string
	all           bool
	allNamespaces bool
	resources     bool
	details       bool
}

// scopeOptions are what a run needs.
type scopeOptions struct {
	scopeFlags
	selection audit.Selection
}

func newScopeCommand(g *global) *cobra.Command {
	f := &scopeFlags{}
	cmd := &cobra.Command{
		Use:               "scope [POD | TYPE/NAME]",
		Short:             "Predict what istiod sends to each proxy, and its bytes",
		Long:              scopeLong,
		Example:           scopeExample,
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
	f.input.add(cmd, true)
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "Output format: wide, json or yaml; default: a table")
	flags.StringVar(&f.by, "by", "proxy", "What the rows are: proxy (groups of proxies) or service (fan-out)")
	flags.StringVarP(&f.selector, "selector", "l", "", "Only proxies whose pods have these labels")
	flags.StringVar(&f.xdsType, "type", "", "For one proxy: only this type: "+strings.Join(result.Types, ", "))
	flags.StringVar(&f.host, "host", "", "For one proxy: only what is sent for this host name")
	flags.BoolVar(&f.all, "all", false, "Show every row")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "Show all namespaces (the default unless -n is given)")
	flags.BoolVar(&f.resources, "resources", false, "With -o json or yaml: list every resource by name and bytes")
	flags.BoolVar(&f.details, "details", false, "With -o json or yaml: list every resource with its parts and reasons")
	fixedCompletion(cmd, "output", "wide", "json", "yaml")
	fixedCompletion(cmd, "by", "proxy", "service")
	fixedCompletion(cmd, "type", result.Types...)
	return cmd
}

func maxOneArg(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError("%s takes one pod or TYPE/NAME at the most, got %d arguments", cmd.CommandPath(), len(args))
	}
	return nil
}

func (f *scopeFlags) toOptions(g *global, args []string) (*scopeOptions, error) {
	o := &scopeOptions{scopeFlags: *f}
	if err := f.input.validate(); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"", "wide", "json", "yaml"}, f.output) {
		return nil, usageError("unknown output format %q: use wide, json or yaml", f.output)
	}
	if f.by != "proxy" && f.by != "service" {
		return nil, usageError("--by %q: use proxy or service", f.by)
	}
	if f.xdsType != "" && !slices.Contains(result.Types, f.xdsType) {
		return nil, usageError("--type %q: use one of %s", f.xdsType, strings.Join(result.Types, ", "))
	}
	var err error
	if o.selection, err = selectionOf(g, args, f.selector, f.allNamespaces); err != nil {
		return nil, err
	}
	data := f.output == "json" || f.output == "yaml"
	if (f.xdsType != "" || f.host != "") && (len(args) == 0 || data || f.by == "service") {
		return nil, usageError("--type and --host narrow the table of one proxy: name a pod or TYPE/NAME, without -o json, -o yaml or --by service")
	}
	if (f.resources || f.details) && !data {
		return nil, usageError("--resources and --details are for -o json and -o yaml")
	}
	if f.details {
		o.resources = true
	}
	return o, nil
}

func (o *scopeOptions) run(ctx context.Context, g *global) error {
	in, err := o.input.read(ctx, g)
	if err != nil {
		return err
	}
	return o.report(g, in)
}

func (o *scopeOptions) report(g *global, in *input) error {
	bar := g.newProgress()
	a, err := audit.Run(in.snapshot, audit.Options{
		Select:   o.selection,
		Details:  o.details,
		Brief:    !o.narrowed(),
		Progress: func(done, total int) { bar.printf("computing: %d of %d proxies", done, total) },
	})
	bar.done()
	if err != nil {
		return unreadError(err)
	}
	a.Diagnostics = in.diagnostics
	if o.narrowed() && len(a.Proxies) == 0 {
		if pod, namespace := splitPod(o.selection); namespace != "" {
			o.selection.Pod, o.selection.Namespace = pod, namespace
			return o.report(g, in)
		}
		return o.notFound(in.snapshot)
	}
	var exit *exitError
	if err := o.print(g, a); errors.As(err, &exit) {
		return err
	} else if err != nil {
		return unreadError(fmt.Errorf("write the report: %w", err))
	}
	if a.Unread() {
		return &exitError{status: ExitUnread}
	}
	return nil
}

func (o *scopeOptions) print(g *global, a *result.Audit) error {
	out := g.streams.Out
	data := report.DataOptions{Resources: o.resources, Details: o.details}
	switch o.output {
	case "json":
		sayUnread(g, a)
		return report.JSON(out, a, data)
	case "yaml":
		sayUnread(g, a)
		return report.YAML(out, a, data)
	}
	table := report.ScopeOptions{Wide: o.output == "wide", All: o.all, Width: g.width(), Color: g.colored()}
	switch {
	case o.by == "service":
		return report.Fanout(out, a, table)
	case o.narrowed():
		if err := o.oneNamespace(a); err != nil {
			return err
		}
		if len(a.Groups) > 1 {
			g.notef("note: %d proxies of %s, in %d groups of different config; this is %s", len(a.Proxies),
				cmp.Or(o.selection.Workload, o.selection.Pod), len(a.Groups), a.Proxies[0].Name)
		}
		return report.Proxy(out, a, &a.Proxies[0], report.ProxyOptions{Type: o.xdsType, Host: o.host, Wide: table.Wide, Color: table.Color})
	case len(a.Proxies) == 0 && a.Mesh.Proxies > 0:
		return o.nothingSelected(g, a)
	}
	return report.Scope(out, a, table)
}

// sayUnread tells people, too, why the exit status will be 3.
func sayUnread(g *global, a *result.Audit) {
	for _, gap := range a.Gaps {
		if gap.Kind == result.Unread {
			sayGap(g, gap)
		}
	}
}

func sayGap(g *global, gap result.Gap) {
	fmt.Fprintln(g.streams.ErrOut, report.Clean(report.GapText(gap)))
}

// splitPod takes istioctl's form POD.NAMESPACE apart; no namespace if it is not that.
func splitPod(s audit.Selection) (pod, namespace string) {
	i := strings.LastIndexByte(s.Pod, '.')
	if i < 0 || s.Namespace != "" {
		return "", ""
	}
	return s.Pod[:i], s.Pod[i+1:]
}

// oneNamespace refuses a name that stands for proxies of several namespaces.
func (o *scopeOptions) oneNamespace(a *result.Audit) error {
	var namespaces []string
	for _, p := range a.Proxies {
		if !slices.Contains(namespaces, p.Namespace) {
			namespaces = append(namespaces, p.Namespace)
		}
	}
	if len(namespaces) > 1 {
		return usageError("%s is in several namespaces, choose one with -n: %s", cmp.Or(o.selection.Workload, o.selection.Pod), strings.Join(namespaces, ", "))
	}
	return nil
}

// nothingSelected says, as kubectl does for an empty list, that no proxy is left.
func (o *scopeOptions) nothingSelected(g *global, a *result.Audit) error {
	fmt.Fprintf(g.streams.ErrOut, "%s.\n", noneOf(&o.selection, a.Mesh.Proxies))
	return nil
}

// noneOf says that a selection has none of the mesh's proxies.
func noneOf(s *audit.Selection, proxies int) string {
	where := ""
	if s.Namespace != "" {
		where = " in namespace " + s.Namespace
	}
	if s.Labels != nil {
		where += " with these labels"
	}
	return fmt.Sprintf("No proxies found%s; the mesh has %d", where, proxies)
}

func (o *scopeOptions) narrowed() bool { return o.selection.Pod != "" || o.selection.Workload != "" }

// notFound says which proxies there are instead of the one that was asked for.
func (o *scopeOptions) notFound(snap *snapshot.Snapshot) error {
	what := cmp.Or(o.selection.Workload, "pod "+o.selection.Pod)
	where := "the mesh"
	if o.selection.Namespace != "" {
		where = "namespace " + o.selection.Namespace
	}
	wider := o.selection
	wider.Pod, wider.Workload = "", ""
	known := audit.Proxies(snap, wider)
	if workload := o.uninjected(snap); workload != "" {
		return usageError("%s exists, but has no proxy: injection does not select its pods (labels istio-injection or istio.io/rev of the namespace, sidecar.istio.io/inject or istio.io/rev of the pod)", workload)
	}
	if len(known) == 0 {
		return usageError("no proxy of %s: %s has none at all; set the namespace with -n", what, where)
	}
	var names []string
	for _, p := range known {
		name := p.Namespace + "/" + p.Name
		if o.selection.Workload != "" {
			name = p.Workload + " -n " + p.Namespace
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	const most = 10
	text := strings.Join(names[:min(most, len(names))], "\n  ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf("\n  and %d more", rest)
	}
	return usageError("no proxy of %s in %s, which has (set the namespace with -n):\n  %s", what, where, text)
}

// uninjected names the workload or pod that was asked for if it is there
// without a proxy; empty otherwise.
func (o *scopeOptions) uninjected(snap *snapshot.Snapshot) string {
	here := func(namespace string) bool { return o.selection.Namespace == "" || o.selection.Namespace == namespace }
	for i := range snap.Workloads {
		w := &snap.Workloads[i]
		if here(w.Namespace) && strings.ToLower(w.Kind)+"/"+w.Name == o.selection.Workload {
			return w.Kind + " " + w.Namespace + "/" + w.Name
		}
	}
	for i := range snap.Pods {
		p := &snap.Pods[i]
		if here(p.Namespace) && p.Name == o.selection.Pod && p.Proxy == nil {
			return "Pod " + p.Namespace + "/" + p.Name
		}
	}
	return ""
}
