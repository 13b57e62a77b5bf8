package plugin

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

const completeLong = `Write the input as the model reads it: with what files leave out filled in.

A repository of manifests has no cluster IPs, no Pods, no EndpointSlices and no status.
mesh-audit completes it by one documented rule (docs/completion.md), and 'scope' marks
what was made up as assumed. This command prints the completed objects as YAML, so that
you can read, correct and keep exactly what was assumed. A snapshot is refused: it was
completed when it was saved, and has no whole objects; the gaps of 'scope' tell what was
assumed in it.`

func newCompleteCommand(g *global) *cobra.Command {
	f := &inputFlags{whole: true}
	cmd := &cobra.Command{
		Use:   "complete (-f FILE | -k DIR | --demo)",
		Short: "Print the input with cluster IPs, Pods and EndpointSlices filled in",
		Long:  completeLong,
		Example: `  # What does scope assume about these manifests?
  kubectl mesh-audit complete -f manifests/ -R > completed.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			if err := completes(f.setEnv); err != nil {
				return err
			}
			if !f.demo && !f.files() {
				return usageError("complete reads files: give -f FILE, -k DIR or --demo (a live cluster needs no completion)")
			}
			overrides, err := f.overrides()
			if err != nil {
				return err
			}
			read, err := f.readFiles(cmd.Context(), g)
			if err != nil {
				return err
			}
			if read.Saved != nil {
				return usageError("-f names a snapshot: it was completed when it was saved, and has only what the model reads of each object, no YAML to print; the gaps of 'scope -f' tell what was assumed in it, and complete prints the manifests that it was made from")
			}
			complete.Apply(read, complete.Options{Overrides: overrides})
			if err := complete.Write(g.streams.Out, read); err != nil {
				return err
			}
			if result.LeftOut(read.Diagnostics) {
				return &exitError{status: ExitUnread}
			}
			return nil
		},
	}
	f.add(cmd, false)
	return cmd
}

// completes refuses variables of istiod that completion does not heed.
func completes(setEnv []string) error {
	for _, kv := range setEnv {
		if name, _, _ := strings.Cut(kv, "="); !slices.Contains(heeded, name) {
			return usageError("--set-env %s: completion heeds only %s; give it to scope", name, strings.Join(heeded, " and "))
		}
	}
	return nil
}

// heeded are the variables of istiod that completion depends on: whether
// ServiceEntries get addresses, and the cluster that proxies are told.
var heeded = []string{"PILOT_ENABLE_IP_AUTOALLOCATE", "CLUSTER_ID"}
