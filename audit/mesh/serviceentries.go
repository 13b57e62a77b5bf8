package mesh

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const autoallocateLabel = "networking.istio.io/enable-autoallocate-ip"

// serviceEntryServices makes the services of all ServiceEntries: one for each
// host and address (REG-15 to REG-21; Istio
// pilot/pkg/serviceregistry/serviceentry/conversion.go).
func (v *View) serviceEntryServices(snap *snapshot.Snapshot) []*Service {
	visibility := newVisibilityMatcher(v)
	var out []*Service
	for i := range snap.ServiceEntries {
		entry := &snap.ServiceEntries[i]
		if entry.Spec == nil || !v.reads(&entry.Meta) {
			continue
		}
		services := v.serviceEntryHosts(entry)
		for _, s := range services {
			s.Visibility = visibility.of(v.namespaceLabels(s.Namespace))
		}
		out = append(out, services...)
	}
	if !v.Flags.IPAutoallocate {
		allocateByHash(out)
	}
	return out
}

func (v *View) namespaceLabels(namespace string) map[string]string {
	if ns := v.Namespaces[namespace]; ns != nil {
		return ns.Labels
	}
	return nil
}

func (v *View) serviceEntryHosts(entry *snapshot.ServiceEntry) []*Service {
	base := v.serviceEntryBase(entry)
	var out []*Service
	for _, host := range entry.Spec.GetHosts() {
		if len(entry.Spec.GetAddresses()) == 0 {
			s := base
			s.Host, s.Name, s.Address = host, host, unspecified
			s.AutoV4, s.AutoV6 = v.allocated(entry, host)
			out = append(out, &s)
			continue
		}
		for _, written := range entry.Spec.GetAddresses() {
			if address, ok := serviceEntryAddress(written); ok {
				s := base
				s.Host, s.Name, s.Address = host, host, address
				out = append(out, &s)
			}
		}
	}
	return out
}

func (v *View) serviceEntryBase(entry *snapshot.ServiceEntry) Service {
	spec := entry.Spec
	base := Service{
		Ref: entry.Ref(), Entry: entry, ObjectName: entry.Name, Namespace: entry.Namespace, Created: entry.Created,
		Labels: entry.Labels, Annotations: entry.Annotations,
		Resolution:          resolutions[spec.GetResolution()],
		External:            spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
		TrafficDistribution: v.trafficDistribution(nil, &entry.Meta),
		RaceFirstConnect:    strings.EqualFold(entry.Annotations[connectStrategyAnnotation], "RACE_FIRST_TCP_CONNECT"),
		Accounts:            slices.Compact(slices.Sorted(slices.Values(spec.GetSubjectAltNames()))),
		Selector:            spec.GetWorkloadSelector().GetLabels(),
	}
	if len(spec.GetExportTo()) > 0 {
		base.ExportTo = spec.GetExportTo()
	}
	if base.External && v.Flags.CanonicalForExternalSE {
		base.Labels = withCanonicalLabels(entry.Name, entry.Labels)
	}
	for _, port := range spec.GetPorts() {
		if port == nil {
			continue
		}
		base.Ports = append(base.Ports, Port{
			Name: port.GetName(), Number: int(port.GetNumber()),
			Protocol: ParseProtocol(port.GetProtocol()), TargetPort: int(port.GetTargetPort()),
		})
	}
	return base
}

var resolutions = map[networking.ServiceEntry_Resolution]Resolution{
	networking.ServiceEntry_NONE:            Passthrough,
	networking.ServiceEntry_STATIC:          ClientSideLB,
	networking.ServiceEntry_DNS:             DNSLB,
	networking.ServiceEntry_DNS_ROUND_ROBIN: DNSRoundRobinLB,
	networking.ServiceEntry_DYNAMIC_DNS:     DynamicDNS,
}

// serviceEntryAddress keeps IPs and CIDRs; a CIDR of one address becomes it.
func serviceEntryAddress(written string) (address string, ok bool) {
	if _, err := netip.ParseAddr(written); err == nil {
		return written, true
	}
	prefix, err := netip.ParsePrefix(written)
	if err != nil {
		return "", false
	}
	if prefix.IsSingleIP() {
		return prefix.Addr().String(), true
	}
	return written, true
}

// allocated are the addresses that istiod's controller wrote into the status
// for a host (REG-21).
func (v *View) allocated(entry *snapshot.ServiceEntry, host string) (v4, v6 string) {
	if !v.Flags.IPAutoallocate || entry.Spec.GetResolution() == networking.ServiceEntry_NONE ||
		strings.EqualFold(entry.Labels[autoallocateLabel], "false") {
		return "", ""
	}
	for _, row := range entry.Allocated {
		if row.Host != host {
			continue
		}
		address, err := netip.ParseAddr(row.Address)
		switch {
		case err != nil:
		case address.Is4():
			v4 = address.String()
		case address.Is6():
			v6 = address.String()
		}
	}
	return v4, v6
}

// withCanonicalLabels adds the canonical service labels that are missing (FLAG-70).
func withCanonicalLabels(name string, labels map[string]string) map[string]string {
	_, hasName := labels[canonicalNameLabel]
	_, hasRevision := labels[canonicalRevisionLabel]
	if hasName && hasRevision {
		return labels
	}
	out := make(map[string]string, len(labels)+2)
	for key, value := range labels {
		out[key] = value
	}
	out[canonicalNameLabel], out[canonicalRevisionLabel] = CanonicalService(LabelsOf(labels), name)
	return out
}
