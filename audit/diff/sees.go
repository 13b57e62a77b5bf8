package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Names that istiod gives to clusters, listeners and matches of its own
// (Istio pilot/pkg/util/network, pilot/pkg/networking/util).
const (
	passthroughCluster = "PassthroughCluster"
	blackHoleCluster   = "BlackHoleCluster"
	virtualOutbound    = "virtualOutbound"
	virtualInbound     = "virtualInbound"
)

// What callers see, in Envoy's words where it has any (response flags of
// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage).
const (
	seesNoCluster   = "503 NC (the route leads to a cluster that is gone)"
	seesNoClusterL4 = "connection closed (the chain leads to a cluster that is gone)"
	seesNoRoute     = "404 NR"
	seesNoHost      = "503 UH (no endpoint)"
	seesNoHostL4    = "connection closed (no endpoint)"
	seesNoChain     = "connection closed (no filter chain matches)"
	seesNoListener  = "connection refused (nothing listens)"
	seesPassthrough = "passthrough: forwarded as it is to the original address, without the mesh's routes, policy or mTLS"
	seesReset       = "connection reset: passthrough sends plaintext, the service demands STRICT mTLS"
	seesBlackHole   = "connection closed by outboundTrafficPolicy REGISTRY_ONLY"
	seesBlackHole7  = "502 by outboundTrafficPolicy REGISTRY_ONLY"
	seesPlaintext   = "connection reset for plaintext callers (STRICT mTLS)"
)

// sees tells what callers see, on the head, of what is lost; empty: nothing, or
// it is not known. A loss is harmless where nothing leads to it any more, or
// what leads there is served as well.
func (c *comparer) sees(x *pairView, f *found) (sees string, harmless bool) {
	if !f.Loses() {
		return "", false
	}
	if f.Kind == result.Lost || len(f.LostDomains) > 0 {
		sees, harmless = c.seesLoss(x, f)
	}
	if len(f.Fails) == 0 {
		return sees, harmless
	}
	said := slices.Clone(f.Fails)
	if sees != "" {
		said = append(said, sees)
	}
	return strings.Join(said, "; "), false
}

func (c *comparer) seesLoss(x *pairView, f *found) (sees string, harmless bool) {
	switch f.Type {
	case "cds", "eds":
		sees = c.refs(x.head).withoutCluster(f.Resource, len(f.After) > 0)
		return sees, sees == ""
	case "rds":
		return c.withoutName(x, f, c.seesRoutes(x, f))
	case "lds":
		if f.Part != nil && (f.Resource == virtualInbound || len(named(*x.base.shared("lds"), f.Resource)) == 0) {
			sees = plaintextRefused(f)
			return sees, sees == ""
		}
		return c.withoutName(x, f, c.seesListener(x, f))
	}
	return "", false
}

// outcome is what callers see of a loss.
type outcome struct {
	sees     string
	harmless bool
}

// seesRoutes tells of a lost route configuration or virtual host, or of lost
// domains of one.
func (c *comparer) seesRoutes(x *pairView, f *found) outcome {
	if by, ok := c.servedBy(x, f, configPort(f.Resource)); ok {
		return by
	}
	if len(x.head.find("rds", f.Resource)) > 0 {
		return c.withoutHosts(x, f)
	}
	if !x.head.isRouter() {
		return c.passed(x, f, x.head.withoutListener("_"+configPort(f.Resource)))
	}
	for _, l := range *x.base.shared("lds") {
		leads := func(p result.Part) bool { return slices.Contains(p.To, "rds "+f.Resource) }
		if slices.ContainsFunc(l.Parts, leads) && len(x.head.find("lds", l.Name)) > 0 {
			return outcome{sees: x.head.withoutChain(l.Name)}
		}
	}
	return outcome{sees: seesNoListener}
}

// seesListener tells of a lost outbound listener or gateway's listener, or of a
// lost chain of one.
func (c *comparer) seesListener(x *pairView, f *found) outcome {
	if by, ok := c.servedBy(x, f, portOf(f.Resource)); ok {
		return by
	}
	switch {
	case f.Part != nil:
		if by := x.head.defaultChain(f.Resource); by != nil && len(f.Before) == 1 && len(by.To) > 0 && slices.Equal(by.To, f.Before[0].To) {
			return outcome{fmt.Sprintf("filter chain %q instead", text(by.Match)), true}
		}
		return c.passed(x, f, x.head.withoutChain(f.Resource))
	case x.head.isRouter():
		return outcome{sees: seesNoListener}
	}
	return c.passed(x, f, x.head.withoutListener(f.Resource))
}

