package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/verify"
	"github.com/mesh-audit/mesh-audit/report"
)

const verifyLong = `Hold the prediction for proxies against what they really have.

What they really have comes from one of
  --config-dump FILE  what Envoy's admin interface answers to /config_dump?include_eds, or
                      what "istioctl proxy-config all POD -o json" prints; - is standard input
  --live              the proxies' Envoys, asked for listeners, routes, clusters and endpoints,
                      never for secrets: by port-forward to their admin port 15000, which listens
                      on localhost only, or else by exec (deploy/rbac-verify.yaml has the rights)
  --xds HOST:PORT     an istiod's plaintext ADS (port 15010), asked as each of the proxies in turn:
                      what istiod would send now, with bytes. To reach it:
                      kubectl -n istio-system port-forward deploy/istiod 15010

For each xDS type it tells what is missing (predicted, but not there), extra (there, but not
predicted) and differing (same name, other parts), and what may explain it. Bytes are judged
only with --xds, where a connection and each of its types may be 1 % off.

The mesh is read as scope reads it: from the live cluster, or with -f or -k from files.
Without a PROXY all proxies are verified, or with -n those of a namespace.

Exit status: 0 all are as predicted; 1 one differs; 2 wrong usage; 3 something could not be read.`

const verifyExample = `  # Does istiod send what is predicted, to every proxy of the mesh?
  kubectl mesh-audit verify --xds localhost:15010

  # One running proxy
  kubectl mesh-audit verify deploy/checkout -n shop --live

  # A dump that somebody sent, against an export of the mesh
  istioctl proxy-config all checkout-0.shop -o json > dump.json
  kubectl mesh-audit verify checkout-0 -n shop --config-dump dump.json -f mesh.yaml`

// verifyTimeout bounds the wait for one proxy's actual config; a shorter --timeout
// does too.
const verifyTimeout = 2 * time.Minute

func (o *verifyOptions) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(verifyTimeout, o.input.timeout))
}

// verifyOptions are what was typed.
type verifyOptions struct {
	input       inputFlags
	targets     []audit.Selection // empty: all
	namespace   string
	output      string
	selector    string
	configDumps []string
	live        bool
	xds         string
	all         bool
}

func newVerifyCommand(g *global) *cobra.Command {
	o := &verifyOptions{}
	cmd := &cobra.Command{
		Use:               "verify [POD | TYPE/NAME ...] (--config-dump FILE | --live | --xds HOST:PORT)",
		Short:             "Compare the prediction with what proxies really have",
		Long:              verifyLong,
		Example:           verifyExample,
		ValidArgsFunction: completePods(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.validate(g, args); err != nil {
				return err
			}
			return o.run(cmd.Context(), g)
		},
	}
	o.input.add(cmd, true)
	flags := cmd.Flags()
	flags.Lookup("timeout").Usage += "; also the wait for what one proxy really has, which is never longer than 2m"
	flags.StringArrayVar(&o.configDumps, "config-dump", nil, "File with an Envoy's config dump, or - for standard input; may be given several times where the dumps tell their proxy")
	flags.BoolVar(&o.live, "live", false, "Ask the running proxies, by port-forward or exec")
	flags.StringVar(&o.xds, "xds", "", "HOST:PORT of an istiod's plaintext ADS to ask as each proxy")
	flags.StringVarP(&o.output, "output", "o", "", "Output format: json or yaml; default: a table")
	flags.StringVarP(&o.selector, "selector", "l", "", "Only proxies whose pods have these labels")
	flags.BoolVar(&o.all, "all", false, "Show every row")
	_ = cmd.MarkFlagFilename("config-dump", "json")
	fixedCompletion(cmd, "output", "json", "yaml")
	return cmd
}

func (o *verifyOptions) validate(g *global, args []string) error {
	if err := o.input.validate(); err != nil {
		return err
	}
	ways := 0
	for _, given := range []bool{len(o.configDumps) > 0, o.live, o.xds != ""} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return usageError("give one of --config-dump, --live and --xds: it tells where what proxies really have comes from")
	}
	if _, _, err := net.SplitHostPort(o.xds); o.xds != "" && err != nil {
		return usageError("--xds %q: must be HOST:PORT", o.xds)
	}
	if !slices.Contains([]string{"", "json", "yaml"}, o.output) {
		return usageError("unknown output format %q: use json or yaml", o.output)
	}
	if o.selector != "" {
		if _, err := labels.Parse(o.selector); err != nil {
			return usageError("-l %q: %w", o.selector, err)
		}
	}
	o.namespace = g.namespace()
	for _, arg := range args {
		t := scopeOptions{selection: audit.Selection{Namespace: o.namespace}}
		if err := setTarget(&t.selection, arg); err != nil {
			return err
		}
		if pod, namespace := splitPod(t.selection); namespace != "" {
			t.selection.Pod, t.selection.Namespace = pod, namespace
		}
		o.targets = append(o.targets, t.selection)
	}
	return nil
}

