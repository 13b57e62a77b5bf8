// Package snapshot holds the objects that istiod would read, each with its
// origin, decoded once and never changed afterwards. Kinds that occur by the
// hundred thousand (Pods, EndpointSlices, Nodes, workloads) are kept as compact
// rows of what the model reads; Istio's own kinds stay typed.
//
// It answers "what was read, and from where"; it refuses to say what istiod
// makes of it.
package snapshot

import (
	"cmp"
	"maps"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Meta is what the model keeps of every object's metadata.
type Meta struct {
	Kind, Namespace, Name string
	Labels, Annotations   map[string]string // nil if none; never changed
	Created               int64             // creationTimestamp in seconds since 1970; 0: unknown, equally old
	Source                result.Source     `json:"-"`
	ResourceVersion       string            `json:"-"` // of a WasmPlugin, which istiod sends to proxies; empty: none, or another kind
}

// Ref names the object.
func (m *Meta) Ref() result.Ref {
	return result.Ref{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Source: m.Source}
}

// Config is an object whose spec is kept as the API's own type.
type Config[S any] struct {
	Meta
	Spec S
}

// Snapshot is all that was read. The slices are sorted by namespace and name
// and must not be changed.
type Snapshot struct {
	Namespaces []Namespace
	Nodes      []Node
	Services   []Config[*corev1.ServiceSpec]
	// Balancers are the addresses and host names in the status of Services of
	// type LoadBalancer, by "namespace/name".
	Balancers  map[string][]string
	Slices     []EndpointSlice // Endpoints of a service without slices are turned into one
	Pods       []Pod
	Workloads  []Workload
	ConfigMaps []ConfigMap // istio, istio-<revision> and what istiods share only
	Istiods    []Istiod
	Webhooks   []Webhook

	ServiceEntries         []ServiceEntry
	WorkloadEntries        []Config[*networking.WorkloadEntry]
	WorkloadGroups         []Config[*networking.WorkloadGroup]
	DestinationRules       []Config[*networking.DestinationRule]
	VirtualServices        []Config[*networking.VirtualService]
	Gateways               []Config[*networking.Gateway]
	Sidecars               []Config[*networking.Sidecar]
	EnvoyFilters           []EnvoyFilter
	ProxyConfigs           []Config[*networkingv1beta1.ProxyConfig]
	PeerAuthentications    []Config[*security.PeerAuthentication]
	RequestAuthentications []Config[*security.RequestAuthentication]
	AuthorizationPolicies  []Config[*security.AuthorizationPolicy]
	Telemetries            []Config[*telemetry.Telemetry]
	WasmPlugins            []Config[*extensions.WasmPlugin]

	// Unhealthy names, as "namespace/name", the WorkloadEntries that are health
	// checked and not healthy: istiod makes no endpoints of them (REG-14,
	// pilot/pkg/serviceregistry/serviceentry/conversion.go isHealthy).
	Unhealthy map[string]bool

	Unmodelled []Meta // objects of kinds that istiod reads and the model does not
	Gaps       []result.Gap
	Partial    string // namespace, when only one was read; empty: the whole mesh
	// Overrides that the user gave on the command line.
	Overrides Overrides
}

// Overrides replace what the input says of istiod.
type Overrides struct {
	IstioVersion   string            // empty: as found
	MeshConfigYAML string            // text of --mesh-config; empty: as found
	MeshConfigFrom result.Source     // file and line at which that text begins; line 0: not known
	Env            map[string]string // istiod flags set on top of those found
	Revision       string            // audit only this istiod's proxies; empty: all
	KeySetBytes    int               // length of a key set that istiod fetches from a jwksUri; 0: that of its placeholder
}

// On returns o on top of below: what o says counts, variable by variable.
func (o Overrides) On(below Overrides) Overrides {
	out := Overrides{
		IstioVersion: cmp.Or(o.IstioVersion, below.IstioVersion), MeshConfigYAML: cmp.Or(o.MeshConfigYAML, below.MeshConfigYAML),
		MeshConfigFrom: o.MeshConfigFrom, Env: maps.Clone(below.Env), Revision: cmp.Or(o.Revision, below.Revision), KeySetBytes: cmp.Or(o.KeySetBytes, below.KeySetBytes),
	}
	if o.MeshConfigYAML == "" {
		out.MeshConfigFrom = below.MeshConfigFrom
	}
	if out.Env == nil {
		out.Env = o.Env
	} else {
		maps.Copy(out.Env, o.Env)
	}
	return out
}

// Namespace is a Kubernetes namespace. One that is only mentioned by objects,
// and was not itself read, is in the snapshot with Implied set and no labels.
type Namespace struct {
	Meta
	Implied bool
}

// Node is a compact Kubernetes node.
type Node struct{ Meta } // labels carry the locality

// ServiceEntry is a ServiceEntry with the addresses that istiod's allocator
// wrote into its status.
type ServiceEntry struct {
	Config[*networking.ServiceEntry]
	Allocated []AllocatedAddress
}

// AllocatedAddress is one row of ServiceEntry.status.addresses.
type AllocatedAddress struct{ Host, Address string }

// EnvoyFilter keeps its patches typed.
type EnvoyFilter struct {
	Config[*networking.EnvoyFilter]
}

// ConfigMap is a mesh ConfigMap.
type ConfigMap struct {
	Meta
	Data map[string]string
	// Where the texts of the keys mesh and meshNetworks begin in the file; 0: not
	// known line by line. Not part of its digest.
	MeshLine, NetworksLine int `json:"-"`
}

// Webhook is a MutatingWebhookConfiguration that injects sidecars.
type Webhook struct {
	Meta     // labels istio.io/rev, istio.io/tag
	Webhooks []WebhookRule
}

// WebhookRule is one webhook's selectors.
type WebhookRule struct {
	Name                              string
	NamespaceSelector, ObjectSelector *metav1.LabelSelector
	ServiceNamespace, ServiceName     string // clientConfig.service
}

// Istiod is a Deployment whose pods run pilot-discovery.
type Istiod struct {
	Meta
	PodLabels map[string]string
	Image     string
	Args      []string
	Env       []EnvVar
	Replicas  int
	Resources corev1.ResourceRequirements
}

// SharedMeshConfig names the ConfigMap, in istiod's own namespace, that istiod
// reads a mesh config from before that of its revision; empty: none.
func (i *Istiod) SharedMeshConfig() string {
	for _, e := range i.Env {
		if e.Name == "SHARED_MESH_CONFIG" {
			return e.Value
		}
	}
	return ""
}

// EnvVar is an environment variable. From names where a value comes from that
// is not written in the object ("fieldRef metadata.namespace"); empty otherwise.
type EnvVar struct{ Name, Value, From string }

// Workload is a compact Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob.
type Workload struct {
	Meta
	Owner     OwnerRef // controller; zero if none
	Replicas  int
	PodLabels map[string]string
	// Template is what the model would read of a pod made from the template,
	// before injection; nil for a CronJob and for what another workload controls.
	Template *Pod `json:",omitempty"`
}

// OwnerRef names a controller.
type OwnerRef struct{ Kind, Name string }

// Pod is a compact pod.
type Pod struct {
	Meta
	Owner               OwnerRef
	Generated           bool // has a generateName: istiod follows Owner only then
	Node                string
	ServiceAccount      string
	IPs                 []string // primary first; empty: none yet
	Phase               string   // "" is taken as Running
	Ready               bool
	Terminating         bool // has a deletionTimestamp
	HostNetwork         bool
	Hostname, Subdomain string
	Ports               []ContainerPort // of all containers and native sidecars, in pod order
	Proxy               *ProxyContainer // nil: the pod has no Istio proxy
	Assumed             bool            // made by completion from a workload's template
}

// ContainerPort is one declared port of a container.
type ContainerPort struct {
	Name      string
	Port      int
	Protocol  string // TCP, UDP, SCTP
	Container string
}

// ProxyContainer is the istio-proxy container of a pod.
type ProxyContainer struct {
	Image  string
	Args   []string
	Env    []EnvVar
	Native bool // an init container with restartPolicy Always
}

// EndpointSlice is a compact EndpointSlice.
type EndpointSlice struct {
	Meta
	Service     string // label kubernetes.io/service-name; empty: none
	AddressType string // IPv4, IPv6, FQDN
	Ports       []SlicePort
	Endpoints   []SliceEndpoint
	Assumed     bool // made by completion from a Service's selector
}

// SlicePort is one port of a slice. Port 0 stands for "all ports" (null in the API).
type SlicePort struct {
	Name        string
	Protocol    string
	AppProtocol string
	Port        int
}

// SliceEndpoint is one endpoint of a slice.
type SliceEndpoint struct {
	Addresses                               []string
	Ready, Serving, Terminating             *bool // nil: absent in the object
	Hostname                                string
	Node, Zone                              string
	TargetKind, TargetNamespace, TargetName string // targetRef; empty: none
}
