package diff

import (
	"cmp"
	"slices"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// push tells what istiod sends because of the change: whom each input alone,
// and whom all together, as istiod 1.31 decides (Istio pilot/pkg/xds
// proxy_dependencies.go and lds.go, rds.go, cds.go, eds.go, nds.go, ecds.go).
// Listeners and routes go out whole, clusters and endpoints only of the
// services concerned where istiod can tell them.
func (c *comparer) push() {
	p := &c.out.Push
	var events []*event
	for i := range c.out.Inputs {
		e := c.eventOf(i)
		if e == nil {
			continue
		}
		if e.reconnect != "" && p.Reconnect == "" {
			p.Reconnect = e.reconnect
		}
		e.out.Input = c.out.Inputs[i].ID
		events = append(events, e)
	}
	c.setInterest(events)
	for i := range c.pairs {
		pr := &c.pairs[i]
		var all sent
		for _, e := range events {
			s := c.sentTo(pr, e)
			s.add(&e.out, len(pr.names), c.bytesOf(pr, s))
			all = all.union(s)
		}
		if bytes := c.bytesOf(pr, all); bytes > 0 {
			p.Proxies += len(pr.names)
			p.Bytes += bytes * int64(len(pr.names))
		}
	}
	for _, e := range events {
		p.Inputs = append(p.Inputs, e.out)
	}
	slices.SortStableFunc(p.Inputs, func(x, y result.InputPush) int { return cmp.Compare(y.Bytes, x.Bytes) })
	c.later()
}

// event is what istiod hears of a changed input: one configuration kind with,
// where istiod goes by them, its services.
type event struct {
	kind      string // istiod's kind: ServiceEntry for any service, Endpoints for its endpoints
	object    object
	hosts     []string // of kind ServiceEntry and Endpoints
	headless  bool     // Endpoints of a headless service
	reconnect string   // every proxy connects afresh
	forced    bool     // everything to everyone
	out       result.InputPush
}

// Words for how istiod decides.
const (
	pushForced    = "everything to every proxy"
	pushSidecar   = "to sidecars whose scope has it, and gateways"
	pushSelected  = "to the proxies that the Sidecar decides"
	pushGateway   = "to gateways only"
	pushNamespace = "to the proxies of its namespace, or all from the root namespace, and every gateway"
	pushPeers     = "to proxies that are in its namespace or import a service of it"
	pushService   = "to proxies that import the service or belong to it"
	pushEndpoints = "endpoints only, to proxies that import the service"
	pushHeadless  = "headless: listeners of every sidecar that imports the service"
)

var namespaced = []string{"EnvoyFilter", "AuthorizationPolicy", "RequestAuthentication", "WasmPlugin", "Telemetry"}

// eventOf is what istiod hears of an input; nil: it watches nothing of it.
func (c *comparer) eventOf(i int) *event {
	in := &c.out.Inputs[i]
	e := &event{object: objectOf(in.Ref()), kind: in.Ref().Kind}
	var words string
	switch {
	case in.Kind == result.InputVersion, in.Kind == result.InputFlags:
		e.reconnect = "istiod restarts: every proxy connects afresh and is sent everything"
		e.forced, words = true, pushForced
	case e.kind == "Deployment" && in.Text != "":
		e.reconnect = "istiod restarts: every proxy connects afresh and is sent everything"
		e.forced, words = true, pushForced
	case in.Kind == result.InputMeshConfig, e.kind == "ConfigMap":
		e.forced, words = true, pushForced
	case e.kind == "Service", e.kind == "ServiceEntry":
		e.kind, e.hosts, words = "ServiceEntry", c.hostsFor(e.object), pushService
	case e.kind == "EndpointSlice", e.kind == "WorkloadEntry", e.kind == "Pod", workloadKinds[e.kind]:
		c.endpointsEvent(e, in)
		words = pushEndpoints
		if e.headless {
			words = pushHeadless
		}
	case e.kind == "VirtualService", e.kind == "DestinationRule":
		words = pushSidecar
	case e.kind == "Sidecar":
		words = pushSelected
	case e.kind == "Gateway":
		words = pushGateway
	case e.kind == "PeerAuthentication":
		words = pushPeers
	case slices.Contains(namespaced, e.kind):
		words = pushNamespace
	default:
		return nil
	}
	e.out.Text = words
	return e
}

var workloadKinds = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true, "Job": true, "CronJob": true}

