package mesh

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// registry fills Services and their indexes.
func (v *View) registry(snap *snapshot.Snapshot) {
	v.Services = append(v.kubernetesServices(snap), v.serviceEntryServices(snap)...)
	slices.SortStableFunc(v.Services, func(a, b *Service) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
	})
	v.byHost = make(map[string][]*Service, len(v.Services))
	for i, s := range v.Services {
		s.Index = i
		v.byHost[s.Host] = append(v.byHost[s.Host], s)
	}
	v.resolveAliases()
}

// Service returns the service that istiod's (host, namespace) index holds
// (REG-22: a Kubernetes Service first, else the oldest); nil if none.
func (v *View) Service(host, namespace string) *Service {
	var found *Service
	for _, s := range v.byHost[host] {
		if s.Namespace == namespace && (found == nil || s.Kubernetes && !found.Kubernetes) {
			found = s
		}
	}
	return found
}

// ServicesByHost returns all services of a host name, in the order of Services.
func (v *View) ServicesByHost(host string) []*Service { return v.byHost[host] }

// resolveAliases gives each concrete service the ExternalName services that
// lead to it, over any number of hops; a loop leads nowhere (REG-25; Istio
// pilot/pkg/model/push_context.go resolveServiceAliases).
func (v *View) resolveAliases() {
	next := map[string]string{}
	for _, s := range v.Services {
		if s.Resolution == Alias {
			next[s.Host] = s.ExternalName
		}
	}
	aliases := map[string][]AliasName{}
	for _, s := range v.Services {
		if s.Resolution != Alias {
			continue
		}
		if concrete, ok := followAlias(next, s); ok {
			aliases[concrete] = append(aliases[concrete], AliasName{Host: s.Host, Namespace: s.Namespace, Ref: s.Ref})
		}
	}
	for _, list := range aliases {
		slices.SortFunc(list, func(a, b AliasName) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Host, b.Host))
		})
	}
	for _, s := range v.Services {
		s.Aliases = aliases[s.Host]
	}
}

func followAlias(next map[string]string, s *Service) (concrete string, ok bool) {
	concrete = s.ExternalName
	seen := map[string]bool{s.Host: true, concrete: true}
	for {
		hop, isAlias := next[concrete]
		if !isAlias {
			return concrete, true
		}
		if seen[hop] {
			return "", false
		}
		seen[hop] = true
		concrete = hop
	}
}

// clusterAddresses are the addresses that istiod keeps for the service's own
// cluster: nil for a ServiceEntry.
func (s *Service) clusterAddresses() []string {
	switch {
	case !s.Kubernetes:
		return nil
	case len(s.VIPs) == 0:
		return []string{unspecified}
	}
	return s.VIPs
}

// AddressFor is the one address that a proxy uses for the service (LDS-6,
// REG-21; Istio pilot/pkg/model/service.go GetAddressForProxy).
func (s *Service) AddressFor(p *Proxy) string {
	if p.Cluster == p.View.Cluster {
		if addresses := ofFamilies(s.clusterAddresses(), p); len(addresses) > 0 {
			return addresses[0]
		}
	}
	if p.UsesAutoAllocated() && s.Address == unspecified {
		if p.IPv4 && s.AutoV4 != "" {
			return s.AutoV4
		}
		if p.IPv6 && s.AutoV6 != "" {
			return s.AutoV6
		}
	}
	return s.Address
}

// AddressesFor are all addresses that a proxy uses for the service, the first
// being the listener's (Istio GetAllAddressesForProxy). Nil if none is of the
// proxy's address families.
func (s *Service) AddressesFor(p *Proxy) []string {
	var addresses []string
	if p.Cluster == p.View.Cluster {
		addresses = s.clusterAddresses()
	}
	if len(addresses) == 0 && p.UsesAutoAllocated() {
		for _, address := range []string{s.AutoV4, s.AutoV6} {
			if address != "" {
				addresses = append(addresses, address)
			}
		}
	}
	flags := &p.View.Flags
	if !flags.DualStack && !flags.Ambient || !(p.IPv4 && p.IPv6) {
		addresses = ofFamilies(addresses, p)
	}
	switch {
	case len(addresses) > 0:
		return addresses
	case s.Address == "":
		return nil
	case s.Kubernetes:
		return ofFamilies([]string{s.Address}, p)
	}
	return []string{s.Address}
}

// UsesAutoAllocated reports a proxy that takes auto-allocated addresses (REG-21).
func (p *Proxy) UsesAutoAllocated() bool {
	return (p.Metadata.DNSAutoAllocate || p.View.Flags.IPAutoallocate) && p.Metadata.DNSCapture
}

// AnswersDNS reports a proxy whose agent answers DNS, and so asks istiod for
// the table of names (SIZE-26).
func (p *Proxy) AnswersDNS() bool {
	return p.Metadata.DNSCapture || isTrue(p.Metadata.Raw["ENABLE_DNS_SERVER"])
}

// ofFamilies keeps the addresses of the proxy's one address family; for a proxy
// of both, those of the first address's (Istio pilot/pkg/util/network
// FilterAddressesByIPFamily).
func ofFamilies(addresses []string, p *Proxy) []string {
	var v4, v6 []string
	v6First := false
	for i, address := range addresses {
		ip, err := netip.ParseAddr(address)
		if err != nil {
			prefix, prefixErr := netip.ParsePrefix(address)
			if prefixErr != nil {
				continue
			}
			ip = prefix.Addr()
		}
		if i == 0 && ip.Is6() {
			v6First = true
		}
		switch {
		case ip.Is4() && p.IPv4:
			v4 = append(v4, address)
		case ip.Is6() && p.IPv6:
			v6 = append(v6, address)
		}
	}
	if len(v4) == 0 || v6First && len(v6) > 0 {
		return v6
	}
	return v4
}
