package plugin

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/overlay"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// sideFlags say which two meshes are compared.
type sideFlags struct {
	input          inputFlags // -f, -k and the flags of the cluster; of istiod: the head's
	base, head, on string
	deleted        []string
	prune          bool
	pruned         string // the selector of --prune

	headVersion                 string
	baseVersion, baseMeshConfig string
	baseEnv                     []string

	places *places // of the files, in annotations; nil: as the user named them

	given func(name string) bool // whether the flag is on the command line
}

// side is one of the two meshes that diff compares: a snapshot that is still to
// be audited, or a saved answer.
type side struct {
	label       string             // as the user named it: "manifests/", "git:main", "live cluster"
	snap        *snapshot.Snapshot // nil: saved
	saved       *result.Audit      // a ScopeReport with resources and details; nil: snap
	read        *reading           // of the head; nil: base with changes
	diagnostics []result.Diagnostic
}

func (f *sideFlags) add(cmd *cobra.Command) {
	f.input.add(cmd, true)
	flags := cmd.Flags()
	f.given = flags.Changed
	flags.StringVar(&f.base, "base", "", "The mesh before: a directory, a file, a snapshot, a saved ScopeReport (scope -o json --resources --details), else a git revision, with -f and -k paths in it (git:REV is always one); default: --on, or the live cluster")
	flags.StringVar(&f.head, "head", "", "The mesh after, as for --base; default: base with the files of -f and -k laid on it, or those of the work tree if base is a revision")
	flags.StringVar(&f.on, "on", "", "The rest of the mesh, on which the files of both sides are laid: a snapshot, a directory, or live")
	flags.StringArrayVar(&f.deleted, "delete", nil, "KIND/NAMESPACE/NAME of an object that head does not have; may be given several times")
	flags.BoolVar(&f.prune, "prune", false, "Delete in head what has the labels of -l and is not among the files, as kubectl apply --prune does")
	flags.StringVar(&f.headVersion, "head-istio-version", "", "Istio version of head's istiod: what does the upgrade change?")
	flags.StringVar(&f.baseVersion, "base-istio-version", "", "Istio version of base's istiod")
	flags.StringVar(&f.baseMeshConfig, "base-mesh-config", "", "File with the mesh config of base")
	flags.StringArrayVar(&f.baseEnv, "base-set-env", nil, "KEY=VALUE of an environment variable of base's istiod; may be given several times")
	for name, usage := range map[string]string{
		"istio-version": "Full Istio version of both sides' istiods, for example 1.30.3; default: as found in the input",
		"mesh-config":   "File with the mesh config that head has instead of the one found",
		"set-env":       "KEY=VALUE of an environment variable of head's istiod, on top of those found; may be given several times",
	} {
		flags.Lookup(name).Usage = usage
	}
	for _, name := range []string{"base", "head", "on"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

func (f *sideFlags) validate() error {
	for name, value := range map[string]string{"base": f.base, "head": f.head, "on": f.on} {
		if value == "" && f.given(name) {
			return usageError("--%s is empty: name a path, a revision, or leave the flag out", name)
		}
	}
	for name, version := range map[string]string{"--head-istio-version": f.headVersion, "--base-istio-version": f.baseVersion} {
		if version == "" {
			continue
		}
		if err := audit.CheckVersion(version); err != nil {
			return usageError("%s: %w", name, err)
		}
	}
	for _, kv := range f.baseEnv {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return usageError("--base-set-env %q: must be KEY=VALUE", kv)
		}
	}
	if err := f.validateInput(); err != nil {
		return err
	}
	if f.on != "" && f.base == "" && f.head == "" && !f.changes() {
		return usageError("with --on alone both sides are the same: give --base, --head, -f or -k")
	}
	if f.prune && !f.input.files() {
		return usageError("--prune deletes what is not among the files: give them with -f or -k")
	}
	input := f.input
	input.filenames, input.kustomize = nil, "" // go with --demo and --only-namespace: they are laid on them
	return input.validate()
}

// validateInput refuses what would be read twice, or not at all.
func (f *sideFlags) validateInput() error {
	stdin := 0
	for _, name := range append([]string{f.base, f.head, f.on}, f.input.filenames...) {
		if name == load.Stdin {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return usageError("standard input (-) is given %d times, and can be read once: save it to a file", stdin)
	case f.input.demo && (f.base != "" || f.on != ""):
		return usageError("--demo is the base: it does not go with --base or --on")
	case f.input.onlyNamespace != "" && !f.readsCluster():
		return usageError("--only-namespace is for the live cluster, which is not read here; to narrow what is shown use -n")
	}
	return nil
}

// readsCluster reports whether one of the meshes is the live cluster.
func (f *sideFlags) readsCluster() bool {
	live := func(value string) bool { return value == liveName && !exists(value) }
	return f.base == "" && f.on == "" && !f.input.demo || live(f.base) || live(f.head) || live(f.on)
}

// changes reports whether the flags make head from base.
func (f *sideFlags) changes() bool {
	return f.input.files() || len(f.deleted) > 0 || f.prune || f.headVersion != "" || f.input.meshConfig != "" || len(f.input.setEnv) > 0
}

// comparison is what sides needs on the way.
type comparison struct {
	*sideFlags
	g                  *global
	forBase, forHead   snapshot.Overrides
	assigned           *complete.Assigned
	live               *side
	repo               *repository
	baseRead, headRead *reading
}

// sides reads both meshes.
func (f *sideFlags) sides(ctx context.Context, g *global) (base, head side, err error) {
	c := &comparison{sideFlags: f, g: g, assigned: complete.NewAssigned()}
	defer c.close()
	if err := c.overrides(); err != nil {
		return base, head, err
	}
	if f.on != "" {
		return c.laidOn(ctx)
	}
	if c.baseRead, err = c.read(ctx, f.base, "the base"); err != nil {
		return base, head, err
	}
	switch {
	case f.head != "":
		c.headRead, err = c.read(ctx, f.head, "the head")
	case c.baseRead.tree != nil:
		c.headRead, err = c.readWorkTree(ctx)
	case !f.changes():
		err = usageError("nothing is compared with %s: give --head, or what changes with -f, -k, --delete, --set-env, --mesh-config or --head-istio-version", c.baseRead.label)
	default:
		return c.changed(ctx)
	}
	if err != nil {
		return base, head, err
	}
	return c.whole(ctx)
}

// overrides reads what the flags say of the two istiods.
func (c *comparison) overrides() (err error) {
	head, base := c.input, c.input
	if c.headVersion != "" {
		head.istioVersion = c.headVersion
	}
	if c.forHead, err = head.overrides(); err != nil {
		return err
	}
	base.meshConfig, base.setEnv = c.baseMeshConfig, c.baseEnv
	if c.baseVersion != "" {
		base.istioVersion = c.baseVersion
	}
	c.forBase, err = base.overrides()
	return err
}

// changed is a base, and it with the files and deletions of the flags.
func (c *comparison) changed(ctx context.Context) (base, head side, err error) {
	if c.baseRead.saved != nil {
		return base, head, usageError("%s is a saved report, on which no files can be laid: give a snapshot, or --head", c.baseRead.label)
	}
	if base, err = c.mesh(ctx, c.baseRead, c.forBase); err != nil {
		return base, head, err
	}
	files := &load.Result{}
	if c.input.files() {
		if files, err = c.readChange(ctx); err != nil {
			return base, head, err
		}
	}
	gone, err := c.deletions(base.snap, files)
	if err != nil {
		return base, head, err
	}
	overrides := c.forHead.On(c.baseRead.overrides())
	head = side{
		label: base.label + " with " + c.changeLabel(), diagnostics: append(base.diagnostics[:len(base.diagnostics):len(base.diagnostics)], files.Diagnostics...),
		snap: overlay.Apply(base.snap, files, overlay.Options{Overrides: overrides, Assigned: c.assigned, Delete: gone}),
	}
	return base, head, nil
}

// changeLabel names what makes head from base.
func (c *comparison) changeLabel() string {
	parts := append([]string{}, c.input.filenames...)
	if c.input.kustomize != "" {
		parts = append(parts, c.input.kustomize)
	}
	for _, d := range c.deleted {
		parts = append(parts, "--delete "+d)
	}
	if c.prune {
		parts = append(parts, "--prune")
	}
	if c.headVersion != "" {
		parts = append(parts, "Istio "+c.headVersion)
	}
	if c.input.meshConfig != "" {
		parts = append(parts, c.input.meshConfig)
	}
	return strings.Join(append(parts, c.input.setEnv...), ", ")
}

// whole is two meshes, each complete in itself.
func (c *comparison) whole(ctx context.Context) (base, head side, err error) {
	if len(c.deleted) > 0 || c.prune {
		return base, head, usageError("--delete and --prune make head from base: they do not go with --head or a revision, unless there is --on")
	}
	if err := c.checkNames(); err != nil {
		return base, head, err
	}
	if err := c.filesHavePlace(); err != nil {
		return base, head, err
	}
	a, b := c.baseRead, c.headRead
	if a.manifests() && b.manifests() {
		complete.Pair(a.files, b.files, complete.Options{Overrides: c.forBase}, complete.Options{Overrides: c.forHead})
		a.completed, b.completed = true, true
	}
	if base, err = c.mesh(ctx, a, c.forBase); err != nil {
		return base, head, err
	}
	head, err = c.mesh(ctx, b, c.forHead)
	head.read = b
	return base, head, err
}

// laidOn is the files of base and of head, each laid on the rest of the mesh.
// An object of base's files that head's do not have is deleted.
func (c *comparison) laidOn(ctx context.Context) (base, head side, err error) {
	rest, err := c.readRest(ctx)
	if err != nil {
		return base, head, err
	}
	on, err := c.mesh(ctx, rest, c.forBase)
	if err != nil {
		return base, head, err
	}
	if c.base == "" {
		base, c.baseRead = on, &reading{files: &load.Result{}}
	} else {
		if c.baseRead, err = c.readFiles(ctx, c.base, "the base"); err != nil {
			return base, head, err
		}
		base = c.lay(on, c.baseRead, c.forBase.On(rest.overrides()), nil)
	}
	switch {
	case c.head != "":
		c.headRead, err = c.readFiles(ctx, c.head, "the head")
	case c.input.files() && (c.baseRead.tree != nil || c.base == ""):
		c.headRead, err = c.readWorkTree(ctx)
	case c.base == "":
		c.headRead = &reading{label: c.changeLabel(), files: &load.Result{}}
	default:
		err = usageError("nothing is compared with %s: give --head", c.base)
	}
	if err == nil {
		err = c.checkNames()
	}
	if err == nil && c.head != "" {
		err = c.filesHavePlace()
	}
	if err != nil {
		return base, head, err
	}
	gone, err := c.deletions(on.snap, c.headRead.files)
	if err != nil {
		return base, head, err
	}
	kept := map[overlay.Key]bool{}
	for _, k := range overlay.KeysOf(c.headRead.files) {
		kept[k] = true
	}
	for _, k := range overlay.KeysOf(c.baseRead.files) {
		if !kept[k] {
			gone = append(gone, k)
		}
	}
	head = c.lay(on, c.headRead, c.forHead.On(rest.overrides()), gone)
	head.read = c.headRead
	return base, head, nil
}

func (c *comparison) lay(on side, files *reading, overrides snapshot.Overrides, gone []overlay.Key) side {
	return side{
		label:       files.label + " on " + on.label,
		diagnostics: append(on.diagnostics[:len(on.diagnostics):len(on.diagnostics)], files.files.Diagnostics...),
		snap: overlay.Apply(on.snap, files.files, overlay.Options{
			Overrides: overrides, Assigned: c.assigned, Delete: gone,
		}),
	}
}
