package result

import "encoding/json"

// APIVersion is the version of the saved form of an Audit.
const APIVersion = "mesh-audit/v1alpha1"

// KindScopeReport is the kind of the saved form of an Audit.
const KindScopeReport = "ScopeReport"

// Audit is the answer of one run: what istiod sends to every proxy of the mesh.
type Audit struct {
	APIVersion  string       `json:"apiVersion"`
	Kind        string       `json:"kind"`
	Mesh        MeshInfo     `json:"mesh"`
	Proxies     []Proxy      `json:"proxies"`
	Groups      []Group      `json:"groups"`
	Scopes      []Scope      `json:"scopes"`
	Services    []Service    `json:"services,omitempty"`  // fan-out, heaviest first
	Remainder   []Remainder  `json:"remainder,omitempty"` // what no single service accounts for, heaviest first; with services the sum is mesh.totals.bytes
	Reasons     []Reason     `json:"reasons"`
	Gaps        []Gap        `json:"gaps"`
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"` // input that could not be used
	Objects     []Object     `json:"objects,omitempty"`     // every input object, for diff
}

// MeshInfo is what the header of a report says of the mesh.
type MeshInfo struct {
	Namespaces    int            `json:"namespaces"`
	Services      int            `json:"services"`     // host names in the registry
	EndpointRows  int            `json:"endpointRows"` // rows of (service port, address): shared backends count once per service port
	Proxies       int            `json:"proxies"`
	Assumed       int            `json:"assumed,omitzero"` // of Proxies, those that completion made from templates
	ControlPlanes []ControlPlane `json:"controlPlanes"`
	TrustDomain   string         `json:"trustDomain,omitempty"`
	Partial       string         `json:"partial,omitempty"` // the only namespace that was read; empty: all
	Totals        Totals         `json:"totals"`
}

// Totals is istiod's side: what it sends when every proxy connects afresh.
type Totals struct {
	Connections  int   `json:"connections"`
	EndpointRows int64 `json:"endpointRows"` // load-assignment rows over all connections
	Bytes        int64 `json:"bytes"`        // sum of bytes over all connections
}

// ControlPlane is one istiod revision.
type ControlPlane struct {
	Revision       string            `json:"revision"`
	Tags           []string          `json:"tags,omitempty"`
	Namespace      string            `json:"namespace"`
	Version        string            `json:"version"`
	VersionAssumed bool              `json:"versionAssumed,omitempty"` // no image tag, label or flag told
	Ref            Ref               `json:"ref,omitzero"`             // istiod's Deployment; zero: none found
	RootNamespace  string            `json:"rootNamespace"`
	OutboundPolicy string            `json:"outboundTrafficPolicy"`
	Flags          map[string]string `json:"flags,omitempty"` // istiod environment that differs from the version's default and changes xDS
	// MeshConfig has a digest for each top-level field of the effective mesh
	// config that is set, so that a diff can tell which one changed.
	MeshConfig map[string]string `json:"meshConfig,omitempty"`
	Proxies    int               `json:"proxies"`
}

// Kind of a proxy.
const (
	Sidecar = "sidecar"
	Router  = "router"
)

// Proxy is one connection to istiod.
type Proxy struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Kind      string `json:"kind"`               // sidecar | router
	Group     string `json:"group"`              // Group.ID
	Workload  string `json:"workload,omitempty"` // "deployment/reviews-v1"; empty: a bare pod
	Revision  string `json:"revision"`
	Version   string `json:"version"`
	Assumed   bool   `json:"assumed,omitempty"` // the pod was made by completion
}

// Counts are the numbers of resources that one proxy holds.
type Counts struct {
	XDS[int]
	Endpoints int `json:"endpointRows"` // rows in load assignments and DNS clusters
}

// Bytes are the bytes that one proxy holds, by type.
type Bytes struct {
	XDS[int64]
	Total int64 `json:"total"`
}

// Resources lists resources by type, each sorted by name.
type Resources = Lists[*Resource]

// Scope is what many groups share.
type Scope struct {
	ID        string    `json:"id"`
	By        Ref       `json:"by,omitzero"` // the Sidecar that decides; zero: istiod's default scope
	Text      string    `json:"text"`        // "Sidecar shop/default", "default scope of shop", "gateway edge/front"
	Resources Resources `json:"resources,omitzero"`
	// Uses are indexes into Audit.Objects: the VirtualServices and
	// DestinationRules that istiod knows a sidecar's scope to depend on, and
	// services of the scope that have no cluster.
	Uses []uint32 `json:"uses,omitempty"`
}

