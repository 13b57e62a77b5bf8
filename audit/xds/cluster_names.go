package xds

import (
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// Names of clusters that belong to no service (CDS-1).
const (
	blackHoleCluster          = "BlackHoleCluster"
	passthroughCluster        = "PassthroughCluster"
	inboundPassthroughCluster = "InboundPassthroughCluster"
	allowAnyDynamicDNSCluster = "AllowAnyDynamicDNSCluster"
	externalSDSCluster        = "sds-external"
)

// outboundName is the name of an outbound cluster; subset may be empty.
func outboundName(port int, subset, host string) string {
	return "outbound|" + strconv.Itoa(port) + "|" + subset + "|" + host
}

// sniName is the name of an SNI-DNAT cluster, and the SNI of Istio mTLS.
func sniName(port int, subset, host string) string {
	return "outbound_." + strconv.Itoa(port) + "_." + subset + "_." + host
}

// inboundName is the name of an inbound cluster.
func inboundName(port int) string { return "inbound|" + strconv.Itoa(port) + "||" }

// clusterNameParts are what a cluster's name tells (Istio
// pilot/pkg/model/service.go ParseSubsetKey). A name of another form gives
// what could be read.
type clusterNameParts struct {
	Direction, Subset, Host string
	Port                    int
}

func parseClusterName(name string) clusterNameParts {
	sep := "|"
	if strings.HasPrefix(name, "outbound_.") || strings.HasPrefix(name, "inbound_.") {
		sep = "_."
	}
	var out clusterNameParts
	direction, rest, ok := strings.Cut(name, sep)
	if !ok {
		return out
	}
	out.Direction = direction
	port, rest, ok := strings.Cut(rest, sep)
	if !ok {
		return out
	}
	out.Port, _ = strconv.Atoi(port)
	subset, host, ok := strings.Cut(rest, sep)
	if !ok {
		return out
	}
	out.Subset = subset
	if !strings.Contains(host, sep) {
		out.Host = host
	}
	return out
}

// clusterStatName renders meshConfig.outboundClusterStatName or
// inboundClusterStatName for a cluster (Istio pilot/pkg/networking/telemetry).
func clusterStatName(pattern string, svc *mesh.Service, host, subset string, port mesh.Port, targetPort int) string {
	return statName(strings.ReplaceAll(pattern, "%TARGET_PORT%", strconv.Itoa(targetPort)), svc, host, subset, port)
}

// statName renders all placeholders of such a pattern but %TARGET_PORT%.
func statName(pattern string, svc *mesh.Service, host, subset string, port mesh.Port) string {
	short, name := host, host
	if svc.Kubernetes {
		short, name = svc.Name+"."+svc.Namespace, svc.Name
	}
	return strings.NewReplacer(
		"%SERVICE%", short, "%SERVICE_NAME%", name, "%SERVICE_FQDN%", host, "%SUBSET_NAME%", subset,
		"%SERVICE_PORT%", strconv.Itoa(port.Number), "%SERVICE_PORT_NAME%", port.Name,
	).Replace(pattern)
}