func (o *verifyOptions) run(ctx context.Context, g *global) error {
	in, err := o.input.read(ctx, g)
	if err != nil {
		return err
	}
	selection := audit.Selection{Namespace: o.namespace}
	if len(o.targets) == 1 {
		selection = o.targets[0]
	} else if len(o.targets) > 1 {
		selection = audit.Selection{}
	}
	if o.selector != "" {
		selector, err := labels.Parse(o.selector)
		if err != nil {
			return usageError("-l %q: %w", o.selector, err)
		}
		selection.Labels = func(l map[string]string) bool { return selector.Matches(labels.Set(l)) }
	}
	bar := g.newProgress()
	a, err := audit.Run(in.snapshot, audit.Options{Select: selection, Progress: func(done, total int) { bar.printf("computing: %d of %d proxies", done, total) }})
	bar.done()
	if err != nil {
		return unreadError(err)
	}
	a.Diagnostics = in.diagnostics
	proxies, err := o.choose(a)
	if err != nil {
		return err
	}
	switch {
	case len(proxies) == 0 && len(o.targets) == 0:
		return usageError("%s", noneOf(&selection, a.Mesh.Proxies))
	case len(proxies) == 0:
		s := scopeOptions{selection: selection}
		return s.notFound(in.snapshot)
	}
	var actuals func(*result.Proxy) (*verify.Actual, error)
	switch {
	case o.xds != "":
		istiod, err := verify.Dial(ctx, o.xds)
		if err != nil {
			return unreadError(fmt.Errorf("%w; of one in the cluster, kubectl -n istio-system port-forward deploy/istiod 15010 brings the port here", err))
		}
		defer func() { _ = istiod.Close() }()
		actuals = o.fromIstiod(ctx, istiod, audit.Nodes(in.snapshot, selection))
	case o.live:
		actuals, err = o.fromEnvoy(ctx, g)
	default:
		proxies, actuals, err = o.fromDumps(g, a, proxies)
	}
	if err != nil {
		return err
	}
	v := o.compare(ctx, g, a, proxies, actuals)
	if ctx.Err() != nil {
		return unreadError(fmt.Errorf("verifying: %w", ctx.Err()))
	}
	return o.report(g, a, v)
}

// choose returns the proxies of the targets, each once.
func (o *verifyOptions) choose(a *result.Audit) ([]*result.Proxy, error) {
	var out []*result.Proxy
	for i := range a.Proxies {
		p := &a.Proxies[i]
		if len(o.targets) == 0 || slices.ContainsFunc(o.targets, func(t audit.Selection) bool { return targets(t, p) }) {
			out = append(out, p)
		}
	}
	for _, t := range o.targets {
		if !slices.ContainsFunc(out, func(p *result.Proxy) bool { return targets(t, p) }) && len(o.targets) > 1 {
			return nil, usageError("no proxy of %s", cmp.Or(t.Workload, "pod "+t.Pod))
		}
	}
	return out, nil
}

func targets(t audit.Selection, p *result.Proxy) bool {
	return (t.Namespace == "" || t.Namespace == p.Namespace) && (t.Pod == "" || t.Pod == p.Name) && (t.Workload == "" || t.Workload == p.Workload)
}

// fromIstiod asks istiod as each proxy, until it is silent.
func (o *verifyOptions) fromIstiod(ctx context.Context, istiod *verify.Istiod, nodes []audit.Node) func(*result.Proxy) (*verify.Actual, error) {
	var silent error
	return func(p *result.Proxy) (*verify.Actual, error) {
		if silent != nil {
			return nil, fmt.Errorf("not asked any more, after %w", silent)
		}
		for i := range nodes {
			if nodes[i].Namespace == p.Namespace && nodes[i].Name == p.Name {
				ctx, cancel := o.patience(ctx)
				defer cancel()
				actual, err := istiod.Ask(ctx, nodes[i])
				if errors.Is(err, context.DeadlineExceeded) {
					silent = err
				}
				return actual, err
			}
		}
		return nil, fmt.Errorf("%s/%s has no node metadata", p.Namespace, p.Name)
	}
}

