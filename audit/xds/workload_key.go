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
// replicas of a workload share one computation wherever they run.
func (b *Builder) workloadKey(s *scope.Scope, p *mesh.Proxy) string {
	var k strings.Builder
	k.Grow(512)
	field := func(v string) { // its length first, so that fields cannot run together
		k.WriteString(strconv.Itoa(len(v)))
		k.WriteByte(' ')
		k.WriteString(v)
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
	for _, name := range slices.Sorted(maps.Keys(meta.Raw)) {
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
	return k.String()
}

// workloadKeys are what workloadKey looks at beside a proxy's fields.
type workloadKeys struct {
	labels []string // names, sorted; nil: not collected yet
	node   bool     // an EnvoyFilter matches proxies by the name of their node
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
