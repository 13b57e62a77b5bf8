package mesh

import (
	"net/netip"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// podKey is a pod's namespace and name.
type podKey struct{ namespace, name string }

// podIndex finds pods as istiod's pod cache does (Istio
// pilot/pkg/serviceregistry/kube/controller/pod.go).
type podIndex struct {
	byKey    map[podKey]*snapshot.Pod   // all that the informer holds: no failed ones
	byIP     map[string][]*snapshot.Pod // ready ones, by primary address
	byPlace  map[string][]*snapshot.Pod // ready ones, by namespace
	backends map[*snapshot.Pod]*Backend // made when asked for
}

func (v *View) indexPods(snap *snapshot.Snapshot) {
	v.pods = &podIndex{
		byKey: make(map[podKey]*snapshot.Pod, len(snap.Pods)), byIP: map[string][]*snapshot.Pod{},
		byPlace: map[string][]*snapshot.Pod{}, backends: map[*snapshot.Pod]*Backend{},
	}
	for i := range snap.Pods {
		pod := &snap.Pods[i]
		if !v.Selected(pod.Namespace) || pod.Phase == "Failed" {
			continue
		}
		v.pods.byKey[podKey{pod.Namespace, pod.Name}] = pod
		if pod.Phase == "Succeeded" || len(pod.IPs) == 0 || pod.Terminating || !pod.Ready {
			continue
		}
		v.pods.byIP[pod.IPs[0]] = append(v.pods.byIP[pod.IPs[0]], pod)
		v.pods.byPlace[pod.Namespace] = append(v.pods.byPlace[pod.Namespace], pod)
	}
}

// podBackend is the backend of a pod's endpoints, and with nil of those without
// a pod (Istio pilot/pkg/serviceregistry/kube/controller/endpoint_builder.go).
func (v *View) podBackend(pod *snapshot.Pod) *Backend {
	row := v.pods.backends[pod]
	if row == nil {
		row = v.newBackend(pod)
		v.pods.backends[pod] = row
	}
	return row
}

func (v *View) newBackend(pod *snapshot.Pod) *Backend {
	row := &Backend{Cluster: v.Cluster, TLSMode: tlsDisabled}
	if pod == nil {
		row.Labels = v.at(Labels{}, place{cluster: v.Cluster, network: v.network("", nil)})
	} else {
		row.Locality, row.Node, row.Pod, row.Namespace = v.podLocality(pod), pod.Node, pod.Name, pod.Namespace
		row.Labels = v.podLabels(pod, row.Locality)
		row.Identity = v.Identity(pod.Namespace, pod.ServiceAccount)
		if mode, found := pod.Labels[tlsModeLabel]; found {
			row.TLSMode = mode
		}
		row.MTLS = row.TLSMode == "istio"
		row.Workload = workloadName(pod)
		if pod.Subdomain != "" {
			row.Subdomain, row.Hostname = pod.Subdomain, firstNonEmpty(pod.Hostname, pod.Name)
		}
	}
	row.Network = row.Labels.Get(networkLabel)
	return row
}

// podLabels are a pod's labels with those that istiod adds for its place.
func (v *View) podLabels(pod *snapshot.Pod, locality string) Labels {
	ip := ""
	if len(pod.IPs) > 0 {
		ip = pod.IPs[0]
	}
	return v.at(LabelsOf(pod.Labels), place{v.Cluster, locality, pod.Node, v.network(ip, pod.Labels)})
}

// tlsDisabled is the TLS mode of an endpoint without a sidecar.
const tlsDisabled = "disabled"

// network is the network of an address: its label's, that of istiod's namespace,
// that of meshNetworks (Istio pilot/pkg/serviceregistry/kube/controller/network.go).
func (v *View) network(ip string, labels map[string]string) string {
	if name := labels[networkLabel]; name != "" {
		return name
	}
	if name := v.namespaceLabels(v.Namespace)[networkLabel]; name != "" {
		return name
	}
	return v.meshNetwork(ip)
}

func (v *View) meshNetwork(ip string) string {
	networks := v.Networks.GetNetworks()
	if len(networks) == 0 {
		return ""
	}
	address, err := netip.ParseAddr(ip)
	byRange := ""
	for _, name := range sortedKeys(networks) {
		for _, endpoint := range networks[name].GetEndpoints() {
			if registry := endpoint.GetFromRegistry(); registry != "" && registry == v.Cluster {
				return name
			}
			if err == nil && byRange == "" && inRange(endpoint, address) {
				byRange = name
			}
		}
	}
	return byRange
}

func inRange(endpoint *meshconfig.Network_NetworkEndpoints, address netip.Addr) bool {
	prefix, err := netip.ParsePrefix(endpoint.GetFromCidr())
	return err == nil && prefix.Contains(address)
}
