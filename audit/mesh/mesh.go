package mesh

import (
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// working is what only the making of a view needs.
type working struct {
	instances []*workloadInstance
	entries   map[string][]entryTarget     // ServiceEntry endpoints by address
	withheld  map[HostNamespace][]Endpoint // rows that istiod knows and does not send
	// proxyConfigs are effective ProxyConfigs by the texts that they come from.
	proxyConfigs map[string]*meshconfig.ProxyConfig
	places       map[place]*topology
}

// New makes the views of a snapshot: what each istiod of it sees.
func New(snap *snapshot.Snapshot) *Mesh {
	m := &Mesh{Snapshot: snap}
	g := newGaps()
	m.Views = viewsOf(snap, g)
	for _, view := range m.Views {
		view.build(snap, g)
	}
	m.proxies(g)
	for _, view := range m.Views {
		view.settingGaps(g)
		view.work = nil
	}
	m.objectGaps(g)
	m.keepRevision(g)
	sortGaps(g.list)
	m.Gaps = g.list
	return m
}

// build fills all of a view but its proxies.
func (v *View) build(snap *snapshot.Snapshot, g *gaps) {
	v.work = &working{
		entries: map[string][]entryTarget{}, withheld: map[HostNamespace][]Endpoint{},
		proxyConfigs: map[string]*meshconfig.ProxyConfig{}, places: map[place]*topology{},
	}
	v.settings(snap, g)
	v.selectNamespaces(snap, g)
	v.registry(snap)
	v.indexPods(snap)
	v.endpointTable(snap)
	v.virtualServices(snap)
	v.configs(snap)
}

// keepRevision leaves only the view that the user asked for.
func (m *Mesh) keepRevision(g *gaps) {
	want := m.Snapshot.Overrides.Revision
	if want == "" {
		return
	}
	a := &assignment{views: m.Views}
	if view := a.find(want); view != nil {
		m.Views = []*View{view}
		return
	}
	var have []string
	for _, view := range m.Views {
		have = append(have, view.Revision)
	}
	m.Views = nil
	g.add(result.Gap{Kind: result.Unread, All: true,
		Text: "no istiod of revision " + want + "; there are: " + strings.Join(have, ", ")})
}

// Identity is the SPIFFE identity of a service account (Istio pkg/spiffe).
func (v *View) Identity(namespace, account string) string {
	return "spiffe://" + strings.ReplaceAll(v.Config.GetTrustDomain(), "@", ".") + "/ns/" + namespace + "/sa/" + account
}
