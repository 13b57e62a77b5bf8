package xds

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

const unspecified = "0.0.0.0"

// nameInfo is what the agent's DNS server is told of a host.
type nameInfo struct {
	addresses            []string
	registry             string // "Kubernetes" or "External"
	shortName, namespace string
}

// NameTable is the table of names for the agent's DNS server; nil if the proxy
// does not ask for it (SIZE-26; Istio pkg/dns/server/name_table.go).
func (b *Builder) NameTable(s *scope.Scope, p *mesh.Proxy) *result.Resource {
	if !p.AnswersDNS() {
		return nil
	}
	table := map[string]*nameInfo{}
	for _, l := range s.Named {
		for _, svc := range l.Services {
			if svc.Service != nil && !svc.Pulled {
				b.addNames(table, svc, p)
			}
		}
	}
	n := len(table)
	part := result.Part{Hosts: &n}
	if !b.brief {
		part.Names = sortedKeys(table)
	}
	reason := b.rec.Included(result.Reason{Rule: "SIZE-26", Text: "the proxy's agent answers DNS"})
	return &result.Resource{
		Bytes: tableSize(table), Parts: []result.Part{part}, Because: []result.ReasonID{reason}, Digest: b.digests.names(table),
	}
}

func (b *Builder) addNames(table map[string]*nameInfo, svc *scope.Service, p *mesh.Proxy) {
	var addresses []string
	headless := false
	for _, address := range svc.AddressesFor(p) {
		if headless = address == unspecified; headless {
			break
		}
		if validIP(address) {
			addresses = append(addresses, address)
		}
	}
	if headless && svc.Resolution == mesh.Passthrough && len(svc.Ports) > 0 {
		addresses = append(addresses, b.addPods(table, svc, p)...)
	}
	if len(addresses) == 0 {
		return
	}
	info := &nameInfo{addresses: addresses, registry: registryOf(svc.Service)}
	if svc.Kubernetes && !strings.HasSuffix(svc.Host, ".clusterset.local") {
		info.shortName, info.namespace = svc.Name, svc.Namespace
	}
	switch known := table[svc.Host]; {
	case known == nil, known.registry != "Kubernetes" && svc.Kubernetes:
		table[svc.Host] = info
	case known.registry != "Kubernetes":
		known.addresses = append(slices.Clone(known.addresses), addresses...)
	}
}

func registryOf(svc *mesh.Service) string {
	if svc.Kubernetes {
		return "Kubernetes"
	}
	return "External"
}

// addPods adds the names of a headless service's pods, and returns the
// addresses that the service's own name has.
func (b *Builder) addPods(table map[string]*nameInfo, svc *scope.Service, p *mesh.Proxy) []string {
	var own []string
	local, remote := map[string]*nameInfo{}, map[string]*nameInfo{}
	for _, row := range b.view.EndpointsByPort(svc.Service, svc.Ports[0].Number) {
		if !validIP(row.Address) || !svc.PublishNotReady && row.Health != mesh.Healthy {
			continue
		}
		sameNetwork, sameCluster := sameOrEmpty(p.Network, row.Network), sameOrEmpty(p.Cluster, row.Cluster)
		addresses := append([]string{row.Address}, row.Extra...)
		if row.Subdomain != "" && sameNetwork {
			_, domain, ok := strings.Cut(svc.Host, ".")
			if !ok {
				continue
			}
			pods := local
			if !sameCluster {
				pods = remote
			}
			short := row.Hostname + "." + row.Subdomain
			info := pods[short+"."+domain]
			if info == nil {
				info = &nameInfo{registry: registryOf(svc.Service), shortName: short, namespace: svc.Namespace}
				pods[short+"."+domain] = info
			}
			info.addresses = append(info.addresses, addresses...)
		}
		if sameNetwork && (sameCluster || b.view.Flags.MulticlusterHeadless) {
			own = append(own, addresses...)
		}
	}
	for name, info := range remote {
		if local[name] == nil {
			table[name] = info
		}
	}
	for name, info := range local {
		table[name] = info
	}
	return own
}

// tableSize is the size of the table as message istio.networking.nds.v1.NameTable.
func tableSize(table map[string]*nameInfo) int64 {
	field := func(s string) int {
		if s == "" {
			return 0
		}
		return 1 + protowire.SizeBytes(len(s))
	}
	total := 0
	for name, info := range table {
		value := field(info.registry) + field(info.shortName) + field(info.namespace)
		for _, address := range info.addresses {
			value += 1 + protowire.SizeBytes(len(address))
		}
		total += 1 + protowire.SizeBytes(1+protowire.SizeBytes(len(name))+1+protowire.SizeBytes(value))
	}
	return int64(total)
}
