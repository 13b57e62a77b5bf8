package xds

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

const (
	gatewayPortLabel   = "networking.istio.io/gatewayPort"
	defaultGatewayPort = 15443
	// nodeSelectorAnnotation makes a NodePort Service be reached at its nodes (REG-10).
	nodeSelectorAnnotation = "traffic.istio.io/nodeSelector"
)

// networkGateway is one address that leads into a network.
type networkGateway struct {
	network, cluster, address string
	port                      uint32
}

// networkGateways are the east-west gateways of a view (EDS-9; Istio
// pilot/pkg/model/network.go). Host names, which istiod resolves itself, serve
// clusters that resolve by DNS only.
type networkGateways struct {
	resolved, unresolved gatewaySet
}

// gatewaySet is a set of gateways, by network and by network and cluster.
type gatewaySet struct {
	byNetwork map[string][]networkGateway
	byCluster map[[2]string][]networkGateway
	scale     uint32 // factor of endpoint weights
}

func (g gatewaySet) enabled() bool { return len(g.byNetwork) > 0 }

// into returns the gateways of a network, those of the cluster if it has any.
func (g gatewaySet) into(network, cluster string) []networkGateway {
	if own := g.byCluster[[2]string{network, cluster}]; len(own) > 0 {
		return own
	}
	return g.byNetwork[network]
}

func (b *Builder) networkGateways() *networkGateways {
	if b.memo.gateways == nil {
		var all, addresses, unresolved []networkGateway
		// istiod takes the gateways of its mesh networks, then those of each
		// Service as it comes, and renews the set for clusters that resolve by
		// DNS only when the set of addresses has not just changed.
		take := func(more []networkGateway) {
			known := len(addresses)
			for _, g := range more {
				if _, err := netip.ParseAddr(g.address); err == nil {
					addresses = append(addresses, g)
				} else {
					b.gaps = append(b.gaps, result.Gap{Kind: result.Unmodelled, All: true,
						Text: "network gateway " + g.address + " of network " + g.network + " is a host name, which istiod resolves: load assignments leave it out"})
				}
			}
			all = append(all, more...)
			if len(more) > 0 && len(addresses) == known {
				unresolved = slices.Clone(all)
			}
		}
		take(b.meshNetworkGateways())
		for _, svc := range b.view.Services {
			take(b.serviceGateways(svc))
		}
		b.memo.gateways = &networkGateways{resolved: newGatewaySet(addresses), unresolved: newGatewaySet(unresolved)}
	}
	return b.memo.gateways
}

// meshNetworkGateways are the addresses written in the mesh networks.
func (b *Builder) meshNetworkGateways() []networkGateway {
	var out []networkGateway
	networks := b.view.Networks.GetNetworks()
	for _, name := range sortedKeys(networks) {
		for _, g := range networks[name].GetGateways() {
			if g.GetAddress() != "" {
				out = append(out, networkGateway{network: name, address: g.GetAddress(), port: g.GetPort()})
			}
		}
	}
	return out
}

// serviceGateways are the external addresses of a Service that is labelled as
// a network's gateway or named by the mesh networks.
func (b *Builder) serviceGateways(svc *mesh.Service) []networkGateway {
	if svc.Spec == nil {
		return nil
	}
	var out []networkGateway
	if network := svc.Labels[networkLabel]; network != "" {
		port := defaultGatewayPort
		if n, err := strconv.Atoi(svc.Labels[gatewayPortLabel]); err == nil {
			port = n
		}
		if svc.Port(port) != nil || !b.view.Behaviours.NetworkGatewayPorts {
			out = append(out, networkGateway{network: network, cluster: b.view.Cluster, port: uint32(port)})
		}
	} else {
		networks := b.view.Networks.GetNetworks()
		for _, name := range sortedKeys(networks) {
			for _, g := range networks[name].GetGateways() {
				if g.GetRegistryServiceName() == svc.Host {
					out = append(out, networkGateway{network: name, cluster: b.view.Cluster, port: g.GetPort()})
				}
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	var addressed []networkGateway
	for _, address := range slices.Concat(svc.Balancers, svc.Spec.ExternalIPs) {
		for _, g := range out {
			g.address = address
			addressed = append(addressed, g)
		}
	}
	if _, selects := svc.Annotations[nodeSelectorAnnotation]; selects && svc.Spec.Type == corev1.ServiceTypeNodePort {
		b.gaps = append(b.gaps, result.Gap{Kind: result.Unmodelled, Object: svc.Ref, All: true,
			Text: "gateway of a network: the addresses of its nodes are not read, so load assignments leave them out"})
	}
	return addressed
}

func newGatewaySet(all []networkGateway) gatewaySet {
	g := gatewaySet{byNetwork: map[string][]networkGateway{}, byCluster: map[[2]string][]networkGateway{}, scale: 1}
	all = slices.Clone(all)
	slices.SortFunc(all, compareGateways)
	for _, gw := range slices.Compact(all) {
		g.byNetwork[gw.network] = append(g.byNetwork[gw.network], gw)
		key := [2]string{gw.network, gw.cluster}
		g.byCluster[key] = append(g.byCluster[key], gw)
	}
	for list := range maps.Values(g.byNetwork) {
		g.scale = leastCommonMultiple(g.scale, uint32(len(list)))
	}
	for list := range maps.Values(g.byCluster) {
		g.scale = leastCommonMultiple(g.scale, uint32(len(list)))
	}
	return g
}

func compareGateways(a, b networkGateway) int {
	return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.port, b.port), cmp.Compare(a.network, b.network), cmp.Compare(a.cluster, b.cluster))
}

func leastCommonMultiple(a, b uint32) uint32 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
