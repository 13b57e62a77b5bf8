package scope

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// Values of exportTo that are no namespace (Istio pkg/config/visibility).
const (
	exportPublic  = "*"
	exportPrivate = "."
	exportNone    = "~"
)

// visibility is the index of services by who may see them (VIS-1 … VIS-4;
// Istio pilot/pkg/model/push_context.go initServiceRegistry).
type visibility struct {
	view      *mesh.View
	effective [][]string // exportTo by Service.Index

	public   []*mesh.Service
	isPublic []bool                     // by Service.Index
	exported map[string][]*mesh.Service // by client namespace: private and exported ones (VIS-2)

	byNamespace map[string][]*mesh.Service // by the service's own namespace
	// contested are host names that services of several namespaces have.
	contested map[string]bool
}

func newVisibility(view *mesh.View) *visibility {
	v := &visibility{
		view:        view,
		effective:   make([][]string, len(view.Services)),
		isPublic:    make([]bool, len(view.Services)),
		exported:    map[string][]*mesh.Service{},
		byNamespace: map[string][]*mesh.Service{},
		contested:   map[string]bool{},
	}
	private, named := map[string][]*mesh.Service{}, map[string][]*mesh.Service{}
	for _, svc := range view.Services {
		if same := view.ServicesByHost(svc.Host); len(same) > 1 && same[0].Namespace != svc.Namespace {
			v.contested[svc.Host] = true
		}
		v.byNamespace[svc.Namespace] = append(v.byNamespace[svc.Namespace], svc)
		v.enter(svc, private, named)
	}
	if view.Behaviours.CombinedPrivateOrder {
		return v
	}
	for ns, services := range private {
		v.exported[ns] = services
	}
	for ns, services := range named {
		v.exported[ns] = slices.Concat(private[ns], services)
	}
	return v
}

// enter indexes one service (VIS-2). Before the combined list, private and
// named services are kept apart.
func (v *visibility) enter(svc *mesh.Service, private, named map[string][]*mesh.Service) {
	exportTo := v.view.EffectiveExportTo(svc)
	v.effective[svc.Index] = exportTo
	if slices.Contains(exportTo, exportPublic) {
		v.isPublic[svc.Index] = true
		v.public = append(v.public, svc)
		return
	}
	if slices.Contains(exportTo, exportNone) {
		return
	}
	for _, ns := range namespacesOf(exportTo, svc.Namespace) {
		switch {
		case v.view.Behaviours.CombinedPrivateOrder:
			v.exported[ns] = append(v.exported[ns], svc)
		case ns == svc.Namespace:
			private[ns] = append(private[ns], svc)
		default:
			named[ns] = append(named[ns], svc)
		}
	}
}

// namespacesOf are the distinct namespaces of an exportTo list without "*" and "~".
func namespacesOf(exportTo []string, own string) []string {
	if len(exportTo) == 1 && exportTo[0] != exportPrivate {
		return exportTo
	}
	var out []string
	for _, ns := range exportTo {
		if ns == exportPrivate {
			ns = own
		}
		if !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	return out
}

// visible is istiod's test for a single service (VIS-3; IsServiceVisible).
func (v *visibility) visible(svc *mesh.Service, ns string) bool {
	for _, e := range v.effective[svc.Index] {
		if e == exportPublic || e == exportPrivate && svc.Namespace == ns || e == ns {
			return true
		}
	}
	return false
}

// services are those visible to a namespace, in istiod's order (VIS-2). The
// slice is shared where the namespace sees public services only.
func (v *visibility) services(ns string) []*mesh.Service {
	if len(v.exported[ns]) == 0 {
		return v.public
	}
	return slices.Concat(v.exported[ns], v.public)
}

// ofNamespaces are the services visible to a namespace that live in one of
// owners, in the order of services.
func (v *visibility) ofNamespaces(ns string, owners []string) []*mesh.Service {
	var exported, public []*mesh.Service
	for _, svc := range v.exported[ns] {
		if slices.Contains(owners, svc.Namespace) {
			exported = append(exported, svc)
		}
	}
	for _, owner := range owners {
		for _, svc := range v.byNamespace[owner] {
			if v.isPublic[svc.Index] {
				public = append(public, svc)
			}
		}
	}
	slices.SortFunc(public, func(a, b *mesh.Service) int { return a.Index - b.Index })
	return append(exported, public...)
}

// indexed are the entries of the (host name, namespace) index for one host
// name, one for each namespace, the oldest namespace first.
func (v *visibility) indexed(host string) []*mesh.Service {
	all := v.view.ServicesByHost(host)
	if len(all) < 2 {
		return all
	}
	var out []*mesh.Service
	at := map[string]int{}
	for _, svc := range all {
		i, seen := at[svc.Namespace]
		switch {
		case !seen:
			at[svc.Namespace] = len(out)
			out = append(out, svc)
		case svc.Kubernetes && !out[i].Kubernetes:
			out[i] = svc
		}
	}
	return out
}

// reason says why a service is visible, or is not, to a namespace.
func (v *visibility) reason(svc *mesh.Service) result.Reason {
	list := v.effective[svc.Index]
	text := "exportTo " + strconv.Quote(strings.Join(list, ","))
	if len(svc.ExportTo) == 0 {
		return result.Reason{Rule: "VIS-1", Word: "exportTo", Field: "defaultServiceExportTo",
			Text: "the service has no exportTo of its own: the mesh default is " + strconv.Quote(strings.Join(list, ","))}
	}
	r := result.Reason{Rule: "VIS-2", Word: "exportTo", Object: svc.Ref, Text: text + " on the service says who may see it"}
	r.Field = "spec.exportTo"
	if svc.Kubernetes {
		r.Field = "metadata.annotations[networking.istio.io/exportTo]"
	}
	if !slices.Equal(list, svc.ExportTo) {
		r.Rule, r.Text = "VIS-4", "meshConfig.serviceEntryVisibility narrows exportTo to "+strconv.Quote(strings.Join(list, ","))
	}
	return r
}
