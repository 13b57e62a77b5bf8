package result

// KindDiffReport is the kind of the saved form of a Diff.
const KindDiffReport = "DiffReport"

// Diff is what changes between two meshes, proxy by proxy, and why. It is
// symmetric: swapping the sides swaps lost and gained, before and after.
type Diff struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Base       DiffSide    `json:"base"`
	Head       DiffSide    `json:"head"`
	Summary    DiffSummary `json:"summary"`
	// Inputs are the objects and settings that changed, whether or not any
	// proxy notices.
	Inputs      []Input      `json:"inputs"`
	Groups      []DiffGroup  `json:"groups"`         // proxies of both sides that change
	Gone        []OneSided   `json:"gone,omitempty"` // proxies that only base has
	New         []OneSided   `json:"new,omitempty"`  // proxies that only head has
	Audiences   []Audience   `json:"audiences"`      // sets of groups that changes have in common
	Changes     []Change     `json:"changes"`        // lost, then gained, moved, changed, resized; within each by service, type and name
	Order       Order        `json:"order,omitzero"`
	Push        Push         `json:"push,omitzero"`
	Gaps        []Gap        `json:"gaps"` // of either side
	Diagnostics []Diagnostic `json:"diagnostics,omitempty"`
}

// DiffSide is one of the two meshes.
type DiffSide struct {
	Label string   `json:"label"` // as the user named it
	Mesh  MeshInfo `json:"mesh"`
}

// DiffSummary is the verdict in numbers. Proxies that only one side has are
// added or removed; they count in nothing else but the totals.
type DiffSummary struct {
	Proxies int `json:"proxies"` // that both sides have
	Changed int `json:"changed"` // that get anything else than before
	Lose    int `json:"lose"`    // that lose something that callers notice
	// LoseUnused counts those that lose only what is unused or served otherwise.
	LoseUnused int `json:"loseUnused"`
	Added      int `json:"added"`
	Removed    int `json:"removed"`
	// Emptied counts workloads that had proxies in base and have none in head.
	Emptied int `json:"emptied"`
	// LeastGrowth and MostGrowth are the ends of what one proxy's bytes per
	// connection change by, of the proxies that both sides have.
	LeastGrowth Growth `json:"leastGrowth"`
	MostGrowth  Growth `json:"mostGrowth"`
	Istiod      Growth `json:"istiod"` // of all connections of the mesh
	// Lost … Resized are numbers of changes, by what they are told as (Change.Told).
	Lost    int `json:"lost"`
	Gained  int `json:"gained"`
	Moved   int `json:"moved"`
	Altered int `json:"altered"` // told as changed
	Resized int `json:"resized"`
}

// Growth is bytes before and after.
type Growth struct {
	Base int64 `json:"base"`
	Head int64 `json:"head"`
}

// Delta is head less base.
func (g Growth) Delta() int64 { return g.Head - g.Base }

// Percent is the growth in per cent of the base; 0 if the base has none.
func (g Growth) Percent() float64 {
	if g.Base == 0 {
		return 0
	}
	return 100 * float64(g.Head-g.Base) / float64(g.Base)
}

// InputKind says what sort of input changed.
type InputKind string

// The kinds of changed input.
const (
	InputObject     InputKind = "object"
	InputMeshConfig InputKind = "meshConfig"   // given on the command line, or read from no object
	InputFlags      InputKind = "istiodFlags"  // likewise
	InputVersion    InputKind = "istioVersion" // likewise
)

// InputUnread is the Change of an object of which it cannot be told whether it
// was added or removed.
const InputUnread = "unread"