// fromEnvoy asks the running proxies.
func (o *verifyOptions) fromEnvoy(ctx context.Context, g *global) (func(*result.Proxy) (*verify.Actual, error), error) {
	config, err := g.restConfig()
	if err != nil {
		return nil, err
	}
	admin, err := verify.NewAdmin(config)
	if err != nil {
		return nil, unreadError(err)
	}
	return func(p *result.Proxy) (*verify.Actual, error) {
		ctx, cancel := o.patience(ctx)
		defer cancel()
		return admin.Read(ctx, p.Namespace, p.Name)
	}, nil
}

// fromDumps reads the files, and finds the proxy of each: what the dump tells
// of itself, else the only proxy that was asked for.
func (o *verifyOptions) fromDumps(g *global, a *result.Audit, proxies []*result.Proxy) ([]*result.Proxy, func(*result.Proxy) (*verify.Actual, error), error) {
	found := map[*result.Proxy]*verify.Actual{}
	var chosen []*result.Proxy
	for _, name := range o.configDumps {
		text, err := readDump(g, name)
		if err != nil {
			return nil, nil, unreadError(err)
		}
		dump := verify.NewDump("config dump " + name)
		if err := dump.Add(text); err != nil {
			return nil, nil, unreadError(fmt.Errorf("%s: %w", name, err))
		}
		actual := dump.Actual()
		namespace, pod := actual.Proxy()
		p := a.Find(namespace, pod)
		switch {
		case namespace == "" && len(proxies) == 1 && len(o.configDumps) == 1:
			p = proxies[0]
		case namespace == "":
			return nil, nil, usageError("%s does not tell whose it is: name one POD", name)
		case p == nil || !slices.Contains(proxies, p):
			return nil, nil, usageError("%s is the dump of %s/%s, which is not among the proxies that were asked for or not in the mesh", name, namespace, pod)
		case found[p] != nil:
			return nil, nil, usageError("%s is another dump of %s/%s: give one of each proxy", name, namespace, pod)
		}
		found[p] = actual
		chosen = append(chosen, p)
	}
	return chosen, func(p *result.Proxy) (*verify.Actual, error) { return found[p], nil }, nil
}

func readDump(g *global, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(g.streams.In)
	}
	return os.ReadFile(name)
}

func (o *verifyOptions) compare(ctx context.Context, g *global, a *result.Audit, proxies []*result.Proxy, actuals func(*result.Proxy) (*verify.Actual, error)) *result.Verification {
	v := &result.Verification{APIVersion: result.APIVersion, Kind: result.KindVerifyReport, Proxies: []result.Verified{}, Gaps: a.Gaps}
	bar := g.newProgress()
	defer bar.done()
	for i, p := range proxies {
		if ctx.Err() != nil {
			break
		}
		bar.printf("verifying: %d of %d proxies", i+1, len(proxies))
		actual, err := actuals(p)
		if err != nil {
			v.Proxies = append(v.Proxies, result.Verified{Namespace: p.Namespace, Name: p.Name, Kind: p.Kind, Unread: err.Error()})
			v.Totals.Unread++
			continue
		}
		compared := verify.Compare(a, p, actual)
		switch {
		case compared.Unread != "":
			v.Totals.Unread++
		case compared.Equal:
			v.Totals.Equal++
		default:
			v.Totals.Differ++
		}
		v.Proxies = append(v.Proxies, compared)
	}
	v.Totals.Proxies = len(v.Proxies)
	return v
}

func (o *verifyOptions) report(g *global, a *result.Audit, v *result.Verification) error {
	var err error
	switch o.output {
	case "json":
		err = report.VerifyJSON(g.streams.Out, v)
	case "yaml":
		err = report.VerifyYAML(g.streams.Out, v)
	default:
		err = report.Verify(g.streams.Out, v, report.VerifyOptions{All: o.all, Color: g.colored()})
	}
	if err != nil {
		return unreadError(fmt.Errorf("write the report: %w", err))
	}
	sayUnread(g, a)
	switch {
	case v.Totals.Unread > 0 || a.Unread():
		return &exitError{status: ExitUnread}
	case v.Totals.Differ > 0:
		return &exitError{status: ExitYes}
	}
	return nil
}
