package scope

import (
	"slices"
	"strconv"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Gaps tells where the age of objects decides and they are equally old, so
// that istiod's tie-break by name, or nothing at all, decides (TRAP-10), and
// which of the routers asked for so far depend on the order of connections
// (TRAP-3).
func (s *Scoper) Gaps() []result.Gap {
	out := slices.Concat(s.sidecarTies(), s.serviceTies(), s.ruleTies())
	told := map[string]bool{}
	for _, p := range s.view.Proxies {
		if p.Kind == mesh.RouterProxy && !told[p.Namespace] && s.orderDependent[p.Namespace] {
			told[p.Namespace] = true
			out = append(out, result.Gap{Kind: result.Assumed, Proxies: s.routersOf(p.Namespace),
				Text: "istiod gives a gateway the default scope of a sidecar of its namespace if that connected first: the proxies are taken to connect in the order of their names (TRAP-3)"})
		}
	}
	return out
}

func (s *Scoper) routersOf(ns string) []string {
	var out []string
	for _, p := range s.view.Proxies {
		if p.Kind == mesh.RouterProxy && p.Namespace == ns {
			out = append(out, ns+"/"+p.Name)
		}
	}
	return out
}

// sidecarTies tells of proxies for which two equally old Sidecars would do (SC-1).
func (s *Scoper) sidecarTies() []result.Gap {
	var out []result.Gap
	type pair struct{ chosen, other *sidecarConfig }
	at := map[pair]int{}
	for _, p := range s.view.Proxies {
		if p.Kind != mesh.SidecarProxy {
			continue
		}
		chosen := s.sidecars.choose(p)
		other := s.sidecars.runnerUp(chosen, p)
		if other == nil {
			continue
		}
		i, known := at[pair{chosen, other}]
		if !known {
			i = len(out)
			at[pair{chosen, other}] = i
			out = append(out, result.Gap{Kind: result.Assumed, Object: other.Ref(),
				Text: "as old as Sidecar " + chosen.Namespace + "/" + chosen.Name + ", which applies because its name comes first (SC-1)"})
		}
		out[i].Proxies = append(out[i].Proxies, p.Namespace+"/"+p.Name)
	}
	return out
}

// runnerUp is the next Sidecar that would apply to a proxy, if it is as old as
// the one that does and of the same sort; else nil.
func (s *sidecars) runnerUp(chosen *sidecarConfig, p *mesh.Proxy) *sidecarConfig {
	if chosen == nil {
		return nil
	}
	list := s.byNamespace[chosen.Namespace]
	selecting := chosen.Spec.GetWorkloadSelector() != nil
	for _, cfg := range list[slices.Index(list, chosen)+1:] {
		selector := cfg.Spec.GetWorkloadSelector()
		if cfg.Created != chosen.Created || (selector != nil) != selecting {
			return nil
		}
		if selector == nil || p.Labels.Include(selector.GetLabels()) {
			return cfg
		}
	}
	return nil
}

// serviceTies tells of equally old ServiceEntries that make one host and do not merge (REG-22, SC-14, SC-20).
func (s *Scoper) serviceTies() []result.Gap {
	var out []result.Gap
	told := map[[2]result.Ref]bool{}
	for _, svc := range s.view.Services {
		if svc.Kubernetes {
			continue
		}
		first := s.view.ServicesByHost(svc.Host)[0]
		pair := [2]result.Ref{first.Ref, svc.Ref}
		if first.Kubernetes || first.Created != svc.Created || first.Ref == svc.Ref || told[pair] || mergeable(first, svc) || samePorts(first.Ports, svc.Ports) && first.Namespace == svc.Namespace {
			continue
		}
		told[pair] = true
		g := result.Gap{Kind: result.Assumed, Object: svc.Ref, All: true,
			Text: "as old as ServiceEntry " + first.Ref.Namespace + "/" + first.Ref.Name + ", which also makes host " + strconv.Quote(svc.Host) + ": the order of the namespaces' names decides (REG-22)"}
		if first.Namespace == svc.Namespace {
			g.Text = "as old as ServiceEntry " + first.Ref.Namespace + "/" + first.Ref.Name + ", which also makes host " + strconv.Quote(svc.Host) + ": istiod takes either of them as it comes"
		}
		out = append(out, g)
	}
	return out
}

// ruleTies tells of equally old DestinationRules of one host and namespace that both set a traffic policy (DR-5).
func (s *Scoper) ruleTies() []result.Gap {
	type group struct {
		namespace, host string
		selecting       bool
	}
	var out []result.Gap
	first := map[group]*snapshot.Meta{}
	for _, w := range s.rules.written {
		if w.spec.GetTrafficPolicy() == nil {
			continue
		}
		key := group{w.meta.Namespace, w.spec.GetHost(), w.spec.GetWorkloadSelector() != nil}
		have := first[key]
		if have == nil {
			first[key] = w.meta
		} else if have.Created == w.meta.Created {
			out = append(out, result.Gap{Kind: result.Assumed, Object: w.meta.Ref(), All: true,
				Text: "as old as DestinationRule " + ownerName(have) + " of the same host: names decide whose traffic policy counts (DR-5)"})
		}
	}
	return out
}
