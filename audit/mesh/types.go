// Package mesh is the mesh as istiod knows it: for each revision the registry of
// services, their endpoints, the configuration in istiod's order, its flags and
// mesh config, and the proxies that connect to it.
//
// It answers what is there; it refuses to say who sees it (package scope) or
// what is sent (package xds).
package mesh

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Mesh is the whole mesh: one View for each istiod revision.
type Mesh struct {
	Snapshot *snapshot.Snapshot
	Views    []*View // sorted by revision
	Gaps     []result.Gap
}

// View is the mesh as one istiod revision sees it: after its revision label
// filter, its discoverySelectors, its mesh config and its flags. All slices
// are in istiod's own order of processing (creation time, then name, then
// namespace, unless a field says otherwise).
type View struct {
	Revision       string // "default" if unnamed
	Tags           []string
	Istiod         *snapshot.Istiod // nil: none found
	Namespace      string           // istiod's
	Version        Version
	VersionAssumed bool
	Config         *meshconfig.MeshConfig // defaults applied; never nil
	Networks       *meshconfig.MeshNetworks
	Flags          Flags
	Behaviours     Behaviours // of Version
	RootNamespace  string
	KeySetBytes    int    // length of a key set that istiod fetches; 0: that of its placeholder
	Domain         string // "cluster.local"
	Cluster        string // istiod's own CLUSTER_ID, "Kubernetes"

	Namespaces map[string]*snapshot.Namespace // all, selected or not
	Nodes      map[string]*snapshot.Node

	Services  []*Service // REG-22 order; Service.Index is the position
	Endpoints *Endpoints

	VirtualServices  []*VirtualService // VIS-7 order, short names resolved, delegates merged, delegates themselves left out
	DestinationRules []*snapshot.Config[*networking.DestinationRule]
	Gateways         []*snapshot.Config[*networking.Gateway]
	Sidecars         []*snapshot.Config[*networking.Sidecar] // SC-1 order
	EnvoyFilters     []*snapshot.EnvoyFilter                 // istiod's order (priority, creation, name)
	Policies         *Policies

	Proxies []*Proxy // of this revision, by namespace and name

	byHost   map[string][]*Service
	filter   string // revision that istiod compares labels with; empty: none
	selected selection
	peers    *peerPolicies
	pods     *podIndex
	work     *working
}

// VirtualService is a VirtualService whose hosts, gateways and destinations
// are full names and whose delegates are merged in.
type VirtualService struct {
	*snapshot.Meta
	Spec *networking.VirtualService
	// Delegates are the delegate VirtualServices merged in, by the index of
	// the resulting http route; nil if none.
	Delegates map[int]*snapshot.Meta
	ExportTo  []string // effective (VIS-5); never empty
	// Dropped are http routes of the written object that istiod leaves out
	// (delegate missing or not visible), for explain.
	Dropped []string
}

// Resolution is how istiod resolves a service's endpoints (REG-2, REG-18).
type Resolution uint8

// The resolutions.
const (
	ClientSideLB Resolution = iota
	DNSLB
	DNSRoundRobinLB
	DynamicDNS
	Passthrough
	Alias
)

// Port is one port of a service.
type Port struct {
	Name     string
	Number   int
	Protocol Protocol
	// TargetPort is a ServiceEntry port's targetPort; 0 if unset or a Kubernetes service.
	TargetPort int
}

// Service is one entry of istiod's registry. A ServiceEntry makes one for each
// host and address (REG-15), so several may share a host name.
type Service struct {
	Index               int        // in View.Services
	Ref                 result.Ref // the Service or ServiceEntry
	Host                string     // full host name, lower case as istiod keeps it
	Namespace           string
	Name                string // Kubernetes name, or the ServiceEntry's HOST (istiod's attribute Name)
	Created             int64
	Kubernetes          bool // from a Kubernetes Service
	Resolution          Resolution
	External            bool     // MeshExternal
	Address             string   // istiod's DefaultAddress: "0.0.0.0" when it has none; may be a CIDR
	VIPs                []string // all cluster IPs, primary first; nil if none. ServiceEntry: nil
	AutoV4              string   // auto-allocated; empty if none
	AutoV6              string
	Ports               []Port
	ExportTo            []string // as written, trimmed; nil: unset, the mesh default applies (VIS-1)
	Labels              map[string]string
	Selector            map[string]string // Kubernetes selector or ServiceEntry workloadSelector labels
	Accounts            []string          // SAN identities that the object itself names (REG-7, subjectAltNames), sorted
	NodeLocal           bool              // internalTrafficPolicy Local
	PublishNotReady     bool
	TrafficDistribution string // "", "PreferClose"/"PreferSameZone" …  as istiod takes it (REG-9)
	Type                string // ClusterIP, NodePort, LoadBalancer, ExternalName; "" for a ServiceEntry
	ExternalName        string // REG-25
	Annotations         map[string]string
	Entry               *snapshot.ServiceEntry // nil for Kubernetes
	Spec                *corev1.ServiceSpec    // nil for a ServiceEntry
	Balancers           []string               // addresses and host names in the status of a Service of type LoadBalancer
	ObjectName          string                 // metadata.name of the Service or ServiceEntry
	Visibility          Visibility             // VIS-4; Public for Kubernetes and where the mesh config says nothing
	RaceFirstConnect    bool                   // annotation istio.io/connect-strategy RACE_FIRST_TCP_CONNECT
	// Aliases are the ExternalName services that lead to this one (REG-25), in istiod's order.
	Aliases []AliasName
}

