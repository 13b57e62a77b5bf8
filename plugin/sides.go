package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// sideFlags say which two meshes are compared.
type sideFlags struct {
	input      inputFlags
	base, head string
}

// side is one of the two meshes that diff compares: a snapshot that is still to
// be audited, or a saved answer.
type side struct {
	label       string             // as the user named it: "manifests/", "git:main", "live cluster"
	snap        *snapshot.Snapshot // nil: saved
	saved       *result.Audit      // a ScopeReport with resources and details; nil: snap
	diagnostics []result.Diagnostic
}

func (f *sideFlags) add(cmd *cobra.Command) {
	f.input.add(cmd, true)
	flags := cmd.Flags()
	flags.StringVar(&f.base, "base", "", "The mesh before: a directory, a file, or a saved ScopeReport (scope -o json --resources --details)")
	flags.StringVar(&f.head, "head", "", "The mesh after, as for --base")
	_ = cmd.MarkFlagFilename("base")
	_ = cmd.MarkFlagFilename("head")
}

func (f *sideFlags) validate() error {
	if f.base == "" || f.head == "" {
		return usageError("diff compares two meshes: give --base and --head")
	}
	return f.input.validate()
}

// sides reads both meshes.
func (f *sideFlags) sides(ctx context.Context, g *global) (base, head side, err error) {
	if base, err = f.read(ctx, g, f.base); err != nil {
		return base, head, err
	}
	head, err = f.read(ctx, g, f.head)
	return base, head, err
}

// read takes a path: a saved ScopeReport, else manifests.
func (f *sideFlags) read(ctx context.Context, g *global, path string) (side, error) {
	if saved, err := savedReport(path); saved != nil || err != nil {
		return side{label: path, saved: saved}, err
	}
	from := f.input
	from.filenames = []string{path}
	in, err := from.read(ctx, g)
	if err != nil {
		return side{}, err
	}
	return side{label: path, snap: in.snapshot, diagnostics: in.diagnostics}, nil
}

// savedReport reads a ScopeReport; nil if the file is something else.
func savedReport(path string) (*result.Audit, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadError(err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return nil, nil
	}
	var head struct{ APIVersion, Kind string }
	if json.Unmarshal(text, &head) != nil || head.Kind != result.KindScopeReport {
		return nil, nil
	}
	if head.APIVersion != result.APIVersion {
		return nil, unreadError(fmt.Errorf("%s: a ScopeReport of %s: this plugin reads %s; make it again from its source", path, head.APIVersion, result.APIVersion))
	}
	saved := &result.Audit{}
	if err := json.Unmarshal(text, saved); err != nil {
		return nil, unreadError(fmt.Errorf("%s: %w", path, err))
	}
	if len(saved.Proxies) > 0 && len(saved.Objects) == 0 {
		return nil, unreadError(fmt.Errorf("%s: a ScopeReport without its details cannot be compared: save it with scope -o json --resources --details", path))
	}
	return saved, nil
}
