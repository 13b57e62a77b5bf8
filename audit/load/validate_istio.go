package load

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingapi "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// gatewaySemanticsAnnotation marks what istiod itself makes from Gateway API
// objects, whose hosts follow other rules.
const gatewaySemanticsAnnotation = "internal.istio.io/route-semantics"

// validateIstio refuses what istiod's validation webhook refuses in every
// version that the model knows, of what decides names: hosts, ports, addresses
// and how they go together (Istio pkg/config/validation).
func validateIstio(obj runtime.Object) *problem {
	switch o := obj.(type) {
	case *networkingv1.ServiceEntry:
		return validateServiceEntry(&o.Spec)
	case *networkingv1.VirtualService:
		if o.Annotations[gatewaySemanticsAnnotation] != "" {
			return nil
		}
		return validateVirtualService(&o.Spec)
	case *networkingv1.DestinationRule:
		return wildcardDomain(o.Spec.GetHost(), "spec.host")
	case *networkingv1.Gateway:
		return validateGateway(&o.Spec)
	case *networkingv1.Sidecar:
		return validateSidecar(&o.Spec)
	}
	return nil
}

func validateServiceEntry(s *networkingapi.ServiceEntry) *problem {
	if len(s.GetHosts()) == 0 {
		return problemf(0, "spec.hosts is empty")
	}
	for i, host := range s.GetHosts() {
		field := fmt.Sprintf("spec.hosts[%d]", i)
		if host == "*" {
			return problemf(0, "%s: a ServiceEntry cannot be for every host", field)
		}
		if p := wildcardDomain(host, field); p != nil {
			return p
		}
	}
	for i, address := range s.GetAddresses() {
		if p := addressOrRange(address, fmt.Sprintf("spec.addresses[%d]", i)); p != nil {
			return p
		}
	}
	if p := validateEntryPorts(s.GetPorts()); p != nil {
		return p
	}
	switch {
	case s.GetWorkloadSelector() != nil && len(s.GetEndpoints()) > 0:
		return problemf(0, "spec.endpoints: not together with workloadSelector")
	case s.GetResolution() == networkingapi.ServiceEntry_NONE && len(s.GetEndpoints()) > 0:
		return problemf(0, "spec.endpoints: not with resolution NONE")
	}
	return nil
}

func validateEntryPorts(ports []*networkingapi.ServicePort) *problem {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	for i, port := range ports {
		field := fmt.Sprintf("spec.ports[%d]", i)
		if p := istioPort(port.GetNumber(), field+".number"); p != nil {
			return p
		}
		if port.GetTargetPort() != 0 {
			if p := istioPort(port.GetTargetPort(), field+".targetPort"); p != nil {
				return p
			}
		}
		if names[port.GetName()] || numbers[port.GetNumber()] {
			return problemf(0, "%s: another port has the same name or number", field)
		}
		names[port.GetName()], numbers[port.GetNumber()] = true, true
	}
	return nil
}

func validateVirtualService(s *networkingapi.VirtualService) *problem {
	if len(s.GetHosts()) == 0 && len(s.GetGateways())+len(s.GetTls())+len(s.GetTcp()) > 0 {
		return problemf(0, "spec.hosts is empty; a delegate has neither gateways nor tls nor tcp routes")
	}
	if len(s.GetHttp())+len(s.GetTls())+len(s.GetTcp()) == 0 {
		return problemf(0, "spec: one of http, tls, tcp is needed")
	}
	inMesh := len(s.GetGateways()) == 0 || slices.Contains(s.GetGateways(), "mesh")
	for i, host := range s.GetHosts() {
		field := fmt.Sprintf("spec.hosts[%d]", i)
		p := wildcardDomain(host, field)
		if p == nil && host == "*" && inMesh {
			return problemf(0, "%s: routes of the mesh cannot be for every host", field)
		}
		if _, err := netip.ParseAddr(host); p != nil && err != nil && !strings.HasPrefix(host, "outbound_.") {
			return p
		}
	}
	return validateDestinations(s)
}

// validateDestinations looks at where the routes lead.
func validateDestinations(s *networkingapi.VirtualService) *problem {
	for i, route := range s.GetHttp() {
		for j, r := range route.GetRoute() {
			if p := validateDestination(r.GetDestination(), fmt.Sprintf("spec.http[%d].route[%d].destination", i, j)); p != nil {
				return p
			}
		}
	}
	for i, route := range s.GetTls() {
		for j, r := range route.GetRoute() {
			if p := validateDestination(r.GetDestination(), fmt.Sprintf("spec.tls[%d].route[%d].destination", i, j)); p != nil {
				return p
			}
		}
	}
	for i, route := range s.GetTcp() {
		for j, r := range route.GetRoute() {
			if p := validateDestination(r.GetDestination(), fmt.Sprintf("spec.tcp[%d].route[%d].destination", i, j)); p != nil {
				return p
			}
		}
	}
	return nil
}

