// Package bigmesh makes large meshes for benchmarks: objects as a running
// cluster has them (addresses, Pods, EndpointSlices, injected proxies), with
// distinct names, labels and localities. The same Shape always makes the same
// objects. It is not linked into the plugin.
package bigmesh

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Shape says how large a mesh is and what is in it. Its zero value is a mesh of
// istiod alone.
type Shape struct {
	Seed       uint64
	Namespaces int
	Services   int // with a cluster IP, spread over the namespaces
	Endpoints  int // addresses, summed over those services
	Shared     int // services of a namespace that select the same pods; 0 and 1: none do
	// Proxies is how many pods have a sidecar: of the services' pods as far as
	// there are enough, and of clients that no service selects.
	Proxies int

	Headless     int // headless services, beside Services
	HeadlessPods int // of each, all with a sidecar, beside Proxies

	Sidecars        int // of the namespaces have a Sidecar for all their workloads
	Imports         int // other namespaces that a Sidecar imports
	Gateways        int // workloads of two routers each, with a Gateway and a Service
	VirtualServices int // bound to a gateway each; without gateways: for the mesh
	Rules           int // services with a DestinationRule of their own
	External        int // ServiceEntries of one host
}

// Shapes are the meshes that the project's bars are measured on.
var Shapes = map[string]Shape{
	"open":     {Namespaces: 50, Services: 1000, Endpoints: 3000, Proxies: 3000, Rules: 100, VirtualServices: 100, External: 20},
	"scoped":   {Namespaces: 50, Services: 1000, Endpoints: 3000, Proxies: 3000, Rules: 100, VirtualServices: 100, External: 20, Sidecars: 50, Imports: 3},
	"large":    {Namespaces: 1000, Services: 20_000, Endpoints: 200_000, Proxies: 100_000, Rules: 1000, VirtualServices: 1000, External: 100, Sidecars: 1000, Imports: 3},
	"huge":     {Namespaces: 1000, Services: 20_000, Endpoints: 200_000, Proxies: 1_000_000, Rules: 1000, VirtualServices: 1000, External: 100, Sidecars: 1000, Imports: 3},
	"flat":     {Namespaces: 1000, Services: 20_000, Endpoints: 200_000, Proxies: 100_000, Rules: 1000, VirtualServices: 1000, External: 100},
	"shared":   {Namespaces: 1, Services: 2000, Endpoints: 20_000, Shared: 2000, Proxies: 10},
	"unshared": {Namespaces: 1, Services: 2000, Endpoints: 20_000, Proxies: 10},
	"edge":     {Namespaces: 200, Services: 2000, Endpoints: 10_000, Proxies: 2000, Gateways: 200, VirtualServices: 5000, Sidecars: 200, Imports: 3},
	"headless": {Namespaces: 10, Services: 100, Endpoints: 500, Proxies: 500, Headless: 10, HeadlessPods: 1000},
	"files":    {Namespaces: 200, Services: 5000, Endpoints: 30_000, Proxies: 20_000, Rules: 1000, VirtualServices: 1000, External: 100, Sidecars: 200, Imports: 3},
}

// Version is the Istio version of the mesh's istiod and proxies.
const Version = "1.31.0"

// mesh is a Shape while its objects are made.
type mesh struct {
	Shape
	r      *rand.Rand
	yield  func(runtime.Object) bool
	full   bool // the reader has had enough
	pods   addresses
	ips    addresses
	nodes  int
	proxy  int      // of them with a sidecar, beside those of headless services
	shared []placed // pods of the workload that the next services share
}

// Objects yields the mesh's objects. They are new for each call, and whoever
// reads them may keep them.
func (s Shape) Objects() iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		m := &mesh{
			Shape: s, r: rand.New(rand.NewPCG(s.Seed, 1)), yield: yield,
			pods: from("10.0.0.0"), ips: from("172.16.0.0"),
		}
		m.nodes = 1 + (s.Endpoints/max(s.Shared, 1)+s.Proxies+s.Headless*s.HeadlessPods)/60
		m.controlPlane()
		m.namespaces()
		m.makeNodes()
		for i := range s.Services {
			m.service(i)
		}
		for i := range s.Headless {
			m.headless(i)
		}
		m.clients()
		for i := range s.Gateways {
			m.gateway(i)
		}
		m.config()
	}
}

func (m *mesh) add(o runtime.Object) {
	m.full = m.full || !m.yield(o)
}

// namespace is the name of a namespace by number.
func (m *mesh) namespace(i int) string {
	words := []string{"shop", "payments", "search", "data-platform", "ops", "identity", "logistics", "customer-experience"}
	return fmt.Sprintf("%s-%04d", words[i%len(words)], i)
}

func (m *mesh) namespaces() {
	for i := range m.Namespaces {
		m.add(&corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: m.namespace(i), Labels: map[string]string{
				"kubernetes.io/metadata.name": m.namespace(i), "istio-injection": "enabled", "team": fmt.Sprintf("team-%d", i/4),
			}},
		})
	}
}

func (m *mesh) makeNodes() {
	for i := range m.nodes {
		zone := zoneOf(i)
		m.add(&corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{
				"kubernetes.io/hostname": nodeName(i), "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "standard-16",
				"topology.kubernetes.io/region": zone[:len(zone)-1], "topology.kubernetes.io/zone": zone,
			}},
		})
	}
}

func nodeName(i int) string { return fmt.Sprintf("node-%05d", i) }

// zoneOf is the zone of a node: two regions of three zones.
func zoneOf(node int) string { return fmt.Sprintf("region-%d%c", node%2+1, 'a'+node/2%3) }

// addresses counts IPv4 addresses up.
type addresses struct{ next netip.Addr }

func from(first string) addresses { return addresses{netip.MustParseAddr(first)} }

func (a *addresses) take() string {
	a.next = a.next.Next()
	return a.next.String()
}

func metaOf(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}