// hostsFor are the host names of a Service or ServiceEntry, on either side.
func (c *comparer) hostsFor(o object) []string {
	var out []string
	for _, s := range []*side{c.base, c.head} {
		for i := range s.Services {
			if objectOf(s.Services[i].Ref) == o {
				out = append(out, s.Services[i].Host)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// endpointsEvent finds the services whose endpoints an input changes: by its
// owner, else by the changes of endpoints that it is a cause of.
func (c *comparer) endpointsEvent(e *event, in *result.Input) {
	e.kind = "Endpoints"
	if e.object.kind == "EndpointSlice" {
		e.hosts = c.hostsFor(c.sliceOf(in))
	} else {
		for _, entry := range c.entries {
			if slices.Contains(entry.change.Inputs, in.ID) && entry.change.Service != "" && (entry.change.Type == "eds" || entry.change.Type == "lds") {
				e.hosts = append(e.hosts, entry.change.Service)
			}
		}
		slices.Sort(e.hosts)
		e.hosts = slices.Compact(e.hosts)
	}
	for _, host := range e.hosts {
		for _, s := range c.head.services[host] {
			e.headless = e.headless || s.Headless
		}
	}
}

// sent is which types a proxy is sent, and of clusters and endpoints how many.
type sent struct {
	lds, rds, nds, ecds bool
	cds, eds            extent
}

// extent is all of a type, or the services'.
type extent struct {
	any, all bool
	hosts    []string
}

func (x extent) union(y extent) extent {
	return extent{any: x.any || y.any, all: x.all || y.all, hosts: slices.Concat(x.hosts, y.hosts)}
}

func (s sent) union(t sent) sent {
	return sent{
		lds: s.lds || t.lds, rds: s.rds || t.rds, nds: s.nds || t.nds, ecds: s.ecds || t.ecds,
		cds: s.cds.union(t.cds), eds: s.eds.union(t.eds),
	}
}

var everything = sent{lds: true, rds: true, nds: true, ecds: true, cds: extent{any: true, all: true}, eds: extent{any: true, all: true}}

// add counts n proxies that are sent s, of so many bytes each.
func (s sent) add(out *result.InputPush, n int, bytes int64) {
	if bytes == 0 {
		return
	}
	out.Any += n
	out.Bytes += bytes * int64(n)
	for _, t := range []struct {
		on   bool
		into *int
	}{
		{s.lds, &out.Proxies.LDS}, {s.rds, &out.Proxies.RDS}, {s.cds.any, &out.Proxies.CDS}, {s.eds.any, &out.Proxies.EDS},
		{s.nds, &out.Proxies.NDS}, {s.ecds, &out.Proxies.ECDS},
	} {
		if t.on {
			*t.into += n
		}
	}
}

// bytesOf is what the types that a proxy is sent weigh, on the head.
func (c *comparer) bytesOf(p *pair, s sent) int64 {
	b := p.head.Bytes
	total := int64(0)
	for _, t := range []struct {
		on    bool
		bytes int64
	}{{s.lds, b.LDS}, {s.rds, b.RDS}, {s.nds, b.NDS}, {s.ecds, b.ECDS}} {
		if t.on {
			total += t.bytes
		}
	}
	if s.cds.any {
		total += c.extentBytes(p, "cds", s.cds, b.CDS)
	}
	if s.eds.any {
		total += c.extentBytes(p, "eds", s.eds, b.EDS)
	}
	return total
}

// extentBytes is all of a type, or the services' part; with clusters go those
// that belong to no service, which istiod builds every time.
func (c *comparer) extentBytes(p *pair, xdsType string, x extent, all int64) int64 {
	if x.all {
		return all
	}
	facts := c.factsOf(c.head, c.headScope(p))
	total := int64(0)
	if xdsType == "cds" {
		total = facts.fixed
		for _, r := range p.head.Resources.CDS {
			total += r.Bytes
		}
	}
	for _, host := range distinct(x.hosts) {
		if h := facts.hosts[host]; h != nil {
			total += *h.Of(xdsType)
		}
	}
	return total
}
