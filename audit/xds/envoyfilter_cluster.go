package xds

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// patch applies the CLUSTER patches of the builder's context; nil: removed
// (CDS-16; Istio pilot/pkg/networking/core/envoyfilter/cluster_patch.go).
// hosts are the services of an inbound cluster, whose name does not tell them.
func (cb *clusterBuilder) patch(c *clusterv3.Cluster, hosts []string) *clusterv3.Cluster {
	if c == nil {
		return nil
	}
	owned := false
	for _, p := range cb.patches.of(networking.EnvoyFilter_CLUSTER) {
		if !p.in(cb.context) || !clusterMatches(c, p.Match.GetCluster(), hosts) {
			continue
		}
		switch p.Operation {
		case networking.EnvoyFilter_Patch_REMOVE:
			cb.rec.Excluded(c.GetName(), result.Reason{Rule: "CDS-16", Object: p.Filter.Ref(), Field: p.field(), Text: "an EnvoyFilter removes the cluster"})
			return nil
		case networking.EnvoyFilter_Patch_MERGE, networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST:
			value := cb.patchedCluster(p)
			if value == nil {
				continue
			}
			if !owned {
				c, owned = proto.Clone(c).(*clusterv3.Cluster), true
			}
			if !mergeTransportSocket(c, value) {
				cb.mergePatch(c, p)
			}
		}
	}
	return c
}

// clusterMatches tests the cluster match of a patch; without one all clusters match.
func clusterMatches(c *clusterv3.Cluster, m *networking.EnvoyFilter_ClusterMatch, hosts []string) bool {
	switch {
	case m == nil:
		return true
	case m.GetName() != "":
		return m.GetName() == c.GetName()
	}
	name := parseClusterName(c.GetName())
	if name.Direction != "inbound" || len(hosts) == 0 {
		hosts = []string{name.Host}
	}
	return (m.GetSubset() == "" || m.GetSubset() == name.Subset) &&
		(m.GetService() == "" || slices.Contains(hosts, m.GetService())) &&
		(m.GetPortNumber() == 0 || int(m.GetPortNumber()) == name.Port)
}

// inserted are the clusters that ADD patches make in a context. A patch for
// any context adds to outbound and gateway clusters only.
func (cb *clusterBuilder) inserted(context networking.EnvoyFilter_PatchContext) []*result.Resource {
	var out []*result.Resource
	cb.eachInserted(context, func(p *envoyPatch, c *clusterv3.Cluster) {
		r := cb.ownResource(c, result.Reason{Rule: "CDS-16", Object: p.Filter.Ref(), Field: p.field(), Text: "an EnvoyFilter adds the cluster"})
		r.Parts[0].By = p.Filter.Ref()
		out = append(out, r)
	})
	return out
}

func (cb *clusterBuilder) insertedNames(context networking.EnvoyFilter_PatchContext) []string {
	var out []string
	cb.eachInserted(context, func(_ *envoyPatch, c *clusterv3.Cluster) { out = append(out, c.GetName()) })
	return out
}

func (cb *clusterBuilder) eachInserted(context networking.EnvoyFilter_PatchContext, do func(*envoyPatch, *clusterv3.Cluster)) {
	for _, p := range cb.patches.of(networking.EnvoyFilter_CLUSTER) {
		if p.Operation != networking.EnvoyFilter_Patch_ADD || !p.in(context) {
			continue
		}
		if p.Match.GetContext() == networking.EnvoyFilter_ANY && context == networking.EnvoyFilter_SIDECAR_INBOUND {
			continue
		}
		if c := cb.patchedCluster(p); c != nil {
			do(p, c)
		}
	}
}

// patchedCluster is the cluster in a patch's value; nil if there is none.
func (cb *clusterBuilder) patchedCluster(p *envoyPatch) *clusterv3.Cluster {
	c, _ := cb.patchValue(p).(*clusterv3.Cluster)
	return c
}
