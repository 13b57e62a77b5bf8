package xds

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// ListenerParts takes a listener apart that was not built here, with the names
// of the route and extension configurations that it refers to.
func ListenerParts(l *listenerv3.Listener) (parts []result.Part, routes, extensions []string) {
	parts = digests(false).listenerPartsOf(l, nil)
	return parts, rdsNames(parts), discoveredConfigs(l)
}

// RouteParts takes a route configuration apart that was not built here.
func RouteParts(rc *routev3.RouteConfiguration) []result.Part { return digests(false).routeParts(rc) }

// ClusterParts takes a cluster apart that was not built here. eds is the name
// under which it asks for endpoints; empty: it asks for none.
func ClusterParts(c *clusterv3.Cluster) (parts []result.Part, eds string) {
	r, eds := clusterResource(c, "", nil)
	if eds == "" && c.GetClusterType() == nil && c.GetType() == clusterv3.Cluster_EDS {
		eds = c.GetName()
	}
	return r.Parts, eds
}

// LoadAssignmentParts takes a load assignment apart that was not built here.
func LoadAssignmentParts(a *endpointv3.ClusterLoadAssignment) []result.Part {
	n := endpointCount(a)
	return []result.Part{{Endpoints: &n}}
}

// NameTableParts takes a serialised istio.networking.nds.v1.NameTable apart: its
// field 1 is a map by host name.
func NameTableParts(message []byte) ([]result.Part, error) {
	hosts := map[string]bool{}
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, fmt.Errorf("name table: %w", protowire.ParseError(n))
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(number, kind, message)
		if size < 0 {
			return nil, fmt.Errorf("name table: %w", protowire.ParseError(size))
		}
		if number == 1 && kind == protowire.BytesType {
			entry, _ := protowire.ConsumeBytes(message)
			hosts[mapKey(entry)] = true
		}
		message = message[size:]
	}
	n := len(hosts)
	return []result.Part{{Hosts: &n}}, nil
}

// mapKey is the string key of a serialised map entry.
func mapKey(entry []byte) string {
	for len(entry) > 0 {
		number, kind, n := protowire.ConsumeTag(entry)
		if n < 0 {
			return ""
		}
		entry = entry[n:]
		if number == 1 && kind == protowire.BytesType {
			key, _ := protowire.ConsumeString(entry)
			return key
		}
		if n = protowire.ConsumeFieldValue(number, kind, entry); n < 0 {
			return ""
		}
		entry = entry[n:]
	}
	return ""
}
