package scope

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// meshGateway is the gateway name that stands for all sidecars.
const meshGateway = "mesh"

// routeSemanticsAnnotation tells a VirtualService that istiod made from a
// Gateway API route.
const routeSemanticsAnnotation = "internal.istio.io/route-semantics"

// boundTo is a gateway name as a namespace sees it.
type boundTo struct{ namespace, gateway string }

// virtualServices is the index of VirtualServices by gateway and by who may
// see them (VIS-5; Istio pilot/pkg/model/push_context.go initVirtualServices).
type virtualServices struct {
	private  map[boundTo][]*mesh.VirtualService
	exported map[boundTo][]*mesh.VirtualService
	public   map[string][]*mesh.VirtualService // by gateway name
	all      map[string][]*mesh.VirtualService // by gateway name, visible or not (CDS-12)

	// gatewayAPI are the namespaces with a public mesh VirtualService made from a Gateway API route.
	gatewayAPI   map[string]bool
	destinations map[*mesh.VirtualService][]destination
}

func indexVirtualServices(view *mesh.View) *virtualServices {
	out := &virtualServices{
		private: map[boundTo][]*mesh.VirtualService{}, exported: map[boundTo][]*mesh.VirtualService{},
		public: map[string][]*mesh.VirtualService{}, all: map[string][]*mesh.VirtualService{},
		gatewayAPI: map[string]bool{}, destinations: map[*mesh.VirtualService][]destination{},
	}
	for _, vs := range view.VirtualServices {
		gateways := gatewaysOf(vs.Spec)
		for _, gw := range gateways {
			out.all[gw] = append(out.all[gw], vs)
		}
		switch {
		case slices.Contains(vs.ExportTo, exportPublic):
			for _, gw := range gateways {
				out.public[gw] = append(out.public[gw], vs)
			}
			if gatewayAPIRoute(vs) {
				out.gatewayAPI[vs.Namespace] = true
			}
		case slices.Contains(vs.ExportTo, exportNone):
		default:
			for _, ns := range namespacesOf(vs.ExportTo, vs.Namespace) {
				index := out.exported
				if ns == vs.Namespace {
					index = out.private
				}
				for _, gw := range gateways {
					index[boundTo{ns, gw}] = append(index[boundTo{ns, gw}], vs)
				}
			}
		}
	}
	return out
}

// gatewaysOf are the gateway names that a VirtualService is entered under; a
// name that is listed twice is so for gateways, not for sidecars.
func gatewaysOf(spec *networking.VirtualService) []string {
	list := spec.GetGateways()
	if len(list) == 0 {
		return []string{meshGateway}
	}
	first := slices.Index(list, meshGateway)
	if first < 0 || !slices.Contains(list[first+1:], meshGateway) {
		return list
	}
	rest := slices.DeleteFunc(slices.Clone(list[first+1:]), func(gw string) bool { return gw == meshGateway })
	return slices.Concat(list[:first+1], rest)
}

func gatewayAPIRoute(vs *mesh.VirtualService) bool {
	return vs.Annotations[routeSemanticsAnnotation] == "gateway"
}

// onlyPublic reports a namespace whose mesh VirtualServices are the public
// ones, in their common order.
func (v *virtualServices) onlyPublic(ns string) bool {
	key := boundTo{ns, meshGateway}
	return len(v.private[key]) == 0 && len(v.exported[key]) == 0 && !v.gatewayAPI[ns]
}

// ordered are the VirtualServices of a gateway name for proxies of a
// namespace, in istiod's order (VIS-8): private, exported, public. Each part
// begins with what the namespace's own Gateway API routes made; routers do so
// only in the public part.
func (v *virtualServices) ordered(ns, gateway string, allParts bool) []*mesh.VirtualService {
	key := boundTo{ns, gateway}
	private, exported, public := v.private[key], v.exported[key], v.public[gateway]
	if len(private) == 0 && len(exported) == 0 && !v.gatewayAPI[ns] {
		return slices.Clip(public)
	}
	out := make([]*mesh.VirtualService, 0, len(private)+len(exported)+len(public))
	for i, part := range [][]*mesh.VirtualService{private, exported, public} {
		if !allParts && i < 2 {
			out = append(out, part...)
			continue
		}
		for _, own := range []bool{true, false} {
			for _, vs := range part {
				if (gatewayAPIRoute(vs) && vs.Namespace == ns) == own {
					out = append(out, vs)
				}
			}
		}
	}
	return out
}

