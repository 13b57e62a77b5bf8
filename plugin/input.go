package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/demo"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/overlay"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/report"
)

// placeholderBytes is the length of the key set that istiod sends while it could
// not fetch one (Istio pilot/pkg/model/jwks_resolver.go PublicOnlyJwks).
const placeholderBytes = 426

// maxKeySetBytes bounds --jwks-bytes: a key set is written into every chain that
// checks its tokens.
const maxKeySetBytes = 1 << 20

// inputFlags say where the mesh comes from.
type inputFlags struct {
	filenames []string
	recursive bool
	kustomize string
	demo      bool

	flags         *pflag.FlagSet
	live          bool // the command may read a cluster
	onlyNamespace string
	qps           float32
	burst         int
	chunkSize     int64
	apiStats      bool
	timeout       time.Duration

	istioVersion string
	meshConfig   string
	setEnv       []string
	revision     string
	jwksBytes    int

	tree         fs.FS // where -f and -k are looked for; nil: the disk
	mayBeMissing bool  // what -f and -k name; see load.Options
	whole        bool  // keep all of the objects that are read
}

// add defines the flags; those of an audit and of the live cluster only if live:
// completion of files uses none of them.
func (f *inputFlags) add(cmd *cobra.Command, live bool) {
	flags := cmd.Flags()
	f.flags = flags
	flags.StringSliceVarP(&f.filenames, "filename", "f", nil, "File, directory or glob of manifests, a saved snapshot, or - for standard input; may be given several times")
	flags.BoolVarP(&f.recursive, "recursive", "R", false, "Read the directories of -f recursively")
	flags.StringVarP(&f.kustomize, "kustomize", "k", "", "Directory with a kustomization to build and read")
	flags.BoolVar(&f.demo, "demo", false, "Use the demo mesh that is built into the plugin")
	flags.StringVar(&f.istioVersion, "istio-version", "", "Full Istio version of istiod, for example 1.30.3; default: as found in the input")
	flags.StringVar(&f.meshConfig, "mesh-config", "", "File with the mesh config (the mesh key of the istio ConfigMap) to use instead of the one found")
	flags.StringArrayVar(&f.setEnv, "set-env", nil, "KEY=VALUE of an istiod environment variable, on top of those found; may be given several times")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json", "snap")
	_ = cmd.MarkFlagDirname("kustomize")
	f.jwksBytes = placeholderBytes
	if f.live = live; !live {
		return
	}
	flags.IntVar(&f.jwksBytes, "jwks-bytes", placeholderBytes, "Length to assume of each key set that istiod fetches from a jwksUri; default: that of the placeholder it sends until it could")
	flags.StringVar(&f.revision, "revision", "", "Audit only the proxies of this istiod revision")
	flags.StringVar(&f.onlyNamespace, "only-namespace", "", "Read only this namespace of the cluster; the audit is labelled partial")
	flags.Float32Var(&f.qps, "qps", 50, "Requests a second to the API server at the most")
	flags.IntVar(&f.burst, "burst", 100, "Requests to the API server that may go out at once before --qps holds")
	flags.Int64Var(&f.chunkSize, "chunk-size", 500, "Objects in a page of a list from the API server at the most")
	flags.BoolVar(&f.apiStats, "api-stats", false, "Print on standard error what was asked of the API server: requests, pages, bytes, retries, and the priority level that served it")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "How long reading the cluster may take in all")
}

// files reports whether the mesh is read from files.
func (f *inputFlags) files() bool { return len(f.filenames) > 0 || f.kustomize != "" }

