package complete

import (
	"iter"
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The networks that made-up addresses come from.
const (
	serviceNetwork = "10.96.0.0/12"
	podNetwork     = "10.244.0.0/14"
	entryNetwork   = "240.240.0.0/16"
	entryNetwork6  = "2001:2::/48"
)

// allocator hands out the addresses of a network in order, past those in use.
type allocator struct {
	prefix netip.Prefix
	next   netip.Addr
	used   map[netip.Addr]bool
	around iter.Seq[string] // more that are in use, looked at when the first is taken
}

func newAllocator(network string) *allocator {
	prefix := netip.MustParsePrefix(network)
	return &allocator{prefix: prefix, next: prefix.Addr().Next(), used: map[netip.Addr]bool{}}
}

// again returns the address that was made up before, or the next free one.
func (a *allocator) again(before string) string {
	if before != "" {
		a.use(before)
		return before
	}
	return a.take()
}

func (a *allocator) use(address string) {
	if ip, err := netip.ParseAddr(address); err == nil {
		a.used[ip] = true
	}
}

// take returns the next free address; empty when the network is used up.
func (a *allocator) take() string {
	if a.around != nil {
		for ip := range a.around {
			a.use(ip)
		}
		a.around = nil
	}
	for a.prefix.Contains(a.next) {
		ip := a.next
		a.next = ip.Next()
		if !a.used[ip] {
			return ip.String()
		}
	}
	return ""
}

// allocator hands out what neither the input nor the mesh around it uses.
func (c *completion) allocator(network string) *allocator {
	a := newAllocator(network)
	a.around = c.around.Addresses
	return a
}

// clusterIPs applies the API server's defaults to Services and gives each that
// would have one a cluster IP.
func (c *completion) clusterIPs() {
	ips := c.allocator(serviceNetwork)
	for _, ip := range c.assigned.services {
		ips.use(ip)
	}
	for _, s := range c.services {
		ips.use(s.obj.Spec.ClusterIP)
		for _, ip := range s.obj.Spec.ClusterIPs {
			ips.use(ip)
		}
	}
	for _, s := range c.services {
		defaultService(&s.obj.Spec)
		spec := &s.obj.Spec
		if spec.Type == corev1.ServiceTypeExternalName || spec.ClusterIP != "" {
			continue
		}
		if len(spec.ClusterIPs) > 0 {
			spec.ClusterIP = spec.ClusterIPs[0]
			continue
		}
		key := target{"Service", s.obj.Namespace, s.obj.Name}
		ip := ips.again(c.assigned.services[key])
		if ip == "" {
			continue
		}
		c.assigned.services[key] = ip
		spec.ClusterIP, spec.ClusterIPs = ip, []string{ip}
		c.madeIPs++
	}
}

func defaultService(spec *corev1.ServiceSpec) {
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// entryAddresses does what istiod's allocator does: an address for each host of
// a ServiceEntry that names none (REG-21; Istio pilot/pkg/controllers/ipallocate).
// The real controller's choice depends on history; here they go in order of
// namespace and name, hosts as written.
func (c *completion) entryAddresses() {
	if !c.mesh.autoAllocate {
		return
	}
	v4, v6 := c.allocator(entryNetwork), c.allocator(entryNetwork6)
	for _, ips := range c.assigned.entries {
		v4.use(ips[0])
		v6.use(ips[1])
	}
	for _, e := range c.entries {
		for _, a := range e.obj.Status.Addresses {
			v4.use(a.GetValue())
			v6.use(a.GetValue())
		}
	}
	for _, e := range c.entries {
		spec := &e.obj.Spec
		if len(spec.Addresses) > 0 || spec.Resolution == networking.ServiceEntry_NONE ||
			strings.EqualFold(e.obj.Labels["networking.istio.io/enable-autoallocate-ip"], "false") {
			continue
		}
		given := map[string]bool{}
		for _, a := range e.obj.Status.Addresses {
			given[a.GetHost()] = true
		}
		if given[""] {
			continue // not written by the allocator of a version that we know
		}
		for _, host := range spec.Hosts {
			if given[host] || strings.HasPrefix(host, "*") && spec.Resolution != networking.ServiceEntry_DYNAMIC_DNS {
				continue
			}
			given[host] = true
			key := entryHost{target{"ServiceEntry", e.obj.Namespace, e.obj.Name}, host}
			ips := [2]string{v4.again(c.assigned.entries[key][0]), v6.again(c.assigned.entries[key][1])}
			c.assigned.entries[key] = ips
			for _, ip := range ips {
				e.obj.Status.Addresses = append(e.obj.Status.Addresses, &networking.ServiceEntryAddress{Value: ip, Host: host})
				c.madeAddresses++
			}
		}
	}
}