// Group is the proxies with identical config, up to what depends on the single pod.
type Group struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Workload  string    `json:"workload,omitempty"`
	Scope     string    `json:"scope"` // Scope.ID
	Proxies   int       `json:"proxies"`
	Counts    Counts    `json:"counts"`             // of one proxy, everything included
	Bytes     Bytes     `json:"bytes"`              // of one proxy, everything included
	Resources Resources `json:"resources,omitzero"` // what its proxies have beside the scope's: inbound
	// Without lists names of the scope's resources that its proxies do not get
	// (a headless service's listener for the pod's own address).
	Without Lists[string] `json:"without,omitzero"`
	// Resized gives the bytes of the scope's resources that weigh otherwise here.
	Resized Lists[Resized] `json:"resized,omitzero"`
}

// Resized is a resource of the scope with this group's bytes.
type Resized struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Service is the fan-out of one service: who receives it and what that weighs.
type Service struct {
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	Ref       Ref    `json:"ref"`
	Headless  bool   `json:"headless,omitempty"`
	Proxies   int    `json:"proxies"`   // that receive anything of it
	Bytes     int64  `json:"bytes"`     // on one proxy: the mean over those that receive it, rounded down
	Total     int64  `json:"total"`     // over all proxies
	Addresses int    `json:"addresses"` // distinct endpoint addresses
	// Istiod marks the control plane's own service: it goes to every proxy, and
	// no application calls it.
	Istiod bool `json:"istiod,omitempty"`
	// MTLS is what the service's proxies demand of callers, by their
	// PeerAuthentications: STRICT, PERMISSIVE, DISABLE, MIXED (endpoints
	// differ); empty: no endpoint has a proxy.
	MTLS string `json:"mtls,omitempty"`
	// HTTP says that every port is HTTP, gRPC among them; with details only.
	HTTP bool `json:"http,omitempty"`
	// Accounts tells sets of service accounts behind the endpoints apart; 0:
	// none, or without details.
	Accounts Digest `json:"accounts,omitzero"`
}

// Remainder is bytes that are sent for no service, for several, or for the pod
// itself.
type Remainder struct {
	Name    string `json:"name"`
	Proxies int    `json:"proxies"` // that have any of it
	Bytes   int64  `json:"bytes"`   // on one proxy: the mean over those that have it, rounded down
	Total   int64  `json:"total"`   // over all proxies
}

// Names of the remainder.
const (
	RestInbound    = "inbound"           // listeners and clusters of the pod's own ports
	RestListeners  = "shared listeners"  // of sidecars, for several services or for none
	RestGateway    = "gateway listeners" // of routers
	RestRoutes     = "shared routes"     // virtual hosts for several services or for none, and route configurations around their virtual hosts
	RestClusters   = "fixed clusters"    // passthrough, blackhole and what EnvoyFilters add, with their endpoints
	RestNames      = "name table"
	RestExtensions = "extensions" // configs of WasmPlugins and of EnvoyFilters
)

// GapKind says why something is not in the answer.
type GapKind string

// The kinds of gaps.
const (
	Unread     GapKind = "unread"     // could not be read: exit status 3
	Unmodelled GapKind = "unmodelled" // read, not modelled
	Assumed    GapKind = "assumed"    // completed by rule
)

// Gap is a known limit of the answer.
type Gap struct {
	Kind    GapKind  `json:"kind"`
	Object  Ref      `json:"object,omitzero"`
	Proxies []string `json:"proxies,omitempty"` // "namespace/name" of those that it may touch; empty with All false: none known
	All     bool     `json:"all,omitempty"`     // may touch every proxy
	Text    string   `json:"text"`
	Side    string   `json:"side,omitempty"` // of a diff: base or head; empty: both, or no diff
	// Counted: what was assumed is in the bytes, which are off as far as it is wrong.
	Counted bool `json:"counted,omitempty"`
}

// Diagnostic is input that could not be used.
type Diagnostic struct {
	Source Source `json:"source"`
	Object Ref    `json:"object,omitzero"` // as far as it could be read
	Text   string `json:"text"`
	Kept   bool   `json:"kept,omitempty"` // the object is in the audit all the same
	Side   string `json:"side,omitempty"` // of a diff: base or head; empty: both, or no diff
}

// AssumedAnnotation marks, with the value "true", an object that completion made.
const AssumedAnnotation = "mesh-audit/assumed"

// Object is an input object with a digest of its content.
type Object struct {
	Ref
	Digest string `json:"digest"`
	// Content is what the model reads of the object, as JSON, for a comparison to
	// tell which field changed; empty: not asked for, or of a kind that is not kept.
	Content json.RawMessage `json:"content,omitempty"`
	// Owner is the controller of a Pod or workload, the Service of an
	// EndpointSlice; zero: none.
	Owner   Ref  `json:"owner,omitzero"`
	Assumed bool `json:"assumed,omitempty"` // made by completion
}
