package snapshot

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

func (b *Builder) addSlice(o *discoveryv1.EndpointSlice, src result.Source) {
	s := EndpointSlice{
		Meta:        b.metaOf("EndpointSlice", &o.ObjectMeta, src),
		Service:     b.intern.string(o.Labels[discoveryv1.LabelServiceName]),
		AddressType: b.intern.string(string(o.AddressType)),
		Assumed:     o.Annotations[AssumedAnnotation] == "true",
	}
	for _, p := range o.Ports {
		port := SlicePort{Protocol: string(corev1.ProtocolTCP)}
		if p.Name != nil {
			port.Name = b.intern.string(*p.Name)
		}
		if p.Protocol != nil && *p.Protocol != "" {
			port.Protocol = b.intern.string(string(*p.Protocol))
		}
		if p.AppProtocol != nil {
			port.AppProtocol = b.intern.string(*p.AppProtocol)
		}
		if p.Port != nil {
			port.Port = int(*p.Port)
		}
		s.Ports = append(s.Ports, port)
	}
	for i := range o.Endpoints {
		s.Endpoints = append(s.Endpoints, b.sliceEndpoint(&o.Endpoints[i]))
	}
	b.snap.Slices = append(b.snap.Slices, s)
}

func (b *Builder) sliceEndpoint(e *discoveryv1.Endpoint) SliceEndpoint {
	out := SliceEndpoint{
		Ready:       flag(e.Conditions.Ready),
		Serving:     flag(e.Conditions.Serving),
		Terminating: flag(e.Conditions.Terminating),
	}
	for _, a := range e.Addresses {
		out.Addresses = append(out.Addresses, strings.Clone(a))
	}
	if e.Hostname != nil {
		out.Hostname = strings.Clone(*e.Hostname)
	}
	if e.NodeName != nil {
		out.Node = b.intern.string(*e.NodeName)
	}
	if e.Zone != nil {
		out.Zone = b.intern.string(*e.Zone)
	}
	b.target(&out, e.TargetRef)
	return out
}

func (b *Builder) target(out *SliceEndpoint, ref *corev1.ObjectReference) {
	if ref == nil {
		return
	}
	out.TargetKind = b.intern.string(ref.Kind)
	out.TargetNamespace = b.intern.string(ref.Namespace)
	out.TargetName = strings.Clone(ref.Name)
}

var yes, no = true, false

// flag shares the two possible values.
func flag(v *bool) *bool {
	switch {
	case v == nil:
		return nil
	case *v:
		return &yes
	default:
		return &no
	}
}

// addBalancer keeps where a Service of type LoadBalancer is reached from outside.
func (b *Builder) addBalancer(o *corev1.Service) {
	if o.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	for i := range o.Status.LoadBalancer.Ingress {
		ingress := &o.Status.LoadBalancer.Ingress[i]
		address := cmp.Or(ingress.IP, ingress.Hostname)
		if address == "" {
			continue
		}
		if b.snap.Balancers == nil {
			b.snap.Balancers = map[string][]string{}
		}
		key := o.Namespace + "/" + o.Name
		b.snap.Balancers[key] = append(b.snap.Balancers[key], strings.Clone(address))
	}
}

// legacyEndpoints is an Endpoints object in the form of slices, kept until it
// is known whether its service has slices of its own.
type legacyEndpoints struct{ slices []EndpointSlice }

// skipMirror is the label that keeps Kubernetes from mirroring an Endpoints object.
const skipMirror = "endpointslice.kubernetes.io/skip-mirror"

// addEndpoints does what Kubernetes' mirroring controller does for an Endpoints
// object: one slice for each subset and address family.
func (b *Builder) addEndpoints(o *corev1.Endpoints, src result.Source) {
	if o.Labels[skipMirror] == "true" {
		return
	}
	var legacy legacyEndpoints
	meta := b.metaOf("Endpoints", &o.ObjectMeta, src)
	for _, subset := range o.Subsets {
		families := map[string][]SliceEndpoint{}
		b.mirror(families, subset.Addresses, &yes)
		b.mirror(families, subset.NotReadyAddresses, &no)
		var ports []SlicePort
		for _, p := range subset.Ports {
			port := SlicePort{Name: p.Name, Protocol: cmp.Or(string(p.Protocol), string(corev1.ProtocolTCP)), Port: int(p.Port)}
			if p.AppProtocol != nil {
				port.AppProtocol = *p.AppProtocol
			}
			ports = append(ports, port)
		}
		for _, family := range []string{string(discoveryv1.AddressTypeIPv4), string(discoveryv1.AddressTypeIPv6)} {
			if len(families[family]) > 0 {
				legacy.slices = append(legacy.slices, EndpointSlice{
					Meta: meta, Service: o.Name, AddressType: family, Ports: ports, Endpoints: families[family],
				})
			}
		}
	}
	if len(legacy.slices) > 0 {
		b.endpoints = append(b.endpoints, legacy)
	}
}

func (b *Builder) mirror(families map[string][]SliceEndpoint, addresses []corev1.EndpointAddress, ready *bool) {
	for i := range addresses {
		a := &addresses[i]
		ip, err := netip.ParseAddr(a.IP)
		if err != nil {
			continue
		}
		family := string(discoveryv1.AddressTypeIPv4)
		if ip.Is6() {
			family = string(discoveryv1.AddressTypeIPv6)
		}
		out := SliceEndpoint{Addresses: []string{a.IP}, Ready: ready, Hostname: a.Hostname}
		if a.NodeName != nil {
			out.Node = *a.NodeName
		}
		b.target(&out, a.TargetRef)
		families[family] = append(families[family], out)
	}
}

// mirrored returns the slices made of Endpoints whose service has none.
func mirrored(legacy []legacyEndpoints, own []EndpointSlice) []EndpointSlice {
	type key struct{ namespace, service string }
	has := map[key]bool{}
	for i := range own {
		has[key{own[i].Namespace, own[i].Service}] = true
	}
	last := map[key]int{}
	for i, l := range legacy {
		last[key{l.slices[0].Namespace, l.slices[0].Service}] = i
	}
	var out []EndpointSlice
	for i, l := range legacy {
		k := key{l.slices[0].Namespace, l.slices[0].Service}
		if last[k] == i && !has[k] {
			out = append(out, l.slices...)
		}
	}
	return slices.Clip(out)
}
