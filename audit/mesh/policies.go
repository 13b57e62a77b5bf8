package mesh

import (
	"slices"

	extensions "istio.io/api/extensions/v1alpha1"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Policies are the kinds that istiod looks up in the root namespace and the
// proxy's own (VIS-11), each in istiod's order.
type Policies struct {
	PeerAuthentications    []*snapshot.Config[*security.PeerAuthentication]
	RequestAuthentications []*snapshot.Config[*security.RequestAuthentication]
	AuthorizationPolicies  []*snapshot.Config[*security.AuthorizationPolicy]
	Telemetries            []*snapshot.Config[*telemetry.Telemetry]
	WasmPlugins            []*snapshot.Config[*extensions.WasmPlugin]
	ProxyConfigs           []*snapshot.Config[*networkingv1beta1.ProxyConfig]
}

// MTLSMode is the mode that a PeerAuthentication sets.
type MTLSMode uint8

// The modes. Unset means that no policy says anything: istiod then takes Permissive.
const (
	MTLSUnset MTLSMode = iota
	MTLSDisable
	MTLSPermissive
	MTLSStrict
)

// peerPolicies finds PeerAuthentications by namespace, as istiod keeps them:
// only the oldest without a selector of each namespace stays (Istio
// pilot/pkg/model/authentication.go).
type peerPolicies struct {
	byNamespace map[string][]*snapshot.Config[*security.PeerAuthentication]
	namespaces  map[string]MTLSMode // with a policy without selector, other than the root namespace
	mesh        MTLSMode            // MTLSUnset: no policy in the root namespace
}

// policies fills Policies and the index of PeerAuthentications.
func (v *View) policies(snap *snapshot.Snapshot) {
	v.Policies = &Policies{
		RequestAuthentications: seen(v, snap.RequestAuthentications, notNil[security.RequestAuthentication]),
		AuthorizationPolicies:  seen(v, snap.AuthorizationPolicies, notNil[security.AuthorizationPolicy]),
		Telemetries:            seen(v, snap.Telemetries, notNil[telemetry.Telemetry]),
		WasmPlugins:            seen(v, snap.WasmPlugins, notNil[extensions.WasmPlugin]),
		ProxyConfigs:           seen(v, snap.ProxyConfigs, notNil[networkingv1beta1.ProxyConfig]),
	}
	v.peers = &peerPolicies{
		byNamespace: map[string][]*snapshot.Config[*security.PeerAuthentication]{}, namespaces: map[string]MTLSMode{},
	}
	written := map[string]MTLSMode{} // of policies without selector
	for _, policy := range seen(v, snap.PeerAuthentications, notNil[security.PeerAuthentication]) {
		if !hasSelector(policy.Spec) {
			if _, older := written[policy.Namespace]; older {
				continue
			}
			written[policy.Namespace] = mtlsMode(policy.Spec.GetMtls())
		}
		v.Policies.PeerAuthentications = append(v.Policies.PeerAuthentications, policy)
		v.peers.byNamespace[policy.Namespace] = append(v.peers.byNamespace[policy.Namespace], policy)
	}
	if mode, found := written[v.RootNamespace]; found {
		v.peers.mesh = orPermissive(mode)
	}
	for namespace, mode := range written {
		if namespace == v.RootNamespace {
			continue
		}
		if mode == MTLSUnset {
			mode = orPermissive(v.peers.mesh)
		}
		v.peers.namespaces[namespace] = mode
	}
}

func hasSelector(spec *security.PeerAuthentication) bool {
	return len(spec.GetSelector().GetMatchLabels()) > 0
}

func orPermissive(mode MTLSMode) MTLSMode {
	if mode == MTLSUnset {
		return MTLSPermissive
	}
	return mode
}

func mtlsMode(written *security.PeerAuthentication_MutualTLS) MTLSMode {
	switch written.GetMode() {
	case security.PeerAuthentication_MutualTLS_DISABLE:
		return MTLSDisable
	case security.PeerAuthentication_MutualTLS_PERMISSIVE:
		return MTLSPermissive
	case security.PeerAuthentication_MutualTLS_STRICT:
		return MTLSStrict
	}
	return MTLSUnset
}

// WorkloadMTLS is what the PeerAuthentications of a workload come to.
type WorkloadMTLS struct {
	Mode  MTLSMode // never MTLSUnset
	Ports []PortMTLS
}

// PortMTLS is the mode of one workload port.
type PortMTLS struct {
	Port int
	Mode MTLSMode // never MTLSUnset
}

// At is the mode of a port.
func (w WorkloadMTLS) At(port int) MTLSMode {
	for _, p := range w.Ports {
		if p.Port == port {
			return p.Mode
		}
	}
	return w.Mode
}

// WorkloadMTLS merges the PeerAuthentications of a workload: mesh, namespace,
// workload and port, the oldest of each (Istio pilot/pkg/security/authn
// ComposePeerAuthentication). Ports are sorted.
func (v *View) WorkloadMTLS(namespace string, labels Labels) WorkloadMTLS {
	out := WorkloadMTLS{Mode: orPermissive(v.peers.mesh)}
	var workload *security.PeerAuthentication
	for _, policy := range v.peers.byNamespace[namespace] {
		switch {
		case namespace == v.RootNamespace:
		case !hasSelector(policy.Spec):
			if mode := mtlsMode(policy.Spec.GetMtls()); mode != MTLSUnset {
				out.Mode = mode
			}
		case workload == nil && labels.Include(policy.Spec.GetSelector().GetMatchLabels()):
			workload = policy.Spec
		}
	}
	if workload == nil {
		return out
	}
	if mode := mtlsMode(workload.GetMtls()); mode != MTLSUnset {
		out.Mode = mode
	}
	for port, written := range workload.GetPortLevelMtls() {
		mode := mtlsMode(written)
		if mode == MTLSUnset {
			mode = out.Mode
		}
		out.Ports = append(out.Ports, PortMTLS{Port: int(port), Mode: mode})
	}
	slices.SortFunc(out.Ports, func(a, b PortMTLS) int { return a.Port - b.Port })
	return out
}

// PeerAuthentications are those that WorkloadMTLS merges for a workload: the
// mesh's, its namespace's and its own.
func (v *View) PeerAuthentications(namespace string, labels Labels) []*snapshot.Config[*security.PeerAuthentication] {
	var out []*snapshot.Config[*security.PeerAuthentication]
	for _, policy := range v.peers.byNamespace[v.RootNamespace] {
		if !hasSelector(policy.Spec) {
			out = append(out, policy)
		}
	}
	if namespace == v.RootNamespace {
		return out
	}
	own := false
	for _, policy := range v.peers.byNamespace[namespace] {
		switch {
		case !hasSelector(policy.Spec):
			out = append(out, policy)
		case !own && labels.Include(policy.Spec.GetSelector().GetMatchLabels()):
			own = true
			out = append(out, policy)
		}
	}
	return out
}

// MTLSMode is the mode of a workload's port (IN-5); port 0 asks for the workload
// as a whole. Never MTLSUnset.
func (v *View) MTLSMode(namespace string, labels Labels, port int) MTLSMode {
	return v.WorkloadMTLS(namespace, labels).At(port)
}

// ServiceMTLSMode is the mode that clients' auto mTLS takes a service port to
// have; MTLSUnset for an external service (Istio BestEffortInferServiceMTLSMode).
func (v *View) ServiceMTLSMode(svc *Service, port int) MTLSMode {
	return v.InferMTLSMode(svc, port, false)
}

// InferMTLSMode is ServiceMTLSMode for a DestinationRule whose load balancer is
// PASSTHROUGH, if passthrough: then, and for a headless service, one endpoint
// without a sidecar turns mTLS off.
func (v *View) InferMTLSMode(svc *Service, port int, passthrough bool) MTLSMode {
	if svc.External {
		return MTLSUnset
	}
	if svc.Resolution == Passthrough || passthrough {
		rows := v.EndpointsByPort(svc, port)
		plain := func(e *Endpoint) bool { return e.TLSMode == tlsDisabled }
		if len(rows) == 0 || slices.ContainsFunc(rows, plain) {
			return MTLSDisable
		}
	}
	if mode, found := v.peers.namespaces[svc.Namespace]; found {
		return mode
	}
	return orPermissive(v.peers.mesh)
}