// portOf is the port at the end of a listener's name.
func portOf(listener string) string { return listener[strings.LastIndexByte(listener, '_')+1:] }

// destinations are the hosts that parts lead to, by way of route configurations too.
func (v groupView) destinations(parts []result.Part) map[string]bool {
	hosts := map[string]bool{}
	for i := range parts {
		for _, to := range parts[i].To {
			if name, ok := strings.CutPrefix(to, "rds "); ok {
				for _, r := range v.find("rds", name) {
					for host := range v.destinations(r.Parts) {
						hosts[host] = true
					}
				}
			} else if cl, ok := parseCluster(strings.TrimPrefix(to, "cluster ")); ok {
				hosts[cl.host] = true
			}
		}
	}
	return hosts
}

// isRouter reports whether the scope is a gateway's: it redirects nothing.
func (v groupView) isRouter() bool { return len(named(*v.shared("lds"), virtualOutbound)) == 0 }

// passed turns passthrough into a reset where the services demand mTLS.
func (c *comparer) passed(x *pairView, f *found, sees string) outcome {
	if sees != seesPassthrough {
		return outcome{sees: sees}
	}
	var strict, mixed, others []string
	for _, host := range c.passedTo(x, f) {
		switch c.demands(host) {
		case "STRICT":
			strict = append(strict, host)
		case "MIXED":
			mixed = append(mixed, host)
		default:
			others = append(others, host)
		}
	}
	switch {
	case len(strict)+len(mixed) == 0:
		return outcome{sees: sees}
	case len(mixed)+len(others) == 0:
		return outcome{sees: seesReset}
	case len(strict) == 0:
		return outcome{sees: sees + "; connection reset by the endpoints of " + some(mixed) + " that demand STRICT mTLS"}
	}
	return outcome{sees: sees + "; connection reset for " + some(append(strict, mixed...)) + ", where STRICT mTLS is demanded"}
}

// demands is what the servers of a host demand of callers, on the head; where it
// is gone, on the base.
func (c *comparer) demands(host string) string {
	services := c.head.services[host]
	if len(services) == 0 {
		services = c.base.services[host]
	}
	mode := ""
	for _, s := range services {
		if mode != "" && s.MTLS != mode {
			return "MIXED"
		}
		mode = s.MTLS
	}
	return mode
}

// passedTo are the services whose own addresses something lost took: connections
// that are passed through go there, wherever routes led to before.
func (c *comparer) passedTo(x *pairView, f *found) []string {
	if f.Service != "" {
		return []string{f.Service}
	}
	hosts := map[string]bool{}
	var note func([]result.Part)
	note = func(parts []result.Part) {
		for i := range parts {
			if parts[i].Service != "" {
				hosts[parts[i].Service] = true
				continue
			}
			for _, to := range parts[i].To {
				if name, ok := strings.CutPrefix(to, "rds "); ok {
					for _, r := range x.base.find("rds", name) {
						note(r.Parts)
					}
				}
			}
		}
	}
	note(f.Before)
	if len(hosts) == 0 {
		hosts = x.base.destinations(f.Before)
	}
	return slices.Sorted(maps.Keys(hosts))
}

// withoutName adds that the name of a Service that is removed no longer
// resolves, but where the proxies resolve names themselves and know it.
func (c *comparer) withoutName(x *pairView, f *found, o outcome) (sees string, harmless bool) {
	if x.head.isRouter() {
		return o.sees, o.harmless
	}
	var names []string
	for _, host := range c.passedTo(x, f) {
		if c.nameless(host) && (len(c.head.services[host]) == 0 || len(*x.head.shared("nds")) == 0) {
			names = append(names, host)
		}
	}
	if len(names) == 0 {
		return o.sees, o.harmless
	}
	sees = "NXDOMAIN for " + some(names) + ": no Service of the name any more"
	if o.sees != "" {
		sees += "; by address: " + o.sees
	}
	return sees, false
}

// nameless reports whether a host was a Service's, whose name the cluster's DNS
// has, and no such Service is left.
func (c *comparer) nameless(host string) bool {
	was := false
	for _, svc := range c.base.services[host] {
		if svc.Ref.Kind != "Service" {
			continue
		}
		if c.head.object(objectOf(svc.Ref)) != nil {
			return false
		}
		was = true
	}
	return was
}

// some names a few of a list.
func some(names []string) string {
	const most = 3
	text := strings.Join(names[:min(most, len(names))], ", ")
	if rest := len(names) - most; rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}
