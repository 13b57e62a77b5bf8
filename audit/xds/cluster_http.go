package xds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// setProtocol sets the HTTP options that the port's protocol asks for (SIZE-7;
// Istio cluster_builder.go setUpstreamProtocol).
func (cb *clusterBuilder) setProtocol(c *cluster, port mesh.Port) {
	if port.Protocol.IsHTTP2() {
		c.useHTTP2()
		return
	}
	if (port.Protocol.IsHTTP() || port.Protocol.IsAuto()) && cb.preservesCase() {
		c.options().UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: preserveCase()},
			},
		}
	}
	if cb.proxy.Kind == mesh.SidecarProxy && port.Protocol.IsAuto() {
		c.useDownstreamProtocol()
	}
}

func (cb *clusterBuilder) preservesCase() bool {
	return cb.proxy.Config.GetProxyHeaders().GetPreserveHttp1HeaderCase().GetValue()
}

func preserveCase() *corev3.Http1ProtocolOptions {
	return &corev3.Http1ProtocolOptions{HeaderKeyFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
			StatefulFormatter: &corev3.TypedExtensionConfig{
				Name:        "preserve_case",
				TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/envoy.extensions.http.header_formatters.preserve_case.v3.PreserveCaseFormatterConfig"},
			},
		},
	}}
}

// options returns the HTTP options, made if need be.
func (c *cluster) options() *httpv3.HttpProtocolOptions {
	if c.http == nil {
		c.http = &httpv3.HttpProtocolOptions{}
	}
	return c.http
}

// useHTTP2 makes it an HTTP/2 cluster, unless its protocol is chosen already.
func (c *cluster) useHTTP2() {
	if o := c.options(); o.UpstreamProtocolOptions == nil {
		o.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
				},
			},
		}
	}
}

// useDownstreamProtocol makes the cluster speak what the client spoke.
func (c *cluster) useDownstreamProtocol() {
	o := c.options()
	http1 := o.GetExplicitHttpConfig().GetHttpProtocolOptions()
	if http1 == nil {
		http1 = &corev3.Http1ProtocolOptions{}
	}
	o.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions:  http1,
			Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
		},
	}
}

func (c *cluster) isHTTP2() bool {
	return c.http.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil
}
