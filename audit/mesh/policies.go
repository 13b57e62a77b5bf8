package mesh

import (
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
