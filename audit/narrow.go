package audit

import "github.com/mesh-audit/mesh-audit/audit/result"

// Narrow leaves of a saved answer what a run with the selection would have
// answered for: the proxies selected, their groups and scopes. Labels are not
// in an answer and select nothing.
func (s *Selection) Narrow(a *result.Audit) *result.Audit {
	if s.Namespace == "" && s.Pod == "" && s.Workload == "" {
		return a
	}
	out := *a
	out.Proxies, out.Groups, out.Scopes = nil, nil, nil
	proxies := map[string]int{}
	for i := range a.Proxies {
		p := &a.Proxies[i]
		if (s.Namespace == "" || p.Namespace == s.Namespace) && (s.Pod == "" || p.Name == s.Pod) && (s.Workload == "" || p.Workload == s.Workload) {
			out.Proxies = append(out.Proxies, *p)
			proxies[p.Group]++
		}
	}
	out.Mesh.Totals = result.Totals{}
	scopes := map[string]bool{}
	for i := range a.Groups {
		g := a.Groups[i]
		n := proxies[g.ID]
		if n == 0 {
			continue
		}
		g.Proxies = n
		out.Groups = append(out.Groups, g)
		scopes[g.Scope] = true
		out.Mesh.Totals.Connections += n
		out.Mesh.Totals.EndpointRows += int64(n) * int64(g.Counts.Endpoints)
		out.Mesh.Totals.Bytes += int64(n) * g.Bytes.Total
	}
	for i := range a.Scopes {
		if scopes[a.Scopes[i].ID] {
			out.Scopes = append(out.Scopes, a.Scopes[i])
		}
	}
	return &out
}
