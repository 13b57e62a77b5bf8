package complete

import (
	"cmp"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// skipMirror is the label that keeps Kubernetes from mirroring an Endpoints object.
const skipMirror = "endpointslice.kubernetes.io/skip-mirror"

// mirrorEndpoints makes the EndpointSlices of each Endpoints object whose
// Service has none, as Kubernetes' mirroring controller does: istiod reads
// slices only.
func (c *completion) mirrorEndpoints() {
	services := map[target]bool{}
	for _, s := range c.services {
		services[target{"Service", s.obj.Namespace, s.obj.Name}] = true
	}
	for _, e := range c.endpoints {
		key := target{"Service", e.obj.Namespace, e.obj.Name}
		if c.sliced[key] || !services[key] || e.obj.Labels[skipMirror] == "true" {
			continue
		}
		c.sliced[key] = true
		for i, slice := range mirror(e.obj) {
			slice.Name = fmt.Sprintf("%s-%05d", e.obj.Name, i)
			c.add(slice, e.source)
			c.mirrored++
		}
	}
}

// mirror makes one slice for each subset and address family.
func mirror(o *corev1.Endpoints) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, subset := range o.Subsets {
		var ports []discoveryv1.EndpointPort
		for _, p := range subset.Ports {
			ports = append(ports, discoveryv1.EndpointPort{
				Name: new(p.Name), Protocol: new(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: new(p.Port), AppProtocol: p.AppProtocol,
			})
		}
		for _, family := range []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6} {
			rows := append(mirrorRows(subset.Addresses, family, true), mirrorRows(subset.NotReadyAddresses, family, false)...)
			if len(rows) == 0 {
				continue
			}
			out = append(out, &discoveryv1.EndpointSlice{
				TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
				ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Labels: map[string]string{
					discoveryv1.LabelServiceName: o.Name,
					discoveryv1.LabelManagedBy:   "endpointslicemirroring-controller.k8s.io",
				}},
				AddressType: family, Ports: ports, Endpoints: rows,
			})
		}
	}
	return out
}

func mirrorRows(addresses []corev1.EndpointAddress, family discoveryv1.AddressType, ready bool) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for i := range addresses {
		a := &addresses[i]
		ip, err := netip.ParseAddr(a.IP)
		if err != nil || ip.Is6() != (family == discoveryv1.AddressTypeIPv6) {
			continue
		}
		row := discoveryv1.Endpoint{
			Addresses: []string{a.IP}, Conditions: discoveryv1.EndpointConditions{Ready: new(ready)},
			TargetRef: a.TargetRef, NodeName: a.NodeName,
		}
		if a.Hostname != "" {
			row.Hostname = new(a.Hostname)
		}
		out = append(out, row)
	}
	return out
}
