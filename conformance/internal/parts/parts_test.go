package parts

import (
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestChainMatch(t *testing.T) {
	cidr := &core.CidrRange{AddressPrefix: "10.0.0.1", PrefixLen: wrapperspb.UInt32(32)}
	port := wrapperspb.UInt32(80)
	for want, m := range map[string]*listener.FilterChainMatch{
		"":                             nil,
		"sni:a,b":                      {ServerNames: []string{"b", "a"}},
		"dst:10.0.0.1/32":              {PrefixRanges: []*core.CidrRange{cidr}},
		"dst:10.0.0.1/32:80":           {PrefixRanges: []*core.CidrRange{cidr}, DestinationPort: port},
		"dst:*:80 transport:tls":       {DestinationPort: port, TransportProtocol: "tls"},
		"srctype:external app:h2,http": {SourceType: listener.FilterChainMatch_EXTERNAL, ApplicationProtocols: []string{"http", "h2"}},
		"src:10.0.0.1/32 srcport:1,2":  {SourcePrefixRanges: []*core.CidrRange{cidr}, SourcePorts: []uint32{2, 1}},
	} {
		if got := chainMatch(m); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVirtualHost(t *testing.T) {
	vh := &route.VirtualHost{
		Name: "v", Domains: []string{"b", "a"}, RequireTls: route.VirtualHost_ALL,
		Routes: []*route.Route{
			{Action: &route.Route_DirectResponse{DirectResponse: &route.DirectResponseAction{Status: 404}}},
			{Action: &route.Route_Redirect{}},
			{},
			{Action: &route.Route_Route{Route: &route.RouteAction{
				ClusterSpecifier:      &route.RouteAction_Cluster{Cluster: "c"},
				RequestMirrorPolicies: []*route.RouteAction_RequestMirrorPolicy{{Cluster: "m"}},
			}}},
		},
	}
	got := Route(&route.RouteConfiguration{VirtualHosts: []*route.VirtualHost{vh}})[0].JSON()
	want := `{"name":"v","domains":["a","b"],"to":["c","direct:404","mirror m","none","redirect","redirect-tls"]}`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