// GatewayVirtualServices are the VirtualServices bound to a gateway name
// ("ns/name", or "mesh") that routers of a namespace see, in istiod's order
// (VIS-8; Istio PushContext.VirtualServicesForGateway). The slice must not be changed.
func (s *Scoper) GatewayVirtualServices(namespace, gateway string) []*mesh.VirtualService {
	if s.explains {
		for _, vs := range s.virtualServices.all[gateway] {
			s.tellHiddenRoute(vs, namespace)
		}
	}
	return s.virtualServices.ordered(namespace, gateway, false)
}

// importVirtualServices selects the VirtualServices of one egress listener: one
// host of a VirtualService that satisfies an entry for the VirtualService's own
// namespace, or for all, imports all of it (SC-11; Istio SelectVirtualServices).
func (b *importer) importVirtualServices(l *EgressListener, hosts *egressHosts) []*mesh.VirtualService {
	candidates := b.virtualServices.ordered(b.ns, meshGateway, b.view.Flags.UnifiedSidecarScope)
	if b.explains {
		for _, vs := range b.virtualServices.all[meshGateway] {
			b.tellHiddenRoute(vs, b.ns)
		}
	}
	if l.Spec == nil {
		return candidates
	}
	var out []*mesh.VirtualService
	seen := make(map[boundTo]bool, len(candidates))
	for _, vs := range candidates {
		name := boundTo{vs.Namespace, vs.Name}
		if seen[name] {
			continue
		}
		if hosts.selects(vs) {
			seen[name] = true
			out = append(out, vs)
		} else if b.explains {
			b.tellUnimportedRoute(l, vs)
		}
	}
	return out
}

// selects reports that the hosts import a VirtualService.
func (e *egressHosts) selects(vs *mesh.VirtualService) bool {
	gatewayAPI := gatewayAPIRoute(vs)
	for _, set := range []*hostSet{e.byNamespace[vs.Namespace], e.any} {
		if set == nil {
			continue
		}
		for _, host := range vs.Spec.GetHosts() {
			if _, ok := set.matchVirtualService(host, gatewayAPI); ok && !e.excluded(host, vs.Namespace) {
				return true
			}
		}
	}
	return false
}

// tellHiddenRoute tells that exportTo hides a VirtualService from a namespace.
func (s *Scoper) tellHiddenRoute(vs *mesh.VirtualService, ns string) {
	list := vs.ExportTo
	if slices.Contains(list, exportPublic) || !slices.Contains(list, exportNone) && slices.Contains(namespacesOf(list, vs.Namespace), ns) {
		return
	}
	r := result.Reason{Rule: "VIS-5", Word: "exportTo", Object: vs.Ref(), Field: "spec.exportTo",
		Text: "exportTo " + strings.Join(list, ",") + ": namespace " + ns + " does not see it"}
	if len(vs.Spec.GetExportTo()) == 0 {
		r.Field, r.Text = "", "the mesh default exportTo "+strings.Join(list, ",")+": namespace "+ns+" does not see it"
	}
	for _, host := range vs.Spec.GetHosts() {
		s.rec.Excluded(host, r)
	}
}

// tellUnimportedRoute tells that a listener's hosts do not import a VirtualService.
func (b *importer) tellUnimportedRoute(l *EgressListener, vs *mesh.VirtualService) {
	if b.sidecar == nil {
		return
	}
	for _, host := range vs.Spec.GetHosts() {
		b.rec.Excluded(host, result.Reason{Rule: "SC-11", Word: "sidecar-hosts", Object: b.sidecar.Ref(), Field: egressField(l.Index, -1),
			Text: "no egress host for namespace " + vs.Namespace + " or * imports VirtualService " + vs.Namespace + "/" + vs.Name})
	}
}
