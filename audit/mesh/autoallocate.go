package mesh

import (
	"fmt"
	"hash/fnv"
)

const (
	hashSlots = 256 * 254 // addresses that the hash allocates from
	hashPrime = 65011
)

// allocateByHash gives addresses to ServiceEntry services as istiod does
// without the allocation controller: the key's place in a hash table is the
// address (REG-21; Istio pilot/pkg/serviceregistry/serviceentry/auto_allocation.go).
func allocateByHash(services []*Service) {
	slots := make([]*Service, hashSlots)
	filled := 0
	for _, s := range services {
		if s.Address != unspecified || wildcard(s.Host) || s.Resolution == Passthrough || filled == hashSlots-1 {
			continue
		}
		slots[freeSlot(slots, s.Namespace+"/"+s.Host)] = s
		filled++
	}
	given := map[HostNamespace][2]int{}
	place := 0
	for _, s := range slots {
		place++
		if s == nil {
			continue
		}
		if place%255 == 0 {
			place++
		}
		key := HostNamespace{s.Host, s.Namespace}
		octets, reused := given[key]
		if !reused {
			octets = [2]int{place / 255, place % 255}
			given[key] = octets
		}
		s.AutoV4, s.AutoV6 = hashedAddresses(octets[0], octets[1])
	}
}

func freeSlot(slots []*Service, key string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	sum := h.Sum32()
	slot := sum % hashSlots
	step := hashPrime - sum%hashPrime
	for i := uint32(1); slots[slot] != nil && i < hashSlots; i++ {
		slot = (sum + i*step) % (hashSlots - 1)
	}
	return slot
}

func hashedAddresses(third, fourth int) (v4, v6 string) {
	v4 = fmt.Sprintf("240.240.%d.%d", third, fourth)
	if third == 0 {
		return v4, fmt.Sprintf("2001:2::f0f0:%x", fourth)
	}
	return v4, fmt.Sprintf("2001:2::f0f0:%x%x", third, fourth)
}