func (f *inputFlags) validate() error {
	for _, name := range []string{"filename", "kustomize", "only-namespace"} {
		// An empty name, of a variable that is not set, must not turn into another question.
		if flag := f.flags.Lookup(name); flag != nil && flag.Changed && slices.Contains([]string{"", "[]"}, flag.Value.String()) {
			return usageError("--%s is empty", name)
		}
	}
	if f.demo && f.files() {
		return usageError("--demo cannot be used together with -f or -k")
	}
	if f.onlyNamespace != "" && (f.demo || f.files()) {
		return usageError("--only-namespace is for the live cluster; to narrow what is shown use -n")
	}
	if err := f.validateLive(); err != nil {
		return err
	}
	if f.istioVersion != "" {
		if err := audit.CheckVersion(f.istioVersion); err != nil {
			return usageError("--istio-version: %w", err)
		}
	}
	if f.jwksBytes < 1 || f.jwksBytes > maxKeySetBytes {
		return usageError("--jwks-bytes %d: must be from 1 to %d", f.jwksBytes, maxKeySetBytes)
	}
	for _, kv := range f.setEnv {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return usageError("--set-env %q: must be KEY=VALUE", kv)
		}
	}
	return nil
}

// validateLive checks the flags of the cluster.
func (f *inputFlags) validateLive() error {
	switch {
	case !f.live:
		return nil
	case f.onlyNamespace != "" && !isNamespace(f.onlyNamespace):
		return usageError("--only-namespace %q: no name of a namespace", f.onlyNamespace)
	case f.chunkSize < 1:
		return usageError("--chunk-size %d: must be at least 1", f.chunkSize)
	case !(f.qps > 0):
		return usageError("--qps %g: must be more than 0", f.qps)
	case f.burst < 1:
		return usageError("--burst %d: must be at least 1", f.burst)
	case f.timeout <= 0:
		return usageError("--timeout %s: must be more than 0", f.timeout)
	}
	return nil
}

// overrides turns the flags into what replaces the input's own statements.
func (f *inputFlags) overrides() (snapshot.Overrides, error) {
	o := snapshot.Overrides{IstioVersion: f.istioVersion, Revision: f.revision, KeySetBytes: f.jwksBytes}
	for _, kv := range f.setEnv {
		name, value, _ := strings.Cut(kv, "=")
		if o.Env == nil {
			o.Env = map[string]string{}
		}
		o.Env[name] = value
	}
	if f.meshConfig != "" {
		text, err := os.ReadFile(f.meshConfig)
		if err != nil {
			return o, unreadError(fmt.Errorf("mesh config: %w", err))
		}
		o.MeshConfigFrom.File = f.meshConfig
		if o.MeshConfigYAML, o.MeshConfigFrom.Line, err = load.MeshConfig(text); err != nil {
			return o, unreadError(fmt.Errorf("%s: %w", f.meshConfig, err))
		}
	}
	return o, nil
}

// input is what was read.
type input struct {
	snapshot    *snapshot.Snapshot
	diagnostics []result.Diagnostic
}

// read loads the mesh from where the flags say.
func (f *inputFlags) read(ctx context.Context, g *global) (*input, error) {
	overrides, err := f.overrides()
	if err != nil {
		return nil, err
	}
	if !f.demo && !f.files() {
		return f.readLive(ctx, g, overrides)
	}
	if f.apiStats {
		g.notef("note: --api-stats: no API server was asked, the mesh is read from files")
	}
	read, err := f.readFiles(ctx, g)
	if err != nil {
		return nil, err
	}
	if read.Saved != nil {
		return savedInput(read, overrides), nil
	}
	complete.Apply(read, complete.Options{Overrides: overrides})
	snap := read.Snapshot()
	snap.Overrides = overrides
	return &input{snapshot: snap, diagnostics: read.Diagnostics}, nil
}

// savedInput is a saved snapshot with the files that were read too laid on it.
func savedInput(read *load.Result, overrides snapshot.Overrides) *input {
	whole := *read.Saved.Snapshot
	snap := &whole
	overrides = overrides.On(snap.Overrides)
	if len(read.Objects)+len(read.Unmodelled)+len(read.Gaps) > 0 {
		snap = overlay.Apply(snap, read, overlay.Options{Overrides: overrides})
	}
	snap.Overrides = overrides
	return &input{snapshot: snap, diagnostics: read.Diagnostics}
}

