package mesh

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// meshGateway is the gateway name of sidecars.
const meshGateway = "mesh"

// virtualServices fills VirtualServices: full names, delegates merged in, in
// order of creation, name and namespace (VIS-5 to VIS-7; Istio
// pilot/pkg/model/virtualservice_controller.go).
func (v *View) virtualServices(snap *snapshot.Snapshot) {
	delegates := map[podKey]*VirtualService{}
	var roots []*VirtualService
	for i := range snap.VirtualServices {
		written := &snap.VirtualServices[i]
		if written.Spec == nil || !v.reads(&written.Meta) {
			continue
		}
		vs := v.resolved(written)
		if len(vs.Spec.GetHosts()) == 0 {
			delegates[podKey{vs.Namespace, vs.Name}] = vs
			continue
		}
		roots = append(roots, vs)
	}
	slices.SortStableFunc(roots, func(a, b *VirtualService) int { return byCreation(a.Meta, b.Meta) })
	for _, vs := range roots {
		vs.mergeDelegates(delegates)
	}
	v.VirtualServices = roots
}

// resolved copies a VirtualService with full names and its effective exportTo.
func (v *View) resolved(written *snapshot.Config[*networking.VirtualService]) *VirtualService {
	spec := proto.CloneOf(known(v.Version, written.Spec))
	r := nameResolver{namespace: written.Namespace, domain: v.Domain}
	r.hosts(spec.Hosts)
	r.gateways(spec.Gateways)
	for _, route := range spec.Http {
		r.http(route)
	}
	for _, route := range spec.Tcp {
		for _, match := range route.GetMatch() {
			r.gateways(match.GetGateways())
		}
		for _, w := range route.GetRoute() {
			r.destination(w.GetDestination())
		}
	}
	for _, route := range spec.Tls {
		for _, match := range route.GetMatch() {
			r.gateways(match.GetGateways())
		}
		for _, w := range route.GetRoute() {
			r.destination(w.GetDestination())
		}
	}
	exportTo := spec.GetExportTo()
	if len(exportTo) == 0 {
		exportTo = v.defaultExportTo(v.Config.GetDefaultVirtualServiceExportTo())
	}
	vs := &VirtualService{Meta: &written.Meta, Spec: spec}
	for _, name := range exportTo {
		if name == "." {
			name = written.Namespace
		}
		if !slices.Contains(vs.ExportTo, name) {
			vs.ExportTo = append(vs.ExportTo, name)
		}
	}
	return vs
}

// nameResolver makes the names of an object full (VIS-7; Istio
// pilot/pkg/model/config.go).
type nameResolver struct{ namespace, domain string }

func (r nameResolver) hosts(hosts []string) {
	for i, host := range hosts {
		hosts[i] = r.host(host)
	}
}

func (r nameResolver) gateways(gateways []string) {
	for i, gateway := range gateways {
		if gateway != meshGateway {
			gateways[i] = r.gateway(gateway)
		}
	}
}

func (r nameResolver) http(route *networking.HTTPRoute) {
	for _, match := range route.GetMatch() {
		r.gateways(match.GetGateways())
	}
	for _, w := range route.GetRoute() {
		r.destination(w.GetDestination())
	}
	r.destination(route.GetMirror())
	for _, mirror := range route.GetMirrors() {
		r.destination(mirror.GetDestination())
	}
}

func (r nameResolver) destination(d *networking.Destination) {
	if d != nil {
		d.Host = r.host(d.Host)
	}
}

// host expands a name without a dot; "", "*" and addresses stay.
func (r nameResolver) host(name string) string {
	if name == "" || name == "*" || strings.Contains(name, ".") {
		return name
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return name
	}
	return name + "." + r.namespace + ".svc." + r.domain
}

// gateway makes "namespace/name" of "name", "./name", or the old "name.namespace…".
func (r nameResolver) gateway(name string) string {
	if before, after, found := strings.Cut(name, "/"); found {
		if before == "." {
			return r.namespace + "/" + after
		}
		return name
	}
	short, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return r.namespace + "/" + name
	}
	namespace, _, _ := strings.Cut(rest, ".")
	return namespace + "/" + short
}

// ResolveHost makes a destination's or DestinationRule's short host name full,
// as seen from a namespace (VIS-7).
func (v *View) ResolveHost(host, namespace string) string {
	return nameResolver{namespace: namespace, domain: v.Domain}.host(host)
}

// mergeDelegates replaces the routes that delegate by the delegates' routes; one
// whose delegate is missing or not visible is dropped (VIS-6).
func (vs *VirtualService) mergeDelegates(delegates map[podKey]*VirtualService) {
	delegating := func(r *networking.HTTPRoute) bool { return r.GetDelegate() != nil }
	if !slices.ContainsFunc(vs.Spec.Http, delegating) {
		return
	}
	var merged []*networking.HTTPRoute
	for i, route := range vs.Spec.Http {
		reference := route.GetDelegate()
		if reference == nil {
			merged = append(merged, route)
			continue
		}
		key := podKey{firstNonEmpty(reference.GetNamespace(), vs.Namespace), reference.GetName()}
		label := "spec.http[" + strconv.Itoa(i) + "]: delegate " + key.namespace + "/" + key.name
		delegate := delegates[key]
		if delegate == nil {
			vs.Dropped = append(vs.Dropped, label+" does not exist")
			continue
		}
		if !slices.Contains(delegate.ExportTo, "*") && !slices.Contains(delegate.ExportTo, vs.Namespace) {
			vs.Dropped = append(vs.Dropped, label+" is not exported to "+vs.Namespace)
			continue
		}
		root := proto.CloneOf(route)
		root.Delegate = nil
		for j, sub := range delegate.Spec.GetHttp() {
			m := mergeRoute(root, proto.CloneOf(sub))
			if m == nil {
				vs.Dropped = append(vs.Dropped, label+" spec.http["+strconv.Itoa(j)+"]: its match conflicts with the root's")
				continue
			}
			if vs.Delegates == nil {
				vs.Delegates = map[int]*snapshot.Meta{}
			}
			vs.Delegates[len(merged)] = delegate.Meta
			merged = append(merged, m)
		}
	}
	vs.Spec.Http = merged
}
