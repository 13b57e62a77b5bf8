package mesh

import (
	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// The server that the judge drives is assembled for tests and does not look
// at Namespaces in two places where istiod does. What istiod would read there
// is put where the server looks.

// emulate does so for the whole mesh.
func (m *Mesh) emulate(objs []Object) {
	for _, o := range objs {
		if o.Kind != "Namespace" {
			continue
		}
		if o.Name == m.Istiod.Namespace {
			m.defaultNetwork(o.Labels[label.TopologyNetwork.Name])
		}
	}
}

// defaultNetwork makes the network that the control plane's namespace names
// that of all pods of the cluster without one of their own.
func (m *Mesh) defaultNetwork(name string) {
	if name == "" {
		return
	}
	if m.Networks.Networks == nil {
		m.Networks.Networks = map[string]*meshconfig.Network{}
	}
	cluster := m.ClusterID()
	for _, n := range m.Networks.Networks {
		var kept []*meshconfig.Network_NetworkEndpoints
		for _, ep := range n.Endpoints {
			if ep.GetFromRegistry() != cluster {
				kept = append(kept, ep)
			}
		}
		n.Endpoints = kept
	}
	n := m.Networks.Networks[name]
	if n == nil {
		n = &meshconfig.Network{}
		m.Networks.Networks[name] = n
	}
	n.Endpoints = append(n.Endpoints, &meshconfig.Network_NetworkEndpoints{
		Ne: &meshconfig.Network_NetworkEndpoints_FromRegistry{FromRegistry: cluster},
	})
}

// ClusterID is the name under which istiod knows its own cluster.
func (m *Mesh) ClusterID() string {
	if id := m.Istiod.Env["CLUSTER_ID"]; id != "" {
		return id
	}
	return "Kubernetes"
}