func (f *inputFlags) readFiles(ctx context.Context, g *global) (*load.Result, error) {
	if f.demo {
		return demo.Load(ctx)
	}
	read, err := f.loadFiles(ctx, g)
	if err != nil {
		return nil, err
	}
	if nothingIn(read) {
		return nil, f.nothingRead()
	}
	return read, nil
}

// nothingIn reports whether there is nothing in the input that istiod would read.
func nothingIn(read *load.Result) bool {
	return len(read.Objects)+len(read.Unmodelled)+len(read.Diagnostics)+len(read.Gaps) == 0 && read.Saved == nil
}

func (f *inputFlags) nothingRead() error {
	return unreadError(fmt.Errorf("no objects in the input that istiod would read%s", f.hint(f.filenames...)))
}

// loadFiles reads what -f and -k name, which may be nothing for istiod.
func (f *inputFlags) loadFiles(ctx context.Context, g *global) (*load.Result, error) {
	read, err := load.Files(ctx, load.Options{
		Filenames: f.filenames, Recursive: f.recursive, Kustomize: f.kustomize, Tree: f.tree,
		MayBeMissing: f.mayBeMissing, Stdin: g.streams.In, Namespace: g.namespace(), Whole: f.whole,
	})
	if err != nil {
		return nil, unreadError(err)
	}
	for _, d := range read.Diagnostics {
		if text := diagnosticText(d); (!d.Kept || !g.quiet) && !g.told[text] {
			g.told[text] = true
			fmt.Fprintln(g.streams.ErrOut, text)
		}
	}
	if g.verbose {
		for _, kind := range slices.Sorted(maps.Keys(read.Ignored)) {
			g.notef("ignored: %d of kind %s", read.Ignored[kind], kind)
		}
	}
	return read, nil
}

// hint says what may have been meant where nothing was found.
func (f *inputFlags) hint(names ...string) string {
	for _, name := range names {
		entries, _ := os.ReadDir(name) // none: not a directory
		if slices.ContainsFunc(entries, load.IsKustomization) {
			return "; " + name + " has a kustomization, which -k builds (kubectl kustomize " + name + " writes it out)"
		}
		if !f.recursive && slices.ContainsFunc(entries, fs.DirEntry.IsDir) {
			return "; to read the directories in " + name + " too, give -R; a kustomization is built with -k"
		}
	}
	return ""
}

func (f *inputFlags) readLive(ctx context.Context, g *global, overrides snapshot.Overrides) (*input, error) {
	if n := g.namespace(); f.onlyNamespace != "" && n != "" && n != f.onlyNamespace {
		return nil, usageError("-n %s: only namespace %s is read (--only-namespace)", n, f.onlyNamespace)
	}
	config, err := g.restConfig()
	if err != nil {
		return nil, err
	}
	bar := g.newProgress()
	defer bar.done()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var stats *result.APIStats
	if f.apiStats {
		stats = &result.APIStats{}
	}
	snap, err := load.Live(ctx, load.LiveOptions{
		Config: config, QPS: f.qps, Burst: f.burst, PageSize: f.chunkSize, OnlyNamespace: f.onlyNamespace, Stats: stats,
		UserAgent: "kubectl-mesh_audit/" + version(),
		Progress:  func(kind string, n int) { bar.printf("reading the cluster: %d %s", n, kind) },
	})
	bar.done()
	if f.apiStats {
		_ = report.APIStats(g.streams.ErrOut, stats)
	}
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, unreadError(err)
	case err != nil:
		return nil, noCluster(err)
	}
	snap.Overrides = overrides
	return &input{snapshot: snap}, nil
}

// diagnosticText is file:line: what is wrong, on which object.
func diagnosticText(d result.Diagnostic) string {
	place, object := "", ""
	if d.Source.File != "" {
		place = d.Source.String() + ": "
	}
	if d.Object.Kind != "" || d.Object.Name != "" {
		object = strings.TrimSpace(d.Object.Kind+" "+strings.TrimPrefix(d.Object.Namespace+"/"+d.Object.Name, "/")) + ": "
	}
	kept := ""
	if d.Kept {
		kept = "warning: "
	}
	return report.Clean(place + kept + object + d.Text)
}
