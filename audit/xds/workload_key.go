package xds

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// nodeNameMetadata is the one value of the node metadata that differs between
// the replicas of a workload.
const nodeNameMetadata = "NODE_NAME"

// workloadKey holds all by which the proxies of a scope differ, in their own part
// or in the scope's listeners, but for the listeners of their own addresses: the
// replicas of a workload share one computation wherever they run. The key is only
// valid until the next one is made.
func (b *Builder) workloadKey(s *scope.Scope, p *mesh.Proxy) []byte {
	k := b.keys.text[:0]
	field := func(v string) { // its length first, so that fields cannot run together
		k = append(append(strconv.AppendInt(k, int64(len(v)), 10), ' '), v...)
	}
	meta := &p.Metadata
	cluster, conventional := p.TracingNames()
	for _, v := range []string{
		p.CanonicalName, p.CanonicalRevision, p.MeshID, p.WorkloadName, p.ServiceAccount, p.Network, p.Cluster, p.Version.String(),
		cluster, conventional, b.configText(p.Config), meta.Interception, strconv.FormatBool(p.IPv4), strconv.FormatBool(p.IPv6),
	} {
		field(v)
	}
	for _, name := range b.labelsThatMatter() {
		if value, ok := p.Labels.Lookup(name); ok {
			field(name)
			field(value)
		}
	}
	field("")
	b.keys.raw = slices.AppendSeq(b.keys.raw[:0], maps.Keys(meta.Raw))
	slices.Sort(b.keys.raw)
	for _, name := range b.keys.raw {
		if name != nodeNameMetadata || b.keys.node {
			field(name)
			field(meta.Raw[name])
		}
	}
	field("")
	for _, port := range ownPorts(p) {
		field(strconv.Itoa(port))
	}
	field("")
	for _, t := range p.Targets {
		field(strconv.Itoa(t.Service.Index))
		field(strconv.Itoa(t.Port.Number))
		field(strconv.Itoa(t.TargetPort))
	}
	if s.Sidecar != nil && len(s.Sidecar.Spec.GetIngress()) > 0 || meta.Interception == "NONE" {
		field(strings.Join(p.IPs, ","))
	}
	b.keys.text = k
	return k
}

// workloadKeys are what workloadKey looks at beside a proxy's fields.
type workloadKeys struct {
	labels []string // names, sorted; nil: not collected yet
	node   bool     // an EnvoyFilter matches proxies by the name of their node
	text   []byte   // the last key
	raw    []string // room for the names of a proxy's metadata
}

// labelsThatMatter are the names of labels that policies and EnvoyFilters select
// workloads by, and of those that listeners name.
func (b *Builder) labelsThatMatter() []string {
	if b.keys.labels == nil {
		names := map[string]bool{gatewayNameLabel: true, canonicalNameLabel: true, canonicalRevisionLabel: true}
		for _, name := range b.view.SelectingLabels() {
			names[name] = true
		}
		b.keys.labels = sortedKeys(names)
		for _, filter := range b.view.EnvoyFilters {
			for _, patch := range filter.Spec.GetConfigPatches() {
				_, matched := patch.GetMatch().GetProxy().GetMetadata()[nodeNameMetadata]
				b.keys.node = b.keys.node || matched
			}
		}
	}
	return b.keys.labels
}
