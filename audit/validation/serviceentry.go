package validation

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) serviceEntry(at *path, s *networking.ServiceEntry, labels map[string]string) {
	c.matchLabels(at.key("workloadSelector").key("labels"), s.GetWorkloadSelector().GetLabels())
	if s.GetWorkloadSelector() != nil && s.Endpoints != nil {
		c.refuse(at.key("endpoints"), "not together with workloadSelector")
	}
	c.entryHosts(at.key("hosts"), s.GetHosts())
	c.entryAddresses(at.key("addresses"), s)
	names := c.entryPorts(at.key("ports"), s)
	c.entryResolution(at, s, names, labels)
	if s.GetResolution() != networking.ServiceEntry_NONE && len(s.GetHosts()) > 1 {
		for i, port := range s.GetPorts() {
			if p := protocolOf(port.GetProtocol()); p != httpProtocol && p != tlsProtocol {
				c.refuse(at.key("ports").item(i), "several hosts on a port that is neither of HTTP nor of TLS cannot be told apart")
				break
			}
		}
	}
	c.exportTo(at.key("exportTo"), s.GetExportTo(), true)
}

func (c *checker) entryHosts(at *path, hosts []string) {
	if len(hosts) == 0 {
		c.refuse(at, "empty")
	}
	for i, host := range hosts {
		if host == "*" {
			c.refuse(at.item(i), "a ServiceEntry cannot be for every host")
			continue
		}
		c.wildcardDomain(at.item(i), host)
	}
}

func (c *checker) entryAddresses(at *path, s *networking.ServiceEntry) {
	c.addressesOrRanges(at, s.GetAddresses())
	for i, address := range s.GetAddresses() {
		if !strings.Contains(address, "/") {
			continue
		}
		if r := s.GetResolution(); r != networking.ServiceEntry_NONE && r != networking.ServiceEntry_STATIC {
			c.refuse(at.item(i), "a range is for the resolutions NONE and STATIC, not %s", r)
		}
	}
}

// entryPorts checks the ports and returns their names.
func (c *checker) entryPorts(at *path, s *networking.ServiceEntry) map[string]bool {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	for i, port := range s.GetPorts() {
		at := at.item(i)
		if names[port.GetName()] || numbers[port.GetNumber()] {
			c.refuse(at, "another port has the same name or number")
		}
		names[port.GetName()], numbers[port.GetNumber()] = true, true
		if port.GetTargetPort() != 0 {
			c.port(at.key("targetPort"), int64(port.GetTargetPort()))
		}
		c.label(at.key("name"), port.GetName())
		c.protocol(at.key("protocol"), port.GetProtocol())
		c.port(at.key("number"), int64(port.GetNumber()))
	}
	return names
}

// entryResolution checks what goes together with each way of finding endpoints.
func (c *checker) entryResolution(at *path, s *networking.ServiceEntry, ports map[string]bool, labels map[string]string) {
	endpoints := at.key("endpoints")
	switch r := s.GetResolution(); r {
	case networking.ServiceEntry_NONE:
		if len(s.GetEndpoints()) > 0 {
			c.refuse(endpoints, "not with resolution NONE")
		}
	case networking.ServiceEntry_STATIC:
		for i, e := range s.GetEndpoints() {
			c.workloadEntry(endpoints.item(i), e, ports, false)
		}
	case networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN:
		for i, host := range s.GetHosts() {
			if len(s.GetEndpoints()) == 0 && !isFQDN(host) {
				c.refuse(at.key("hosts").item(i), "%q cannot be looked up; resolution %s needs endpoints for it", host, r)
			}
		}
		if r == networking.ServiceEntry_DNS_ROUND_ROBIN && len(s.GetEndpoints()) > 1 {
			c.refuse(endpoints, "more than one, with resolution %s", r)
		}
		for i, e := range s.GetEndpoints() {
			c.lookedUpEndpoint(endpoints.item(i), e, ports)
		}
	case networking.ServiceEntry_DYNAMIC_DNS:
		c.dynamicEntry(at, s, labels)
	}
}

func (c *checker) lookedUpEndpoint(at *path, e *networking.WorkloadEntry, ports map[string]bool) {
	c.fqdnOrAddress(at.key("address"), e.GetAddress())
	c.kubernetesLabels(at.key("labels"), e.GetLabels())
	c.endpointPorts(at.key("ports"), e.GetPorts(), ports)
}

func (c *checker) dynamicEntry(at *path, s *networking.ServiceEntry, labels map[string]string) {
	for i, host := range s.GetHosts() {
		if !isWildcard(host) {
			c.refuse(at.key("hosts").item(i), "%q has no wildcard, which resolution DYNAMIC_DNS is for", host)
		}
	}
	if len(s.GetAddresses()) > 0 {
		c.refuse(at.key("addresses"), "not with resolution DYNAMIC_DNS")
	}
	if len(s.GetEndpoints()) > 0 {
		c.refuse(at.key("endpoints"), "not with resolution DYNAMIC_DNS")
	}
	for i, port := range s.GetPorts() {
		switch strings.ToLower(port.GetProtocol()) {
		case "http", "tls", "grpc", "http2":
		default:
			c.refuse(at.key("ports").item(i).key("protocol"), "%q: resolution DYNAMIC_DNS is for HTTP, HTTP2, GRPC and TLS", port.GetProtocol())
		}
	}
	waypoint := labels["istio.io/use-waypoint"]
	if s.GetLocation() == networking.ServiceEntry_MESH_INTERNAL && waypoint != "" && !strings.EqualFold(waypoint, "none") {
		c.refuse(at.key("location"), "MESH_INTERNAL with resolution DYNAMIC_DNS cannot use a waypoint")
	}
}

// workloadEntry checks a WorkloadEntry, or an endpoint of a ServiceEntry, whose
// ports are then given.
func (c *checker) workloadEntry(at *path, e *networking.WorkloadEntry, ports map[string]bool, names bool) {
	address := e.GetAddress()
	switch {
	case address == "" && e.GetNetwork() == "":
		c.refuse(at.key("address"), "missing")
		return
	case strings.HasPrefix(address, unixPrefix):
		c.unixSocket(at.key("address"), address)
		if len(e.GetPorts()) > 0 {
			c.refuse(at.key("ports"), "a Unix domain socket has none")
		}
		if ports != nil && len(ports) != 1 {
			c.refuse(at.key("address"), "a Unix domain socket serves exactly one port, not %d", len(ports))
		}
	case address == "":
	case names:
		c.fqdnOrAddress(at.key("address"), address)
	default:
		c.address(at.key("address"), address)
	}
	c.endpointPorts(at.key("ports"), e.GetPorts(), ports)
	c.kubernetesLabels(at.key("labels"), e.GetLabels())
}

func (c *checker) endpointPorts(at *path, own map[string]uint32, known map[string]bool) {
	for _, name := range sorted(own) {
		if known != nil && !known[name] {
			c.refuse(at.key(name), "the ServiceEntry has no port of this name")
		}
		c.label(at.key(name), name)
		c.port(at.key(name), int64(own[name]))
	}
}

func (c *checker) workloadGroup(at *path, g *networking.WorkloadGroup) {
	if g.GetTemplate() == nil {
		c.refuse(at.key("template"), "missing")
	}
	c.kubernetesLabels(at.key("metadata").key("labels"), g.GetMetadata().GetLabels())
}
