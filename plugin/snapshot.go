package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/saved"
)

const snapshotLong = `Save what an audit needs, from the live cluster or from files, in one compact file.

Every command reads such a file with -f, and audits it to the same answer as its source:
a base for pull requests where the cluster cannot be reached.

The file holds what the model reads and no more. Secrets are never read. Of containers
only the proxy's and istiod's variables that decide what istiod sends are kept; of
annotations Istio's; of the mesh config Istio's own fields, with access tokens,
certificates and values of headers masked. The objects' own specs are whole: what your
EnvoyFilters and WasmPlugins say is in the file.`

func newSnapshotCommand(g *global) *cobra.Command {
	f := &inputFlags{}
	var output string
	cmd := &cobra.Command{
		Use:   "snapshot -o FILE",
		Short: "Save what an audit needs of the mesh in one file",
		Long:  snapshotLong,
		Example: `  # Save the live cluster, audit it later
  kubectl mesh-audit snapshot -o mesh.snap
  kubectl mesh-audit scope -f mesh.snap`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			if output == "" {
				return usageError("snapshot needs a file to write to: -o FILE, or -o - for standard output")
			}
			return writeSnapshot(cmd.Context(), g, f, output)
		},
	}
	f.add(cmd, true)
	cmd.Flags().StringVarP(&output, "output", "o", "", "File to write, or - for standard output")
	_ = cmd.MarkFlagFilename("output", "snap")
	return cmd
}

func writeSnapshot(ctx context.Context, g *global, f *inputFlags, output string) error {
	in, err := f.read(ctx, g)
	if err != nil {
		return err
	}
	mesh := &saved.Mesh{Snapshot: in.snapshot, Diagnostics: in.diagnostics}
	if output == load.Stdin {
		err = saved.Write(g.streams.Out, mesh)
	} else {
		err = replaceFile(output, func(w io.Writer) error { return saved.Write(w, mesh) })
	}
	if err != nil {
		return unreadError(err)
	}
	unread := result.LeftOut(in.diagnostics)
	for _, gap := range in.snapshot.Gaps {
		if gap.Kind == result.Unread {
			unread = true
			sayGap(g, gap)
		}
	}
	if unread {
		return &exitError{status: ExitUnread}
	}
	return nil
}

// replaceFile writes a file whole or leaves what was there.
func replaceFile(name string, write func(io.Writer) error) (err error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("cannot write %s: it is no file", name)
	}
	partial := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".partial")
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o666)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(partial))
		}
	}()
	out := bufio.NewWriter(file)
	if err := errors.Join(write(out), out.Flush(), file.Close()); err != nil {
		return err
	}
	return os.Rename(partial, name)
}