// Input is one changed object or setting.
type Input struct {
	ID     string    `json:"id"` // "i1"
	Kind   InputKind `json:"kind"`
	Change string    `json:"change"`        // added | removed | changed | unread: the side that lacks it may have it in what could not be read
	Base   Ref       `json:"base,omitzero"` // zero: added, or no object
	Head   Ref       `json:"head,omitzero"` // zero: removed, or no object
	// Text says what of a control plane's setting changed; empty for other objects.
	Text string `json:"text,omitempty"`
	// Fields are the fields of the object that differ, where both sides have it;
	// empty: it is of a kind whose content an audit does not keep (Pods, mesh
	// config and what istiod runs with), or either audit was saved without.
	Fields  []FieldChange `json:"fields,omitempty"`
	Changes int           `json:"changes"` // that it is a cause of
	Proxies int           `json:"proxies"` // that those touch
}

// Ref is the object as the head has it, else as the base had it.
func (i *Input) Ref() Ref {
	if i.Head.IsZero() {
		return i.Base
	}
	return i.Head
}

// FieldChange is one field of an object that differs.
type FieldChange struct {
	Path   string `json:"path"`             // "spec.http[0].route[1].weight"; list elements by their index in head, else in base
	Before string `json:"before,omitempty"` // a number, a text, or JSON; empty: not set
	After  string `json:"after,omitempty"`  // likewise
}

// OneSided is proxies of one workload that only one side has, and are alike.
type OneSided struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Workload  string   `json:"workload,omitempty"`
	Proxies   []string `json:"proxies"` // names, sorted
	Bytes     Bytes    `json:"bytes"`   // of one proxy
	Left      int      `json:"left"`    // proxies of the workload on the other side
	Inputs    []string `json:"inputs,omitempty"`
}

// DiffGroup is proxies that were alike before and are alike after.
type DiffGroup struct {
	ID        string   `json:"id"` // "d1"
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Workload  string   `json:"workload,omitempty"`
	Proxies   []string `json:"proxies"` // names of the head's pods, sorted
	// BaseScope and HeadScope are Scope.Text on either side.
	BaseScope string `json:"baseScope"`
	HeadScope string `json:"headScope"`
	BaseBytes Bytes  `json:"baseBytes"` // of one proxy
	HeadBytes Bytes  `json:"headBytes"`
	Lose      bool   `json:"lose,omitempty"` // it loses something that callers notice
}

// Growth is what one proxy's bytes per connection change by.
func (g *DiffGroup) Growth() Growth { return Growth{Base: g.BaseBytes.Total, Head: g.HeadBytes.Total} }

// Audience is a set of groups.
type Audience struct {
	ID      string   `json:"id"`     // "a1"
	Groups  []string `json:"groups"` // DiffGroup.ID
	Proxies int      `json:"proxies"`
}

// ChangeKind says what becomes of a resource or part.
type ChangeKind string

// The kinds of changes, in the order in which they are told.
const (
	Lost    ChangeKind = "lost"
	Gained  ChangeKind = "gained"
	Moved   ChangeKind = "moved"   // the same under another name
	Changed ChangeKind = "changed" // the same name, another content
	// ResizedOnly is other amounts of the same: endpoints, names of a name
	// table, bytes.
	ResizedOnly ChangeKind = "resized"
)

// ChangeKinds are all kinds, in their order.
var ChangeKinds = []ChangeKind{Lost, Gained, Moved, Changed, ResizedOnly}

