package judge

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	_ "unsafe" // for go:linkname

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pkg/bootstrap"
	imesh "istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/model"
	"istio.io/istio/pkg/util/protomarshal"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// client is a proxy as istiod gets to know it.
type client struct {
	pod  *corev1.Pod
	kind string
	node *core.Node
	// dns is whether the agent asks for the name table.
	dns bool
}

// newClient builds what the agent of a pod sends to istiod.
func newClient(pod *corev1.Pod, mc *meshconfig.MeshConfig) (*client, error) {
	c := mesh.ProxyContainer(pod)
	env := agentEnv(pod, c)
	kind, dnsDomain := role(c, env)
	ips := addresses(pod, env)
	if len(ips) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no IP", pod.Namespace, pod.Name)
	}
	pc, err := proxyConfig(pod, env, mc)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	setDefaults(env, pod, c, kind)
	node, err := bootstrap.GetNodeMetaData(bootstrap.MetadataOptions{
		ID:                           strings.Join([]string{kind, ips[0], pod.Name + "." + pod.Namespace, dnsDomain}, "~"),
		Envs:                         env.list(),
		InstanceIPs:                  ips,
		ProxyConfig:                  pc,
		EnvoyStatusPort:              env.int("ENVOY_STATUS_PORT", 15021),
		EnvoyPrometheusPort:          env.int("ENVOY_PROMETHEUS_PORT", 15090),
		EnvoySecureMetricsPort:       env.int("ENVOY_SECURE_METRICS_PORT", 0),
		EnvoySecureMergedMetricsPort: env.int("ENVOY_SECURE_MERGED_METRICS_PORT", 0),
		ExitOnZeroActiveConnections:  env.bool("EXIT_ON_ZERO_ACTIVE_CONNECTIONS", false),
		EnvoySkipDeprecatedLogs:      env.bool("ENVOY_SKIP_DEPRECATED_LOGS", true),
		MetadataDiscovery:            env.optionalBool("PEER_METADATA_DISCOVERY"),
	})
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	addPodInfo(node.Metadata, pod)
	meta, err := metadataStruct(node)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return &client{
		pod:  pod,
		kind: kind,
		node: &core.Node{Id: node.ID, Cluster: serviceCluster(node.Metadata), Metadata: meta, Locality: node.Locality},
		dns:  capturesDNS(meta),
	}, nil
}

// serviceCluster is the cluster that the agent writes into its node: the one
// function of the agent that is needed here and not exported.
//
//go:linkname serviceCluster istio.io/istio/pkg/bootstrap.getServiceCluster
func serviceCluster(*model.BootstrapNodeMetadata) string

// role is the proxy's type and DNS domain, from the container's arguments.
func role(c *corev1.Container, env environment) (kind, dnsDomain string) {
	kind = "sidecar"
	dnsDomain = env["POD_NAMESPACE"] + ".svc.cluster.local"
	args := append(append([]string{}, c.Command...), c.Args...)
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case arg == "proxy" && next != "" && !strings.HasPrefix(next, "-"):
			kind = next
		case arg == "--domain" && next != "":
			dnsDomain = mesh.Expand(next, env)
		case strings.HasPrefix(arg, "--domain="):
			dnsDomain = mesh.Expand(strings.TrimPrefix(arg, "--domain="), env)
		}
	}
	return kind, dnsDomain
}

// addresses lists the proxy's IPs, that of the environment first.
func addresses(pod *corev1.Pod, env environment) []string {
	var out []string
	for _, text := range append([]string{env["INSTANCE_IP"]}, mesh.PodIPs(pod)...) {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip.String())
		}
	}
	return out
}

