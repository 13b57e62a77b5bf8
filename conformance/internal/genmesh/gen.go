// Package genmesh makes random meshes from a seed: completed YAML, as a
// cluster would hold it, with everything that Istio's rules read.
package genmesh

import (
	"bytes"
	"fmt"
	"math/rand"
	"sort"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// M is an object under construction.
type M = map[string]any

// L is a list under construction.
type L = []any

// Families lists what a mesh may vary, beside its services.
var Families = []string{
	"services", "headless", "serviceentries", "exportto", "sidecars", "virtualservices",
	"destinationrules", "gateways", "security", "telemetry", "envoyfilters", "discovery",
	"outbound", "dns", "revisions", "flags", "topology", "proxies", "gatewayapi",
}

// companions are families that another one means nothing without.
var companions = map[string][]string{
	"exportto":  {"serviceentries", "virtualservices", "destinationrules"},
	"discovery": {"serviceentries", "destinationrules"},
	"revisions": {"serviceentries", "virtualservices", "destinationrules"},
	"dns":       {"serviceentries"},
}

// system is the root namespace of all generated meshes.
const system = "istio-system"

// gen is a mesh under construction.
type gen struct {
	r        *rand.Rand
	families map[string]bool
	rich     bool
	large    bool
	out      []M
	names    map[string]int

	namespaces []string
	workloads  []*workload
	services   []*service
	externals  []*external
	gateways   []*gatewayPod
	nodes      []string
	subsets    map[string][]string

	mesh       M
	networks   M
	istiodEnv  M
	revisions  []string
	podCount   int
	vipCount   int
	hostnames  []string
	gatewayRef []string
	labels     map[string]M
}

// Generate makes the mesh of a seed with the families; nil lets the seed
// choose: every other seed varies one family, the others several.
func Generate(seed int64, families []string) *Mesh {
	return generate(seed, families, func(*gen) {})
}

// generate does so, with settings of its own.
func generate(seed int64, families []string, settings func(*gen)) *Mesh {
	r := rand.New(rand.NewSource(seed))
	if families == nil {
		families = choose(r, seed)
	}
	g := newGen(r)
	g.rich, g.large = seed%4 >= 2, seed%16 == 15
	for _, f := range families {
		g.families[f] = true
		for _, c := range companions[f] {
			g.families[c] = true
		}
	}
	settings(g)
	g.build(seed)
	what := strings.Join(families, "+")
	if len(families) > 1 {
		what = fmt.Sprintf("mix%d", len(families))
	}
	return &Mesh{Name: fmt.Sprintf("seed-%04d-%s", seed, what), Families: families, Objects: g.out}
}

// newGen starts a mesh.
func newGen(r *rand.Rand) *gen {
	return &gen{
		r: r, families: map[string]bool{}, names: map[string]int{}, subsets: map[string][]string{},
		mesh: M{"rootNamespace": system, "trustDomain": "cluster.local", "accessLogFile": ""}, networks: M{},
		istiodEnv: M{}, revisions: []string{"default"}, labels: map[string]M{},
	}
}

// choose picks the families of a seed.
func choose(r *rand.Rand, seed int64) []string {
	if seed%2 != 0 {
		return []string{Families[int(seed/2)%len(Families)]}
	}
	var out []string
	for _, i := range r.Perm(len(Families))[:3+r.Intn(5)] {
		out = append(out, Families[i])
	}
	sort.Strings(out)
	return out
}

// build makes all objects, the mesh configuration last, since the families
// add to it.
func (g *gen) build(seed int64) {
	g.makeNamespaces()
	g.makeNodes()
	g.makeWorkloads()
	g.makeServices()
	g.makeGatewayPods()
	steps := []struct {
		family string
		run    func()
	}{
		{"serviceentries", g.serviceEntries}, {"sidecars", g.sidecars}, {"destinationrules", g.destinationRules},
		{"gateways", g.gatewayConfig}, {"virtualservices", g.virtualServices}, {"exportto", g.exportTo},
		{"security", g.security}, {"telemetry", g.telemetry}, {"envoyfilters", g.envoyFilters},
		{"discovery", g.discovery}, {"outbound", g.outbound}, {"dns", g.dns},
		{"flags", g.flags}, {"topology", g.topology}, {"gatewayapi", g.gatewayAPI}, {"revisions", g.revisioned},
	}
	for _, s := range steps {
		if g.families[s.family] {
			s.run()
		}
	}
	g.rare(seed)
	g.enrich()
	g.allocate()
	g.avoidPanics()
	g.makePods()
	g.makeControlPlane()
}

// Mesh is a generated mesh.
type Mesh struct {
	// Name says the seed or the shape, fit for a file's name.
	Name     string
	Families []string
	Objects  []M
}

// YAML writes the mesh as a stream of documents.
func (m *Mesh) YAML() ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %v\n", m.Name, m.Families)
	for _, o := range m.Objects {
		doc, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		b.WriteString("---\n")
		b.Write(doc)
	}
	return b.Bytes(), nil
}

// chance is true in pct of 100 cases.
func (g *gen) chance(pct int) bool { return g.r.Intn(100) < pct }

// between is a number from lo to hi.
func (g *gen) between(lo, hi int) int { return lo + g.r.Intn(hi-lo+1) }

// pick takes one of the values.
func pick[T any](g *gen, values ...T) T { return values[g.r.Intn(len(values))] }

// name makes a name that no other object has.
func (g *gen) name(base string) string {
	g.names[base]++
	if n := g.names[base]; n > 1 {
		return fmt.Sprintf("%s-%d", base, n)
	}
	return base
}

// stamp is a creation time; several objects share one, so that ties occur.
func (g *gen) stamp() string {
	base := time.Date(2024, 3, 1, 8, 0, 0, 0, time.UTC)
	return base.Add(time.Duration(g.r.Intn(8)) * time.Minute).Format(time.RFC3339)
}

// add appends an object.
func (g *gen) add(apiVersion, kind, ns, name string, rest M) M {
	meta := M{"name": name, "creationTimestamp": g.stamp()}
	if ns != "" {
		meta["namespace"] = ns
	}
	o := M{"apiVersion": apiVersion, "kind": kind, "metadata": meta}
	for k, v := range rest {
		if k == "labels" || k == "annotations" {
			meta[k] = v
			continue
		}
		o[k] = v
	}
	g.out = append(g.out, o)
	return o
}

// istio appends an object of Istio's configuration.
func (g *gen) istio(group, kind, ns, name string, spec M) M {
	version := map[string]string{
		"networking": "networking.istio.io/v1", "security": "security.istio.io/v1",
		"telemetry": "telemetry.istio.io/v1", "extensions": "extensions.istio.io/v1alpha1",
		"networking/v1alpha3": "networking.istio.io/v1alpha3", "networking/v1beta1": "networking.istio.io/v1beta1",
	}[group]
	return g.add(version, kind, ns, name, M{"spec": spec})
}

// anyNamespace is one of the mesh's own namespaces.
func (g *gen) anyNamespace() string { return pick(g, g.namespaces...) }

// namespaceOrRoot is sometimes the root namespace.
func (g *gen) namespaceOrRoot(pct int) string {
	if g.chance(pct) {
		return system
	}
	return g.anyNamespace()
}

// ip is a new pod address.
func (g *gen) ip() string {
	g.podCount++
	return fmt.Sprintf("10.20.%d.%d", g.podCount/200, g.podCount%200+2)
}

// vip is a new service address.
func (g *gen) vip() string {
	g.vipCount++
	return fmt.Sprintf("10.96.%d.%d", g.vipCount/200, g.vipCount%200+2)
}