// AliasName is one alias of a service.
type AliasName struct {
	Host, Namespace string
	Ref             result.Ref
}

// Headless reports a Kubernetes service without a cluster IP, or a NONE ServiceEntry.
func (s *Service) Headless() bool { return s.Resolution == Passthrough }

// Port returns the port with the number, or nil.
func (s *Service) Port(number int) *Port {
	for i := range s.Ports {
		if s.Ports[i].Number == number {
			return &s.Ports[i]
		}
	}
	return nil
}

// Endpoint is one row: one address of one port of one service. Rows of one
// (host, namespace) are contiguous, in istiod's order.
type Endpoint struct {
	*Backend          // shared by all rows of one workload; never nil
	Address    string // IP, host name, or unix path
	Port       int    // target port
	PortName   string // the SERVICE port's name; rows match ports by it (EDS-2)
	Health     Health
	Kubernetes bool // from the Kubernetes registry: an EndpointSlice, or a WorkloadEntry that a Service selects
	// ServicePort is the number of the ServiceEntry port that the row is for
	// (istiod's LegacyClusterPortKey); 0 for the Kubernetes registry, whose rows
	// match by PortName everywhere.
	ServicePort int
	// Extra are the further addresses of a dual-stack pod; nil without ISTIO_DUAL_STACK.
	Extra []string
}

// Backend is the workload behind endpoints: a pod, a WorkloadEntry, an address
// that nothing is known of.
type Backend struct {
	Labels    Labels // the workload's and istiod's topology labels (EDS-3)
	Locality  string // "region/zone/subzone"; "" if unknown
	Network   string
	Cluster   string
	Node      string
	Weight    uint32 // 0: default 1
	MTLS      bool   // tlsMode istio
	TLSMode   string // security.istio.io/tlsMode as istiod keeps it: "istio", "disabled" or what a label says
	Identity  string // service account as istiod's SPIFFE identity "spiffe://td/ns/x/sa/y", or ""
	Namespace string // of the workload
	Workload  string // workload name
	Hostname  string // pod hostname and subdomain, for the name table
	Subdomain string
	Pod       string // pod name; "" if none
}

// Health of an endpoint, as istiod knows it.
type Health uint8

// The health states.
const (
	Unknown Health = iota // ServiceEntry and WorkloadEntry endpoints
	Healthy
	Unhealthy
	Draining
	Terminating
)

// Endpoints is the flat table of all rows, sorted by service.
type Endpoints struct {
	Rows []Endpoint
	// spans: (host, namespace) → [first, last) in Rows.
	spans map[HostNamespace][2]int
}

// HostNamespace is the key under which istiod keeps endpoints.
type HostNamespace struct{ Host, Namespace string }

// Of returns the rows of a service, all ports and clusters, healthy or not.
func (e *Endpoints) Of(host, namespace string) []Endpoint {
	span := e.spans[HostNamespace{host, namespace}]
	return e.Rows[span[0]:span[1]]
}

// ProxyKind is sidecar or router.
type ProxyKind uint8

// The proxy kinds that are modelled.
const (
	SidecarProxy ProxyKind = iota
	RouterProxy
)

func (k ProxyKind) String() string {
	if k == RouterProxy {
		return result.Router
	}
	return result.Sidecar
}

// Proxy is one Envoy that connects to istiod, with what its agent reports.
type Proxy struct {
	View                             *View
	Pod                              *snapshot.Pod
	Kind                             ProxyKind
	Namespace                        string
	Name                             string
	Labels                           Labels // the pod's, as istiod knows them (SC-3)
	IPs                              []string
	IPv4, IPv6                       bool    // address families of IPs
	Version                          Version // the proxy's own; falls back to istiod's
	Domain                           string  // DNS domain "<ns>.svc.cluster.local"
	Network, Cluster, Locality, Node string
	ServiceAccount                   string
	TrustDomain                      string
	CanonicalName                    string // service.istio.io/canonical-name as the agent reports it
	CanonicalRevision                string
	MeshID                           string
	WorkloadName                     string // metadata WORKLOAD_NAME; "" if the agent does not report it
	Workload                         string // "deployment/reviews-v1", for people
	Metadata                         Metadata
	Config                           *meshconfig.ProxyConfig // effective; never nil
	Targets                          []ServiceTarget         // IN-2 order
}

// Metadata is the part of the node metadata that changes xDS (FLAG-95).
type Metadata struct {
	DNSCapture, DNSAutoAllocate bool
	Interception                string // REDIRECT, TPROXY, NONE
	HTTPProxyPort               string
	HTTP10                      bool
	IdleTimeout                 string
	Unprivileged                bool
	NetworkView                 []string
	Raw                         map[string]string // all ISTIO_META_ values, prefix removed
}

// ServiceTarget is a service port that leads to a proxy's own workload.
type ServiceTarget struct {
	Service    *Service
	Port       Port
	TargetPort int
}
