package judge

import (
	"slices"
	"sync"
	"sync/atomic"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	corev1 "k8s.io/api/core/v1"

	meshconfig "istio.io/api/mesh/v1alpha1"
	v3 "istio.io/istio/pilot/pkg/xds/v3"

	"github.com/mesh-audit/mesh-audit/conformance/internal/parts"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// shortTypes are the names of the types that proxies ask for.
var shortTypes = map[string]string{
	v3.ClusterType: "cds", v3.EndpointType: "eds", v3.ListenerType: "lds", v3.RouteType: "rds",
	v3.ExtensionConfigurationType: "ecds", v3.NameTableType: "nds",
}

// follower is a connected proxy that stays: as Envoy does, it asks for what new
// clusters and listeners refer to, and no longer for what none refers to.
type follower struct {
	*stream
	proxy report.PushedProxy
	heard *atomic.Int64 // counts the responses of all followers
	asks  chan ask

	mu       sync.Mutex
	counting bool
	err      error
	// refs is by type and resource which names of the type that follows
	// it refers to; names is what is asked for of each type.
	refs  map[string]map[string]map[string][]string
	names map[string][]string
}

type ask struct {
	typeURL    string
	more, less []string
}

// follow connects a pod's proxy and takes in its whole configuration.
func follow(s *server, pod *corev1.Pod, mc *meshconfig.MeshConfig, heard *atomic.Int64) (*follower, error) {
	c, err := newClient(pod, mc)
	if err != nil {
		return nil, err
	}
	f := &follower{
		stream: openStream(s.Discovery, c.node), heard: heard, asks: make(chan ask, 1024),
		proxy: report.PushedProxy{Namespace: pod.Namespace, Name: pod.Name, Sent: map[string]report.Sent{}},
		refs:  map[string]map[string]map[string][]string{v3.ClusterType: {}, v3.ListenerType: {}},
		names: map[string][]string{},
	}
	raw, err := collect(f.stream, c.dns)
	if err != nil {
		f.close()
		return nil, err
	}
	for typeURL, short := range shortTypes {
		f.note(typeURL, raw[short], nil)
	}
	for _, typeURL := range []string{v3.EndpointType, v3.RouteType, v3.ExtensionConfigurationType} {
		f.names[typeURL] = f.wanted(typeURL)
	}
	go f.listen()
	go f.speak()
	return f, nil
}

func (f *follower) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counting = true
}

func (f *follower) end() (report.PushedProxy, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counting = false
	for _, typeURL := range []string{v3.EndpointType, v3.RouteType} {
		short := shortTypes[typeURL]
		if sent, ok := f.proxy.Sent[short]; ok {
			f.proxy.Sent[short] = sent.Give(func(name string) bool { return !slices.Contains(f.names[typeURL], name) })
		}
	}
	return f.proxy, f.err
}

// listen takes the server's responses until the stream is closed.
func (f *follower) listen() {
	for {
		select {
		case r := <-f.responses:
			f.heard.Add(1)
			f.take(r)
		case <-f.ctx.Done():
			return
		}
	}
}

// speak sends what is to be asked.
func (f *follower) speak() {
	for {
		select {
		case a := <-f.asks:
			if err := f.subscribe(a.typeURL, a.more, a.less); err != nil {
				f.mu.Lock()
				f.err = err
				f.mu.Unlock()
				return
			}
		case <-f.ctx.Done():
			return
		}
	}
}

// take counts a response and asks for what it refers to.
func (f *follower) take(r *discovery.DeltaDiscoveryResponse) {
	short := shortTypes[r.TypeUrl]
	if short == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counting {
		var list []report.Resource
		for _, res := range r.Resources {
			list = append(list, report.Resource{Name: res.Name, Bytes: len(res.Resource.GetValue())})
		}
		f.proxy.Sent[short] = f.proxy.Sent[short].Add(list, len(r.RemovedResources))
	}
	f.note(r.TypeUrl, r.Resources, r.RemovedResources)
	switch r.TypeUrl {
	case v3.ClusterType:
		f.ask(v3.EndpointType)
	case v3.ListenerType:
		f.ask(v3.RouteType)
		f.ask(v3.ExtensionConfigurationType)
	}
}

// ask subscribes to what is wanted of a type, and no longer to the rest.
func (f *follower) ask(typeURL string) {
	was, is := f.names[typeURL], f.wanted(typeURL)
	f.names[typeURL] = is
	more, less := without(is, was), without(was, is)
	if len(more)+len(less) > 0 {
		f.asks <- ask{typeURL, more, less}
	}
}

// note keeps what clusters and listeners refer to.
func (f *follower) note(typeURL string, resources []*discovery.Resource, removed []string) {
	known := f.refs[typeURL]
	if known == nil {
		return
	}
	for _, name := range removed {
		delete(known, name)
	}
	for _, r := range resources {
		refs := map[string][]string{}
		switch c, l := (&cluster.Cluster{}), (&listener.Listener{}); {
		case typeURL == v3.ClusterType && r.Resource.UnmarshalTo(c) == nil:
			if name := parts.EDSName(c); name != "" {
				refs[v3.EndpointType] = []string{name}
			}
		case typeURL == v3.ListenerType && r.Resource.UnmarshalTo(l) == nil:
			refs[v3.RouteType] = parts.RouteNames(l)
			refs[v3.ExtensionConfigurationType] = parts.ConfigDiscoveryNames(l)
		}
		known[r.Name] = refs
	}
}

// wanted is what all clusters or listeners refer to of a type.
func (f *follower) wanted(typeURL string) []string {
	var out []string
	for _, of := range f.refs {
		for _, refs := range of {
			out = append(out, refs[typeURL]...)
		}
	}
	return report.Set(out)
}

func without(list, gone []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(gone, s) })
}
