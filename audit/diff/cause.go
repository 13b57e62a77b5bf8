package diff

import (
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// explain gives each change its causes and what callers see. A cause is a
// changed input that the change's own evidence names: the object a part comes
// from, the DestinationRule applied, the service, the reasons, the scope's
// Sidecar, in this order. Where none of these changed, it is what may act
// without being named: policies, the control plane, the proxy's own workload.
func (c *comparer) explain(x *pairView, list []*found) {
	for _, f := range list {
		f.Inputs = nil
		for _, i := range c.causes(x, f) {
			f.Inputs = append(f.Inputs, c.out.Inputs[i].ID)
		}
		c.judge(x, f)
		f.Sees, f.Harmless = c.sees(x, f)
	}
	c.hazards(list)
}

// causes returns indexes of inputs, sorted.
func (c *comparer) causes(x *pairView, f *found) []int {
	switch len(c.out.Inputs) {
	case 0:
		return nil
	case 1:
		return []int{0}
	}
	for _, tier := range []func(*pairView, *found) []object{
		c.fieldEvidence, c.partEvidence, c.serviceEvidence, c.reasonEvidence, scopeEvidence, c.routeEvidence, c.endpointEvidence,
	} {
		if out := c.changed(tier(x, f)); len(out) > 0 {
			return out
		}
	}
	for _, may := range []func(*pairView, *found, *result.Input) bool{c.policyMay, c.workloadMay, c.meshMay, c.namespaceMay} {
		var out []int
		for i := range c.out.Inputs {
			if may(x, f, &c.out.Inputs[i]) {
				out = append(out, i)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	all := make([]int, len(c.out.Inputs))
	for i := range all {
		all[i] = i
	}
	return all
}

// changed are the inputs among the objects.
func (c *comparer) changed(objects []object) []int {
	var out []int
	for _, o := range objects {
		if i, ok := c.inputs.byObject[o]; ok {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// fieldEvidence goes by what of a part is different.
func (c *comparer) fieldEvidence(x *pairView, f *found) []object {
	var out []object
	for _, field := range f.Fields {
		switch field {
		case "rule":
			out = append(out, rules(f)...)
		case "endpoints":
			out = append(out, c.endpointObjects(x, f)...)
		}
	}
	return out
}

func rules(f *found) []object {
	var out []object
	for _, parts := range [][]result.Part{f.Before, f.After} {
		for i := range parts {
			if namespace, name, ok := strings.Cut(text(parts[i].Rule), "/"); ok {
				out = append(out, object{"DestinationRule", namespace, name})
			}
		}
	}
	return out
}

// partEvidence is where the parts come from, and the rules applied.
func (c *comparer) partEvidence(x *pairView, f *found) []object {
	out := rules(f)
	for _, parts := range [][]result.Part{f.Before, f.After} {
		for i := range parts {
			out = append(out, objectOf(parts[i].By))
		}
	}
	if f.Type == "eds" {
		for _, v := range []groupView{x.base, x.head} {
			for _, r := range v.find("cds", f.Resource) {
				for i := range r.Parts {
					out = append(out, objectOf(r.Parts[i].By))
				}
			}
		}
	}
	return out
}

// serviceEvidence is the services that the change is sent for.
func (c *comparer) serviceEvidence(_ *pairView, f *found) []object {
	var out []object
	for _, host := range hostsOf(f) {
		for _, s := range []*side{c.base, c.head} {
			for _, svc := range s.services[host] {
				out = append(out, objectOf(svc.Ref))
			}
		}
	}
	return out
}

func hostsOf(f *found) []string {
	hosts := []string{f.Service}
	for _, r := range []*result.Resource{f.base, f.head} {
		if r != nil {
			hosts = append(hosts, r.Service)
		}
	}
	for _, parts := range [][]result.Part{f.Before, f.After} {
		for i := range parts {
			hosts = append(hosts, parts[i].Service)
		}
	}
	if cl, ok := parseCluster(f.Resource); ok {
		hosts = append(hosts, cl.host)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	return slices.DeleteFunc(hosts, func(h string) bool { return h == "" })
}

// reasonEvidence is the objects that the reasons name.
func (c *comparer) reasonEvidence(_ *pairView, f *found) []object {
	var out []object
	note := func(s *side, r *result.Resource) {
		if r == nil {
			return
		}
		for _, id := range r.Because {
			if int(id) < len(s.Reasons) {
				out = append(out, objectOf(s.Reasons[id].Object))
			}
		}
	}
	note(c.base, f.base)
	note(c.head, f.head)
	return out
}

// scopeEvidence is the Sidecars that decide the scopes.
func scopeEvidence(x *pairView, _ *found) []object {
	return []object{objectOf(x.base.scope.By), objectOf(x.head.scope.By)}
}

// routeEvidence is the VirtualServices that lead to a cluster: they pull
// services into a scope, and decide what a filtered gateway gets.
func (c *comparer) routeEvidence(x *pairView, f *found) []object {
	if f.Type != "cds" && f.Type != "eds" {
		return nil
	}
	out := append(c.refs(x.base).by[f.Resource], c.refs(x.head).by[f.Resource]...)
	for _, r := range []*result.Resource{f.base, f.head} {
		if r != nil && r.Service != "" {
			out = append(out, c.refs(x.base).byHost[r.Service]...)
			out = append(out, c.refs(x.head).byHost[r.Service]...)
		}
	}
	return out
}

func (c *comparer) endpointEvidence(x *pairView, f *found) []object { return c.endpointObjects(x, f) }
