package judge

import (
	"context"
	"net"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/cluster"
	"istio.io/istio/pkg/config/mesh/meshwatcher"
	"istio.io/istio/pkg/test"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

// touched marks EndpointSlices that were written a second time.
const touched = "mesh-audit.io/touched"

// A server is settled when it had nothing to do for so many looks in a row.
// Looks are counted, not time: on a busy machine time passes without any of
// the server's work being done.
const (
	quietLooks = 30
	pause      = 5 * time.Millisecond
)

// server is Istio's discovery server with the mesh loaded.
type server struct {
	*xds.FakeDiscoveryServer
}

// serverOptions are how a server is run.
type serverOptions struct {
	listener func() (net.Listener, error) // where others may connect; nil: nobody
	debounce time.Duration                // how long after an event others are waited for; 0: not at all
}

// startServer loads a mesh and waits until everything has been processed.
func startServer(t test.Failer, m *mesh.Mesh, o serverOptions) *server {
	s := &server{xds.NewFakeDiscoveryServer(t, xds.FakeOptions{
		ListenerBuilder:            o.listener,
		DebounceTime:               o.debounce,
		DefaultClusterName:         cluster.ID(m.ClusterID()),
		KubernetesObjects:          kubeObjects(m),
		Configs:                    m.Configs,
		MeshConfig:                 m.Config,
		NetworksWatcher:            meshwatcher.NewFixedNetworksWatcher(m.Networks),
		DisableSecretAuthorization: true,
	})}
	s.Discovery.RequestRateLimit.SetLimit(0)
	s.Discovery.Generators[markerType] = marker{}
	s.tellNamespaces(t, m.Kube)
	s.settle()
	s.touchSlices(t, m.Kube)
	s.settle()
	return s
}

// kubeObjects adds the GatewayClasses that istiod makes itself.
func kubeObjects(m *mesh.Mesh) []runtime.Object {
	classes := map[string]string{
		"istio":          "istio.io/gateway-controller",
		"istio-remote":   "istio.io/unmanaged-gateway",
		"istio-waypoint": "istio.io/mesh-controller",
	}
	out := append([]runtime.Object{}, m.Kube...)
	for _, o := range m.Kube {
		if c, ok := o.(*gateway.GatewayClass); ok {
			delete(classes, c.Name)
		}
	}
	for name, controller := range classes {
		out = append(out, &gateway.GatewayClass{
			TypeMeta:   metav1.TypeMeta{APIVersion: gateway.GroupVersion.String(), Kind: "GatewayClass"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       gateway.GatewayClassSpec{ControllerName: gateway.GatewayController(controller)},
		})
	}
	return out
}

// touchSlices writes every EndpointSlice again: one that was processed before
// its Service or its Pods may have been read differently.
func (s *server) touchSlices(t test.Failer, objs []runtime.Object) {
	for _, o := range objs {
		original, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			continue
		}
		slice := original.DeepCopy()
		if slice.Annotations == nil {
			slice.Annotations = map[string]string{}
		}
		slice.Annotations[touched] = "true"
		s.update(t, slice)
	}
}

// update writes one EndpointSlice.
func (s *server) update(t test.Failer, slice *discoveryv1.EndpointSlice) {
	client := s.KubeClient().Kube().DiscoveryV1().EndpointSlices(slice.Namespace)
	if _, err := client.Update(context.Background(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the server has taken in all updates and no more come.
func (s *server) settle() {
	last, quiet := int64(-1), 0
	for quiet < quietLooks {
		time.Sleep(pause)
		now := s.Discovery.InboundUpdates.Load()
		if now == last && s.Discovery.CommittedUpdates.Load() >= now {
			quiet++
			continue
		}
		last, quiet = now, 0
	}
}
