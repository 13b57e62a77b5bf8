package judge

import (
	"fmt"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	v3 "istio.io/istio/pilot/pkg/xds/v3"
	dns "istio.io/istio/pkg/dns/proto"

	"github.com/mesh-audit/mesh-audit/conformance/internal/parts"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Raw holds what istiod sent to one proxy, by short type name.
type Raw map[string][]*discovery.Resource

// collect asks for all types in Envoy's order.
func collect(st *stream, dnsCapture bool) (Raw, error) {
	raw := Raw{}
	var err error
	get := func(short, url string, names []string) {
		if err == nil {
			raw[short], err = st.fetch(url, names)
		}
	}
	get("cds", v3.ClusterType, nil)
	if names := edsNames(raw["cds"]); len(names) > 0 {
		get("eds", v3.EndpointType, names)
	}
	get("lds", v3.ListenerType, nil)
	routes, extensions := listenerNames(raw["lds"])
	if len(routes) > 0 {
		get("rds", v3.RouteType, routes)
	}
	if len(extensions) > 0 {
		get("ecds", v3.ExtensionConfigurationType, extensions)
	}
	if dnsCapture {
		get("nds", v3.NameTableType, nil)
	}
	return raw, err
}

// edsNames lists what the clusters ask their endpoints under.
func edsNames(list []*discovery.Resource) []string {
	var out []string
	for _, r := range list {
		c := &cluster.Cluster{}
		if r.Resource.UnmarshalTo(c) == nil {
			if name := parts.EDSName(c); name != "" {
				out = append(out, name)
			}
		}
	}
	return report.Set(out)
}

// listenerNames lists the route and extension configurations that the
// listeners refer to.
func listenerNames(list []*discovery.Resource) (routes, extensions []string) {
	for _, r := range list {
		l := &listener.Listener{}
		if r.Resource.UnmarshalTo(l) == nil {
			routes = append(routes, parts.RouteNames(l)...)
			extensions = append(extensions, parts.ConfigDiscoveryNames(l)...)
		}
	}
	return report.Set(routes), report.Set(extensions)
}

// resource puts one raw resource into its canonical form.
func resource(short string, r *discovery.Resource) (report.Resource, error) {
	out := report.Resource{Name: r.Name, Bytes: len(r.Resource.GetValue())}
	p, err := takeApart(short, r)
	if err != nil {
		return out, fmt.Errorf("%s %s: %w", short, r.Name, err)
	}
	out.Parts = p
	return out, nil
}

// takeApart gives a resource's parts.
func takeApart(short string, r *discovery.Resource) ([]report.Part, error) {
	switch short {
	case "cds":
		return decode(r, &cluster.Cluster{}, parts.Cluster)
	case "eds":
		return decode(r, &endpoint.ClusterLoadAssignment{}, parts.LoadAssignment)
	case "lds":
		return decode(r, &listener.Listener{}, parts.Listener)
	case "rds":
		return decode(r, &route.RouteConfiguration{}, parts.Route)
	case "nds":
		return decode(r, &dns.NameTable{}, parts.NameTable)
	}
	return nil, nil
}

// decode unpacks a resource and takes it apart.
func decode[M proto.Message](r *discovery.Resource, m M, take func(M) []report.Part) ([]report.Part, error) {
	if err := r.Resource.UnmarshalTo(m); err != nil {
		return nil, err
	}
	return take(m), nil
}
