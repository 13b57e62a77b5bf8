// Package xds projects a scope to what istiod sends: listeners, route
// configurations, clusters, load assignments and name tables, with their parts
// and bytes.
//
// Each resource is built once for each distinct shape as the Envoy message
// itself (go-control-plane), measured with proto.Size and dropped; what many
// proxies share is built once for each scope. Names, parts and bytes come from
// the same message, so they cannot disagree.
package xds

import (
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// Builder makes the resources of one istiod revision's proxies. It is not safe
// for use by several goroutines: a run makes one for each.
type Builder struct {
	view   *mesh.View
	scoper *scope.Scoper
	rec    scope.Recorder
	gaps   []result.Gap // what could not be modelled

	patches       *patchIndex                   // EnvoyFilters; nil: not read yet
	patchValues   map[*envoyPatch]proto.Message // decoded; nil: not yet
	routes        *routeMemo
	looked        lookupMemo
	listeners     listenerMemo
	inboundShapes map[string]*inboundShape
	keys          workloadKeys
	configTexts   map[*meshconfig.ProxyConfig]string // what listeners read of them
	commons       map[commonKey]*commonLists
	routeFans     map[*result.Resource][]*Fan // of those without parts
	brief         bool
	fans          fanIndex
	memo          *clusterMemo                  // clusters and load assignments; nil: none built yet
	discovered    map[*result.Resource][]string // extension configs that a listener refers to
	digests       digests
	assigned      *assignments
}

// New makes a Builder that tells rec of each decision.
func New(view *mesh.View, scoper *scope.Scoper, rec scope.Recorder) *Builder {
	return &Builder{
		view: view, scoper: scoper, rec: rec, routes: newRouteMemo(),
		assigned: &assignments{known: map[assignmentKey]assigned{}},
	}
}

// Brief makes the builder leave out the parts of sidecars' route configurations.
// Names, bytes and what they are for are the same.
func (b *Builder) Brief() { b.brief = true }

// DigestContents makes the builder fill in the digests of contents.
func (b *Builder) DigestContents() { b.digests = true }

// ShareWith makes the builder use the load assignments of another one of the same
// view and the same options, which may build at the same time.
func (b *Builder) ShareWith(other *Builder) { b.assigned = other.assigned }

// Outbound is what all proxies of a scope share, each list sorted by name.
type Outbound struct {
	Clusters  []*result.Resource
	Endpoints []*result.Resource // load assignments of the EDS clusters
	Listeners []*Listener
	Routes    []*result.Resource // those that the listeners refer to
}

// Listener is an outbound listener with what a single proxy may change of it.
type Listener struct {
	result.Resource
	// Routes are the route configurations that its chains refer to by RDS, sorted.
	Routes []string
	// OwnAddress is the pod address whose own proxy does not get it (HL-1); empty: all get it.
	OwnAddress string
	// tags says where bytes depend on the proxy's own values (SIZE-15).
	tags *tagged
	// shape tells which proxies have these bytes but for tags; nil: all have
	// these very bytes.
	shape *listenerShape
}