// proxyConfig is the agent's effective ProxyConfig: PROXY_CONFIG as injection
// writes it (the mesh default if it is not there), then the annotations. The
// mesh default is cloned, because merging changes it.
func proxyConfig(pod *corev1.Pod, env environment, mc *meshconfig.MeshConfig) (*meshconfig.ProxyConfig, error) {
	out := imesh.DefaultProxyConfig()
	if text, ok := env["PROXY_CONFIG"]; ok {
		merged, err := imesh.MergeProxyConfig(text, out)
		if err != nil {
			return nil, fmt.Errorf("PROXY_CONFIG: %w", err)
		}
		out = merged
	} else if mc.DefaultConfig != nil {
		out = protomarshal.Clone(mc.DefaultConfig)
	}
	if text := pod.Annotations[annotation.ProxyConfig.Name]; text != "" {
		merged, err := imesh.MergeProxyConfig(text, out)
		if err != nil {
			return nil, fmt.Errorf("annotation %s: %w", annotation.ProxyConfig.Name, err)
		}
		out = merged
	}
	if v := pod.Annotations[annotation.SidecarDiscoveryAddress.Name]; v != "" {
		out.DiscoveryAddress = v
	}
	if n, err := strconv.Atoi(pod.Annotations[annotation.SidecarStatusPort.Name]); err == nil {
		out.StatusPort = int32(n)
	}
	return out, nil
}

// setDefaults fills in what injection always writes, for pods that were
// written by hand.
func setDefaults(env environment, pod *corev1.Pod, c *corev1.Container, kind string) {
	env.setDefault("ISTIO_META_CLUSTER_ID", "Kubernetes")
	env.setDefault("ISTIO_META_ISTIO_VERSION", imageVersion(c.Image))
	env.setDefault("SERVICE_ACCOUNT", pod.Spec.ServiceAccountName)
	env.setDefault("ISTIO_META_POD_PORTS", podPorts(pod, kind))
	if kind == "sidecar" {
		mode := pod.Annotations[annotation.SidecarInterceptionMode.Name]
		if mode == "" {
			mode = "REDIRECT"
		}
		env.setDefault("ISTIO_META_INTERCEPTION_MODE", mode)
	}
}

var versionTag = regexp.MustCompile(`:v?(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)[.\w]*)?)`)

// imageVersion is the version that an image's tag names.
func imageVersion(image string) string {
	if m := versionTag.FindStringSubmatch(image); m != nil {
		return m[1]
	}
	return report.IstioRelease
}

// podPorts lists the ports of the pod's containers as injection writes them:
// without the sidecar's own, but with those of a gateway's only container.
func podPorts(pod *corev1.Pod, kind string) string {
	ports := []corev1.ContainerPort{}
	for _, c := range pod.Spec.Containers {
		if c.Name != "istio-proxy" || kind == "router" {
			ports = append(ports, c.Ports...)
		}
	}
	b, _ := json.Marshal(ports)
	return string(b)
}

// addPodInfo adds the labels and annotations that the agent reads from the
// downward API.
func addPodInfo(meta *model.BootstrapNodeMetadata, pod *corev1.Pod) {
	lbls := map[string]string{}
	for k, v := range meta.StaticLabels {
		lbls[k] = v
	}
	for k, v := range pod.Labels {
		if k != bootstrap.DefaultDeploymentUniqueLabelKey {
			lbls[k] = v
		}
	}
	meta.Labels = lbls
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	for k, v := range pod.Annotations {
		meta.Annotations[k] = v
	}
}

// metadataStruct encodes the metadata as Envoy sends it: the typed fields,
// and those that have no type.
func metadataStruct(node *model.Node) (*structpb.Struct, error) {
	typed, err := json.Marshal(node.Metadata)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	if err := json.Unmarshal(typed, &all); err != nil {
		return nil, err
	}
	for k, v := range node.RawMetadata {
		if _, ok := all[k]; !ok {
			all[k] = v
		}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	out := &structpb.Struct{}
	return out, protojson.Unmarshal(raw, out)
}

// capturesDNS is whether the agent serves DNS, and so asks for names.
func capturesDNS(meta *structpb.Struct) bool {
	for _, key := range []string{"DNS_CAPTURE", "ENABLE_DNS_SERVER"} {
		switch v := meta.GetFields()[key].GetKind().(type) {
		case *structpb.Value_BoolValue:
			if v.BoolValue {
				return true
			}
		case *structpb.Value_StringValue:
			if on, _ := strconv.ParseBool(v.StringValue); on {
				return true
			}
		}
	}
	return false
}
