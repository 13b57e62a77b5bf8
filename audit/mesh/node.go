package mesh

import (
	"encoding/json"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
)

// Node is a proxy as it presents itself to istiod when it connects.
type Node struct {
	Namespace, Name string
	ID              string         // "sidecar~10.0.0.1~web-0.shop~shop.svc.cluster.local"
	Locality        string         // region/zone/subzone; empty: none
	DNS             bool           // its agent asks for the name table
	Metadata        map[string]any // as JSON decodes it
}

// AsNode returns what the proxy's agent reports (Istio pkg/bootstrap/config.go).
// AUTO_REGISTER_GROUP is never among it: reading must not make a WorkloadEntry.
func (p *Proxy) AsNode() Node {
	n := Node{
		Namespace: p.Namespace, Name: p.Name, Locality: p.Locality, Metadata: map[string]any{},
		ID: strings.Join([]string{p.Kind.String(), p.IPs[0], p.Name + "." + p.Namespace, p.Domain}, "~"),
	}
	for name, value := range p.Metadata.Raw {
		n.Metadata[name] = value
	}
	delete(n.Metadata, "AUTO_REGISTER_GROUP")
	set := func(name, value string) {
		if value != "" {
			n.Metadata[name] = value
		}
	}
	env := map[string]string{}
	agentEnvironment(env, p.Pod)
	set("NAMESPACE", p.Namespace)
	set("ISTIO_VERSION", p.Version.String())
	set("SERVICE_ACCOUNT", p.ServiceAccount)
	set("CLUSTER_ID", p.Cluster)
	set("NETWORK", p.Network)
	set("NODE_NAME", p.Node)
	set("MESH_ID", p.MeshID)
	set("WORKLOAD_NAME", p.WorkloadName)
	set("INSTANCE_IPS", strings.Join(p.IPs, ","))
	set("METADATA_DISCOVERY", env["PEER_METADATA_DISCOVERY"])
	if p.Kind == SidecarProxy {
		set("INTERCEPTION_MODE", p.Metadata.Interception)
	}
	n.Metadata["ENVOY_STATUS_PORT"] = numberOr(env["ENVOY_STATUS_PORT"], 15021)
	n.Metadata["ENVOY_PROMETHEUS_PORT"] = numberOr(env["ENVOY_PROMETHEUS_PORT"], 15090)
	n.Metadata["LABELS"] = reported(p.Pod.Labels)
	n.Metadata["ANNOTATIONS"] = anyMap(p.Pod.Annotations)
	n.Metadata["PROXY_CONFIG"] = p.configJSON()
	n.DNS = p.Metadata.DNSCapture || isTrue(p.Metadata.Raw["ENABLE_DNS_SERVER"])
	return n
}

// reported are a pod's labels as its agent tells them.
func reported(labels map[string]string) map[string]any {
	out := anyMap(labels)
	delete(out, "pod-template-hash")
	return out
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func numberOr(text string, standard int) float64 {
	if n, err := strconv.Atoi(text); err == nil {
		return float64(n)
	}
	return float64(standard)
}

// configJSON is the effective ProxyConfig in JSON's types.
func (p *Proxy) configJSON() map[string]any {
	out := map[string]any{}
	text, err := protojson.Marshal(p.Config)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return map[string]any{} // a message of strings, numbers and lists always encodes
	}
	return out
}
