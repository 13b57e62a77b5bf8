package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

func compareObjects(x, y object) int {
	return cmp.Or(cmp.Compare(x.kind, y.kind), cmp.Compare(x.namespace, y.namespace), cmp.Compare(x.name, y.name))
}

// policyKinds are the kinds that act on proxies by namespace and selector, with
// the types whose content they decide.
var policyKinds = map[string][]string{
	"PeerAuthentication":    {"lds", "cds", "eds"},
	"RequestAuthentication": {"lds", "cds"},
	"AuthorizationPolicy":   {"lds"},
	"Telemetry":             {"lds"},
	"WasmPlugin":            {"lds", "ecds"},
	"EnvoyFilter":           {"lds", "rds", "cds", "eds", "ecds"},
	"ProxyConfig":           {"lds", "rds", "cds", "eds", "nds"},
	"Sidecar":               {"lds", "rds", "cds", "eds", "nds"},
	"Gateway":               {"lds", "rds", "cds", "eds"},
}

// policyMay reports whether a policy of the proxies' namespace, or of the root
// namespace, may be the cause.
func (c *comparer) policyMay(x *pairView, f *found, in *result.Input) bool {
	o := objectOf(in.Ref())
	if !slices.Contains(policyKinds[o.kind], f.Type) {
		return false
	}
	if o.kind == "Gateway" {
		return x.head.isRouter() || x.base.isRouter()
	}
	if c.isRoot(o.namespace) || o.namespace == c.namespaceOf(x) {
		return true
	}
	if o.kind != "PeerAuthentication" {
		return false
	}
	for _, s := range c.serviceEvidence(x, f) {
		if s.namespace == o.namespace {
			return true
		}
	}
	return false
}

func (c *comparer) isRoot(namespace string) bool {
	return slices.ContainsFunc(c.head.Mesh.ControlPlanes, func(p result.ControlPlane) bool { return p.RootNamespace == namespace })
}

// namespaceOf is the namespace of the scopes' proxies; empty if it is not known.
func (c *comparer) namespaceOf(x *pairView) string {
	if x.head.group != nil {
		return x.head.group.Namespace
	}
	for i := range c.head.Groups {
		if c.head.Groups[i].Scope == x.head.scope.ID {
			return c.head.Groups[i].Namespace
		}
	}
	return ""
}

// workloadMay reports whether the proxies' own workload, or a Pod of it, is the input.
func (c *comparer) workloadMay(x *pairView, _ *found, in *result.Input) bool {
	if x.head.group == nil {
		return false
	}
	o := objectOf(in.Ref())
	if o.namespace != x.head.group.Namespace {
		return false
	}
	kind, name, _ := strings.Cut(x.head.group.Workload, "/")
	return strings.EqualFold(o.kind, kind) && o.name == name || o.kind == "Pod" && (name == "" || strings.HasPrefix(o.name, name))
}

// meshMay reports whether the input is a setting of the mesh as a whole.
func (c *comparer) meshMay(_ *pairView, _ *found, in *result.Input) bool {
	switch o := objectOf(in.Ref()); o.kind {
	case "Namespace", "Node", "MutatingWebhookConfiguration":
		return true
	default:
		return in.Kind != result.InputObject || in.Text != "" || o.kind == "ConfigMap"
	}
}

// namespaceMay reports whether the input is of the proxies' namespace, or of a
// service that the change is about.
func (c *comparer) namespaceMay(x *pairView, f *found, in *result.Input) bool {
	o := objectOf(in.Ref())
	if o.namespace == c.namespaceOf(x) {
		return true
	}
	return slices.ContainsFunc(c.serviceEvidence(x, f), func(s object) bool { return s.namespace == o.namespace })
}

// references is which of a scope's routes and chains lead to a cluster.
type references struct {
	routed, chained map[string]bool
	mirrored        map[string]bool
	by              map[string][]object // by cluster: objects that the parts come from
	byHost          map[string][]object // by host of the clusters
}

// refs collects the references of a view's scope, once.
func (c *comparer) refs(v groupView) *references {
	if known := c.references[v.scope]; known != nil {
		return known
	}
	r := &references{routed: map[string]bool{}, chained: map[string]bool{}, mirrored: map[string]bool{}, by: map[string][]object{}, byHost: map[string][]object{}}
	note := func(name string, part *result.Part, in map[string]bool) {
		in[name] = true
		if part.By.IsZero() {
			return
		}
		by := objectOf(part.By)
		if !slices.Contains(r.by[name], by) {
			r.by[name] = append(r.by[name], by)
		}
		if cl, ok := parseCluster(name); ok && !slices.Contains(r.byHost[cl.host], by) {
			r.byHost[cl.host] = append(r.byHost[cl.host], by)
		}
	}
	for _, res := range *v.shared("rds") {
		for i := range res.Parts {
			for _, to := range res.Parts[i].To {
				if name, ok := strings.CutPrefix(to, "mirror "); ok {
					note(name, &res.Parts[i], r.mirrored)
					continue
				}
				note(to, &res.Parts[i], r.routed)
			}
		}
	}
	for _, res := range *v.shared("lds") {
		for i := range res.Parts {
			for _, to := range res.Parts[i].To {
				if name, ok := strings.CutPrefix(to, "cluster "); ok {
					note(name, &res.Parts[i], r.chained)
				}
			}
		}
	}
	c.references[v.scope] = r
	return r
}

// leads reports whether a route or a chain leads to the cluster.
func (r *references) leads(name string) bool { return r.routed[name] || r.chained[name] }