func validateDestination(d *networkingapi.Destination, field string) *problem {
	if d == nil {
		return nil
	}
	if d.GetHost() == "*" {
		return problemf(0, "%s.host: a route cannot lead to every host", field)
	}
	if p := wildcardDomain(d.GetHost(), field+".host"); p != nil {
		return p
	}
	if d.GetPort() != nil {
		return istioPort(d.GetPort().GetNumber(), field+".port.number")
	}
	return nil
}

func validateGateway(s *networkingapi.Gateway) *problem {
	if len(s.GetServers()) == 0 {
		return problemf(0, "spec.servers is empty")
	}
	for i, server := range s.GetServers() {
		field := fmt.Sprintf("spec.servers[%d]", i)
		if server.GetPort().GetNumber() > 0 || !strings.HasPrefix(server.GetBind(), "unix://") {
			if p := istioPort(server.GetPort().GetNumber(), field+".port.number"); p != nil {
				return p
			}
		}
		if len(server.GetHosts()) == 0 {
			return problemf(0, "%s.hosts is empty", field)
		}
		for j, host := range server.GetHosts() {
			namespace, name, ok := strings.Cut(host, "/")
			if !ok {
				namespace, name = "*", host
			}
			if p := namespacedHost(namespace, name, fmt.Sprintf("%s.hosts[%d]", field, j)); p != nil {
				if _, err := netip.ParseAddr(name); err != nil {
					return p
				}
			}
		}
	}
	return nil
}

func validateSidecar(s *networkingapi.Sidecar) *problem {
	for i, in := range s.GetIngress() {
		if p := istioPort(in.GetPort().GetNumber(), fmt.Sprintf("spec.ingress[%d].port.number", i)); p != nil {
			return p
		}
	}
	for i, e := range s.GetEgress() {
		field := fmt.Sprintf("spec.egress[%d]", i)
		if e.GetPort() == nil && i < len(s.GetEgress())-1 {
			return problemf(0, "%s: only the last egress listener can be without a port", field)
		}
		if n := e.GetPort().GetNumber(); n > 0 || e.GetPort() != nil && !strings.HasPrefix(e.GetBind(), "unix://") {
			if p := istioPort(n, field+".port.number"); p != nil {
				return p
			}
		}
		if len(e.GetHosts()) == 0 {
			return problemf(0, "%s.hosts is empty", field)
		}
		for j, host := range e.GetHosts() {
			at := fmt.Sprintf("%s.hosts[%d]", field, j)
			namespace, name, ok := strings.Cut(host, "/")
			if !ok {
				return problemf(0, "%s: %q is not of the form namespace/dnsName", at, host)
			}
			if p := namespacedHost(strings.TrimPrefix(namespace, "~"), name, at); p != nil {
				return p
			}
		}
	}
	return nil
}

// namespacedHost checks the two halves of a host of a Gateway or Sidecar.
func namespacedHost(namespace, name, field string) *problem {
	if namespace != "" && namespace != "*" && namespace != "." && !domainLabel(namespace) {
		return problemf(0, "%s: %q is not a namespace", field, namespace)
	}
	if name != "*" && !strings.Contains(name, ".") {
		return problemf(0, "%s: %q is a short name; a full one or a wildcard belongs here", field, name)
	}
	return wildcardDomain(name, field)
}

// wildcardDomain checks a DNS name whose first label may be, or begin with, *.
func wildcardDomain(domain, field string) *problem {
	first, rest, more := strings.Cut(domain, ".")
	bad := len(domain) > 255 || first != "*" && !domainLabel(strings.TrimPrefix(strings.TrimPrefix(first, "*-"), "*"))
	if more {
		labels := strings.Split(rest, ".")
		last := labels[len(labels)-1]
		bad = bad || last != "" && strings.Trim(last, "0123456789") == ""
		if last == "" {
			labels = labels[:len(labels)-1]
		}
		for _, label := range labels {
			bad = bad || !domainLabel(label)
		}
	}
	if bad {
		return problemf(0, "%s: %q is not a DNS name, nor one that begins with *", field, domain)
	}
	return nil
}

// domainLabel is whether a text is a label of a DNS name; capitals are.
func domainLabel(text string) bool {
	if text == "" || len(text) > 63 || text[0] == '-' || text[len(text)-1] == '-' {
		return false
	}
	return strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}

func addressOrRange(text, field string) *problem {
	var err error
	if strings.Count(text, "/") == 1 {
		_, err = netip.ParsePrefix(text)
	} else {
		_, err = netip.ParseAddr(text)
	}
	if err != nil {
		return problemf(0, "%s: %q is neither an IP address nor a range of them", field, text)
	}
	return nil
}

func istioPort(number uint32, field string) *problem {
	if number < 1 || number > 65535 {
		return problemf(0, "%s: %d is not between 1 and 65535", field, number)
	}
	return nil
}
