package diff

import (
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// event is what istiod hears of a changed input: one configuration kind with,
// where istiod goes by them, its services.
type event struct {
	kind      string // istiod's kind: ServiceEntry for any service, Endpoints for its endpoints
	object    object
	hosts     []string // of kind ServiceEntry and Endpoints
	headless  headless // of kind Endpoints
	reconnect string   // every proxy connects afresh
	forced    bool     // everything to everyone
	own       bool     // of a Pod: everything to its own proxy
	out       result.InputPush
}

// headless is what more than endpoints the endpoints of a service change.
type headless int

const (
	notHeadless  headless = iota
	headlessHTTP          // names only
	headlessTCP           // listeners of its addresses too
)

// Words for how istiod decides.
const (
	pushForced    = "everything to every proxy"
	pushSidecar   = "to sidecars whose scope has it, and gateways"
	pushSelected  = "to the proxies that the Sidecar decides"
	pushGateway   = "to gateways only"
	pushNamespace = "to the proxies of its namespace, or all from the root namespace, and every gateway"
	pushPeers     = "to proxies that are in its namespace or import a service of it, and gateways"
	pushService   = "to proxies that import the service or belong to it"
	pushEndpoints = "endpoints only, to proxies that import the service"
	pushFirst     = "the service's first endpoints, or service accounts change: as a change of the service"
	pushHeadless  = "headless: listeners of every sidecar that imports the service"
	pushNames     = "headless, only HTTP: name tables, and endpoints to proxies that import the service"
	pushPod       = "everything to the pod's own proxy, endpoints to proxies that import its services"
)

var namespaced = []string{"EnvoyFilter", "AuthorizationPolicy", "RequestAuthentication", "WasmPlugin", "Telemetry"}

var workloadKinds = map[string]bool{"Deployment": true, "StatefulSet": true, "DaemonSet": true, "ReplicaSet": true, "Job": true, "CronJob": true}

// eventOf is what istiod hears of an input; nil: it watches nothing of it.
func (c *comparer) eventOf(i int) *event {
	in := &c.out.Inputs[i]
	e := &event{object: objectOf(in.Ref()), kind: in.Ref().Kind}
	var words string
	switch {
	case in.Kind == result.InputVersion, in.Kind == result.InputFlags, e.kind == "Deployment" && in.Text != "":
		e.reconnect = "istiod restarts: every proxy connects afresh and is sent everything"
		e.forced, words = true, pushForced
	case in.Kind == result.InputMeshConfig, e.kind == "ConfigMap":
		e.forced, words = true, pushForced
	case e.kind == "Service", e.kind == "ServiceEntry":
		e.kind, e.hosts, words = "ServiceEntry", c.hostsFor(e.object), pushService
	case e.kind == "Namespace":
		e.kind, e.hosts, words = "ServiceEntry", c.changedHosts(in.ID), pushService
	case e.kind == "Pod" && in.Change == "changed":
		c.endpointsEvent(e, in)
		e.own, words = true, pushPod
	case e.kind == "EndpointSlice", e.kind == "WorkloadEntry", e.kind == "Pod", workloadKinds[e.kind]:
		words = c.endpointsEvent(e, in)
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

// hostsFor are the host names of a Service or ServiceEntry, on either side.
func (c *comparer) hostsFor(o object) []string {
	if c.hosts == nil {
		c.hosts = map[object][]string{}
		for _, s := range []*side{c.base, c.head} {
			for i := range s.Services {
				key := objectOf(s.Services[i].Ref)
				c.hosts[key] = append(c.hosts[key], s.Services[i].Host)
			}
		}
	}
	return distinct(c.hosts[o])
}

// changedHosts are the services of which endpoints or clusters change because
// of an input.
func (c *comparer) changedHosts(input string) []string {
	if c.touched == nil {
		c.touched = map[string][]string{}
		for _, entry := range c.entries {
			for _, id := range entry.change.Inputs {
				if entry.change.Service != "" {
					c.touched[id] = append(c.touched[id], entry.change.Service)
				}
			}
		}
	}
	return distinct(c.touched[input])
}

// endpointsEvent finds the services whose endpoints an input changes: by its
// owner, by what its own proxy serves, else by the changes that it is a cause
// of. It returns how istiod decides: the service's first endpoints and other
// service accounts are to it a change of the service (Istio
// model.EndpointIndex.UpdateServiceEndpoints).
func (c *comparer) endpointsEvent(e *event, in *result.Input) string {
	switch {
	case e.kind == "EndpointSlice":
		e.hosts = c.hostsFor(c.sliceOf(in))
	case e.kind == "Pod" && in.Change == "changed":
		e.hosts = distinct(append(c.podServices(e.object), c.changedHosts(in.ID)...))
	default:
		e.hosts = c.changedHosts(in.ID)
	}
	e.kind = "Endpoints"
	for _, host := range e.hosts {
		if c.anew(host) {
			e.kind = "ServiceEntry"
			return pushFirst
		}
	}
	for _, host := range e.hosts {
		for _, s := range c.head.services[host] {
			if s.Headless && s.Ref.Kind == "Service" {
				e.headless = max(e.headless, headlessKind(s))
			}
		}
	}
	switch e.headless {
	case headlessTCP:
		return pushHeadless
	case headlessHTTP:
		return pushNames
	}
	return pushEndpoints
}

func headlessKind(s *result.Service) headless {
	if s.HTTP {
		return headlessHTTP
	}
	return headlessTCP
}

// anew reports whether a service gets its first endpoints, or other service
// accounts behind them.
func (c *comparer) anew(host string) bool {
	for _, is := range c.head.services[host] {
		for _, was := range c.base.services[host] {
			if was.Namespace == is.Namespace && is.Addresses > 0 && (was.Addresses == 0 || was.Accounts != is.Accounts) {
				return true
			}
		}
	}
	return false
}

// podServices are the services that a pod's own proxy has inbound clusters of.
func (c *comparer) podServices(pod object) []string {
	for i := range c.pairs {
		p := &c.pairs[i]
		if p.head.Namespace == pod.namespace && slices.Contains(p.names, pod.name) {
			return served(p.head)
		}
	}
	return nil
}

// served are the services that a group's proxies have inbound clusters of.
func served(g *result.Group) []string {
	var out []string
	for _, r := range g.Resources.CDS {
		if r.Service != "" && strings.HasPrefix(r.Name, "inbound|") {
			out = append(out, r.Service)
		}
	}
	return distinct(out)
}