// Change is one change of one resource, or of one part of it, that is the same
// for all proxies of its audience.
type Change struct {
	Kind     ChangeKind `json:"kind"`
	Type     string     `json:"type"` // one of Types
	Resource string     `json:"resource"`
	// Part is the virtual host's name or the filter chain's match that changes;
	// nil: the resource as a whole.
	Part    *string `json:"part,omitempty"`
	To      string  `json:"to,omitempty"`      // moved: the resource that has it in head
	ToPart  *string `json:"toPart,omitempty"`  // moved: the part of To
	Service string  `json:"service,omitempty"` // host name that it is sent for; empty: none or several
	Before  []Part  `json:"before,omitempty"`  // what is gone or changed, as it was
	After   []Part  `json:"after,omitempty"`   // what has come or changed, as it is
	// Fields says what of a changed part is different: domains, to, type, rule,
	// endpoints, hosts, match; content: something else in the message.
	Fields []string `json:"fields,omitempty"`
	// LostDomains are those of a changed virtual host's domains that no virtual
	// host of its route configuration has any more; GainedDomains the reverse.
	LostDomains   []string `json:"lostDomains,omitempty"`
	GainedDomains []string `json:"gainedDomains,omitempty"`
	// Fails says how requests to a changed part now fail that did not before;
	// Recovers the reverse.
	Fails    []string `json:"fails,omitempty"`
	Recovers []string `json:"recovers,omitempty"`
	// Sees is what callers now see of something lost; empty: nothing.
	Sees string `json:"sees,omitempty"`
	// Harmless marks a loss by which nothing fails for certain: nothing leads to
	// it any more, or what leads there is served otherwise, as Sees tells.
	Harmless bool     `json:"harmless,omitempty"`
	Inputs   []string `json:"inputs,omitempty"` // Input.ID of the causes
	Audience string   `json:"audience"`         // Audience.ID
	// LeastBytes and MostBytes are the ends of what one proxy's bytes change by.
	LeastBytes int64 `json:"leastBytes"`
	MostBytes  int64 `json:"mostBytes"`
}

// Loses reports whether something is gone for callers: a lost resource or part,
// a domain of a changed virtual host, or an answer that is a failure now.
func (c *Change) Loses() bool { return c.Kind == Lost || len(c.LostDomains)+len(c.Fails) > 0 }

// Gains is the reverse of Loses.
func (c *Change) Gains() bool {
	return c.Kind == Gained || len(c.GainedDomains)+len(c.Recovers) > 0
}

// Noticed reports whether something is lost that callers notice.
func (c *Change) Noticed() bool { return c.Loses() && !c.Harmless }

// Told is the kind that the change is told as: what it loses goes before what
// it gains, and that before the rest.
func (c *Change) Told() ChangeKind {
	switch {
	case c.Loses():
		return Lost
	case c.Gains():
		return Gained
	}
	return c.Kind
}

// Order is how to apply the change without passing through a state that loses
// traffic. It is zero where any order will do.
type Order struct {
	Hazards []Hazard `json:"hazards,omitempty"`
	Steps   []Step   `json:"steps,omitempty"` // all objects that hazards name, in a safe order
	// Unsafe says why no order of whole objects is safe; empty: Steps is.
	Unsafe string `json:"unsafe,omitempty"`
}

// Hazard is two changed inputs whose order matters.
type Hazard struct {
	First string `json:"first"` // Input.ID
	Then  string `json:"then"`  // Input.ID
	Text  string `json:"text"`  // what callers would see in between
}

// Step applies or deletes one object.
type Step struct {
	Input string `json:"input"` // Input.ID
	Do    string `json:"do"`    // apply | delete
}

// Push is the work that the change itself makes for istiod and the proxies.
type Push struct {
	Reconnect string      `json:"reconnect,omitempty"` // why every proxy connects afresh instead; empty: none does
	Proxies   int         `json:"proxies"`             // that are sent anything
	Bytes     int64       `json:"bytes"`               // over all of them
	Inputs    []InputPush `json:"inputs,omitempty"`
	Later     []LaterPush `json:"later,omitempty"`
}

// InputPush is the push for one changed input, applied alone.
type InputPush struct {
	Input   string   `json:"input"`
	Proxies XDS[int] `json:"proxies"` // that are sent each type
	Any     int      `json:"any"`     // that are sent any type
	Bytes   int64    `json:"bytes"`
	Text    string   `json:"text"` // how istiod decides
}

// LaterPush says where a later change of a service's endpoints is pushed.
type LaterPush struct {
	Service   string `json:"service"`
	Namespace string `json:"namespace"`
	Base      int    `json:"base"`  // proxies before
	Head      int    `json:"head"`  // proxies after
	Bytes     int64  `json:"bytes"` // sent over all proxies for one changed endpoint, after
}
