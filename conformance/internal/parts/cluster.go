package parts

import (
	"strings"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dns "istio.io/istio/pkg/dns/proto"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Cluster gives the one part of a cluster.
func Cluster(c *cluster.Cluster) []report.Part {
	rule := appliedRule(c)
	part := report.Part{Type: clusterType(c), Rule: &rule}
	if strings.Contains(strings.ToUpper(part.Type), "DNS") {
		n := endpoints(c.LoadAssignment)
		part.Endpoints = &n
	}
	return []report.Part{part}
}

// clusterType names the way in which a cluster finds its endpoints.
func clusterType(c *cluster.Cluster) string {
	if custom := c.GetClusterType(); custom != nil {
		return custom.Name
	}
	return c.GetType().String()
}

// appliedRule is the namespace and name of the DestinationRule that Istio
// wrote into the cluster's metadata.
func appliedRule(c *cluster.Cluster) string {
	fields := c.GetMetadata().GetFilterMetadata()["istio"].GetFields()
	path := fields["config"].GetStringValue()
	words := strings.Split(path, "/")
	// .../namespaces/NS/destination-rule/NAME
	if n := len(words); n >= 4 && words[n-2] == "destination-rule" {
		return words[n-3] + "/" + words[n-1]
	}
	return ""
}

// LoadAssignment gives the one part of a load assignment.
func LoadAssignment(a *endpoint.ClusterLoadAssignment) []report.Part {
	n := endpoints(a)
	return []report.Part{{Endpoints: &n}}
}

// endpoints counts all endpoints, whatever their locality or health.
func endpoints(a *endpoint.ClusterLoadAssignment) int {
	n := 0
	for _, l := range a.GetEndpoints() {
		n += len(l.LbEndpoints)
	}
	return n
}

// NameTable gives the one part of a name table.
func NameTable(t *dns.NameTable) []report.Part {
	n := len(t.Table)
	return []report.Part{{Hosts: &n}}
}

// EDSName is the name that a cluster asks its endpoints under, or "" if it
// does not ask for any.
func EDSName(c *cluster.Cluster) string {
	if c.GetClusterType() != nil || c.GetType() != cluster.Cluster_EDS {
		return ""
	}
	if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
		return name
	}
	return c.Name
}
