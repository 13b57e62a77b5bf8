// Package demo holds a small mesh that is built into the plugin: a shop of
// twelve services in four namespaces with two gateways, and some deliberate
// mistakes, written as a GitOps repository would hold it.
package demo

import (
	"context"
	"embed"
	"path"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

//go:embed mesh/*.yaml
var files embed.FS

// Load reads the demo mesh. Its objects come from files named "demo/…".
func Load(ctx context.Context) (*load.Result, error) {
	entries, err := files.ReadDir("mesh")
	if err != nil {
		return nil, err
	}
	out := &load.Result{}
	for _, e := range entries {
		data, err := files.ReadFile(path.Join("mesh", e.Name()))
		if err != nil {
			return nil, err
		}
		r, err := load.Bytes(ctx, path.Join("demo", e.Name()), data, "")
		if err != nil {
			return nil, err
		}
		out.Objects = append(out.Objects, r.Objects...)
		out.Unmodelled = append(out.Unmodelled, r.Unmodelled...)
		out.UnmodelledJSON = append(out.UnmodelledJSON, r.UnmodelledJSON...)
		out.Diagnostics = append(out.Diagnostics, r.Diagnostics...)
	}
	return out, nil
}
