// Package plugin is the command line: flags to options to a run of the audit.
// It holds no knowledge of Istio.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const rootLong = `Predict what istiod sends to every proxy of a mesh, and what it weighs.

mesh-audit reads the objects that istiod reads, from files that are not yet merged
(-f, -k) or from a live cluster, and computes for each proxy the listeners, route
configurations, clusters and endpoints that istiod pushes, by Envoy's own names and
with their bytes. It only reads; it never writes to the cluster and never reads Secrets.

Exit status: 0 done; 1 the command's question was answered "yes" (diff: there are
differences, or a gate trips); 2 wrong usage; 3 something needed could not be read
(what was read is still reported).`

const rootExample = `  # What does every proxy of the embedded demo mesh get?
  kubectl mesh-audit scope --demo

  # The same for a directory of manifests, and for the live cluster
  kubectl mesh-audit scope -f manifests/ -R
  kubectl mesh-audit scope

  # One proxy, resource by resource, with the reasons
  kubectl mesh-audit scope checkout-0 -n shop -f manifests/`

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	root := NewCommand(streams)
	root.SetArgs(args)
	err := execute(ctx, root)
	var exit *exitError
	if err != nil && !(errors.As(err, &exit) && exit.cause == nil) {
		fmt.Fprintf(streams.ErrOut, "error: %v\n", err)
	}
	return statusOf(err)
}

// patience is how long what was interrupted may take to end by itself.
const patience = time.Second

// execute runs the command. What does not heed that it was interrupted, such as
// a computation or a read from a terminal, is left alone: the process ends.
func execute(ctx context.Context, root *cobra.Command) error {
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		clearLine(root.ErrOrStderr())
		return unreadError(fmt.Errorf("interrupted: %w", ctx.Err()))
	}
}

// NewCommand builds the command tree.
func NewCommand(streams genericiooptions.IOStreams) *cobra.Command {
	config := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag()
	g := &global{config: config, streams: streams, told: map[string]bool{}}
	root := &cobra.Command{
		Use:           "kubectl-mesh_audit",
		Short:         "Predict what istiod sends to every Istio proxy, before you merge",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// no command has one of its own
		PersistentPreRunE: func(*cobra.Command, []string) error { return g.validate() },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl mesh-audit"},
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.CompletionOptions.DisableDefaultCmd = true
	config.AddFlags(root.PersistentFlags())
	g.addFlags(root.PersistentFlags())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w\nSee '%s --help'", err, cmd.CommandPath())
	})
	root.AddCommand(newScopeCommand(g), newDiffCommand(g), newVerifyCommand(g), newCompleteCommand(g), newSnapshotCommand(g), newCompletionCommand(g), newVersionCommand(g), newOptionsCommand(g))
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	registerCompletions(root, g)
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp))
	return root
}

// usageTemplate leaves the flags of the connection, which all commands have, to
// the command "options", as kubectl does.
func usageTemplate(standard string) string {
	const hint = `

Use "kubectl mesh-audit options" for the flags that all commands have (connection, output on stderr).`
	start := strings.Index(standard, "{{if .HasAvailableInheritedFlags}}")
	if start < 0 {
		return standard
	}
	length := strings.Index(standard[start:], "{{end}}")
	return standard[:start] + hint + standard[start+length+len("{{end}}"):]
}

func newOptionsCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags that all commands have",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(g.streams.Out, "All commands take these flags:\n\n", cmd.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}

func newVersionCommand(g *global) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the plugin",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(g.streams.Out, "mesh-audit", version())
			return err
		},
	}
}

// released is the version of a released binary, set when it is linked (make dist).
var released string

// version tells the release, else the module version that the binary was built from.
func version() string {
	if released != "" {
		return released
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// OS returns the process's own streams.
func OS() genericiooptions.IOStreams {
	return genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: io.Writer(os.Stderr)}
}
