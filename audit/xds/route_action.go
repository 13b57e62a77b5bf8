package xds

import (
	"regexp"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// unknownService is the cluster of a destination without a host.
const unknownService = "UnknownService"

// destinationCluster is the cluster that a destination leads to (RDS-12). svc
// is what is known of its host; port is used when neither the destination nor
// svc tells one.
func destinationCluster(d *networking.Destination, svc *scope.Service, port int, portFixed bool) string {
	host := d.GetHost()
	if host == "" {
		return unknownService
	}
	if svc != nil && svc.ExternalName != "" {
		host = svc.ExternalName
	}
	switch {
	case d.GetPort() != nil:
		port = int(d.GetPort().GetNumber())
	case svc != nil && !portFixed && len(svc.Ports) == 1:
		port = svc.Ports[0].Number
	}
	return "outbound|" + strconv.Itoa(port) + "|" + d.GetSubset() + "|" + host
}

func (o *routeOptions) cluster(d *networking.Destination) string {
	return destinationCluster(d, o.serviceOf(d), o.port, o.portFixed)
}

// setDestinations makes the route action of a rule that is neither a redirect
// nor a direct response, and returns the hosts that it leads to. authority is
// the Host header that the rule's header operations set.
func (b *Builder) setDestinations(out *routev3.Route, vs *mesh.VirtualService, in *networking.HTTPRoute, authority string, o *routeOptions) []string {
	action := &routev3.RouteAction{}
	out.Action = &routev3.Route_Route{Route: action}
	setTimeout(action, in.Timeout)
	semantics := semanticsOf(vs)
	if semantics == gatewaySemantics {
		action.ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
	}
	if in.Rewrite != nil {
		action.AppendXForwardedHost = b.proxyHeaders(o.proxy, outboundClass).xForwardedHost
		setRewrite(out, action, in.Rewrite, semantics)
		if in.Rewrite.GetAuthority() != "" {
			authority = in.Rewrite.GetAuthority()
		}
	}
	if authority != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: authority}
	}
	b.setMirrors(action, in, o)
	policy := in.Retries
	if policy == nil {
		policy = b.view.Config.GetDefaultHttpRetryPolicy()
	}
	var hosts []string
	hashed := false
	if len(in.Route) == 1 {
		hosts, hashed = b.setSingle(out, action, in.Route[0], o)
	} else {
		hosts = b.setWeighted(action, in.Route, o)
	}
	action.RetryPolicy = b.retryPolicy(policy, hashed)
	return hosts
}

func setTimeout(action *routev3.RouteAction, timeout *durationpb.Duration) {
	if timeout == nil {
		timeout = &durationpb.Duration{}
	}
	action.Timeout = timeout
	action.MaxGrpcTimeout = timeout
	if timeout.AsDuration() == 0 {
		action.MaxGrpcTimeout = &durationpb.Duration{}
	}
}

func setRewrite(out *routev3.Route, action *routev3.RouteAction, in *networking.HTTPRewrite, semantics routeSemantics) {
	if regex := in.GetUriRegexRewrite(); regex != nil {
		action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern:      &matcherv3.RegexMatcher{Regex: regex.Match},
			Substitution: regex.Rewrite,
		}
		return
	}
	uri := in.GetUri()
	if semantics == gatewaySemantics && uri == "/" {
		action.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern:      &matcherv3.RegexMatcher{Regex: "^" + regexp.QuoteMeta(out.GetMatch().GetPathSeparatedPrefix()) + "(/?)(.*)"},
			Substitution: `/\2`,
		}
		return
	}
	action.PrefixRewrite = uri
}

func (b *Builder) setMirrors(action *routev3.RouteAction, in *networking.HTTPRoute, o *routeOptions) {
	add := func(d *networking.Destination, fraction *corev3.RuntimeFractionalPercent) {
		if fraction == nil {
			return
		}
		action.RequestMirrorPolicies = append(action.RequestMirrorPolicies, &routev3.RouteAction_RequestMirrorPolicy{
			Cluster:                       o.cluster(d),
			RuntimeFraction:               fraction,
			TraceSampled:                  wrapperspb.Bool(false),
			DisableShadowHostSuffixAppend: b.view.Flags.DisableShadowHostSuffix,
		})
	}
	if in.Mirror != nil {
		add(in.Mirror, mirrorFraction(in))
	}
	for _, m := range in.Mirrors {
		if m.GetDestination() != nil {
			add(m.Destination, percentFraction(m.Percentage))
		}
	}
}

// mirrorFraction is the share of requests that mirror copies; nil: none.
func mirrorFraction(in *networking.HTTPRoute) *corev3.RuntimeFractionalPercent {
	if in.MirrorPercentage == nil && in.MirrorPercent != nil {
		if in.MirrorPercent.GetValue() == 0 {
			return nil
		}
		return &corev3.RuntimeFractionalPercent{DefaultValue: hundredths(int32(in.MirrorPercent.GetValue()))}
	}
	return percentFraction(in.MirrorPercentage)
}

func percentFraction(p *networking.Percent) *corev3.RuntimeFractionalPercent {
	switch {
	case p == nil:
		return &corev3.RuntimeFractionalPercent{DefaultValue: hundredths(100)}
	case p.GetValue() > 0:
		return &corev3.RuntimeFractionalPercent{DefaultValue: millionths(p)}
	}
	return nil
}

// setSingle makes the action of a rule with one destination.
func (b *Builder) setSingle(out *routev3.Route, action *routev3.RouteAction, dst *networking.HTTPRouteDestination, o *routeOptions) (hosts []string, hashed bool) {
	action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: o.cluster(dst.GetDestination())}
	if dst.GetHeaders() != nil {
		ops := headerOperations(dst.Headers)
		out.RequestHeadersToAdd = append(out.RequestHeadersToAdd, ops.requestAdd...)
		out.RequestHeadersToRemove = append(out.RequestHeadersToRemove, ops.requestRemove...)
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, ops.responseAdd...)
		out.ResponseHeadersToRemove = append(out.ResponseHeadersToRemove, ops.responseRemove...)
		if ops.authority != "" && action.HostRewriteSpecifier == nil {
			action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: ops.authority}
		}
	}
	hash := b.hashForDestination(dst.GetDestination(), o)
	if policy := hashPolicy(hash); policy != nil {
		action.HashPolicy = append(action.HashPolicy, policy)
	}
	return []string{dst.GetDestination().GetHost()}, hash != nil
}

// setWeighted makes the action of a rule with several destinations, or none.
func (b *Builder) setWeighted(action *routev3.RouteAction, dsts []*networking.HTTPRouteDestination, o *routeOptions) []string {
	var hosts []string
	weighted := &routev3.WeightedCluster{}
	for _, dst := range dsts {
		if dst.GetWeight() == 0 {
			continue
		}
		weight := &routev3.WeightedCluster_ClusterWeight{
			Name:   o.cluster(dst.GetDestination()),
			Weight: wrapperspb.UInt32(uint32(dst.Weight)),
		}
		if dst.Headers != nil {
			ops := headerOperations(dst.Headers)
			weight.RequestHeadersToAdd, weight.RequestHeadersToRemove = ops.requestAdd, ops.requestRemove
			weight.ResponseHeadersToAdd, weight.ResponseHeadersToRemove = ops.responseAdd, ops.responseRemove
			if ops.authority != "" {
				weight.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: ops.authority}
			}
		}
		if policy := hashPolicy(b.hashForDestination(dst.GetDestination(), o)); policy != nil {
			action.HashPolicy = append(action.HashPolicy, policy)
		}
		weighted.Clusters = append(weighted.Clusters, weight)
		hosts = append(hosts, dst.GetDestination().GetHost())
	}
	action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: weighted}
	return hosts
}

// redirectCodes are the codes that istiod knows.
var redirectCodes = map[uint32]routev3.RedirectAction_RedirectResponseCode{
	0:   routev3.RedirectAction_MOVED_PERMANENTLY,
	301: routev3.RedirectAction_MOVED_PERMANENTLY,
	302: routev3.RedirectAction_FOUND,
	303: routev3.RedirectAction_SEE_OTHER,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT,
	308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// setRedirect makes a redirect; with a code that istiod does not know the
// route stays without an action.
func setRedirect(out *routev3.Route, in *networking.HTTPRedirect, port int, tls bool) {
	code, ok := redirectCodes[in.RedirectCode]
	if !ok {
		return
	}
	action := &routev3.RedirectAction{HostRedirect: in.Authority, ResponseCode: code}
	if in.PrefixRewrite != "" {
		action.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: in.PrefixRewrite}
	} else {
		action.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: in.Uri}
	}
	scheme := in.Scheme
	if scheme != "" {
		action.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: scheme}
	} else if tls {
		scheme = "https"
	} else {
		scheme = "http"
	}
	switch p := in.RedirectPort.(type) {
	case *networking.HTTPRedirect_DerivePort:
		if p.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT {
			action.PortRedirect = uint32(port)
		}
	case *networking.HTTPRedirect_Port:
		action.PortRedirect = p.Port
	}
	if action.PortRedirect == 80 && scheme == "http" || action.PortRedirect == 443 && scheme == "https" {
		action.PortRedirect = 0
	}
	out.Action = &routev3.Route_Redirect{Redirect: action}
}

func setDirectResponse(out *routev3.Route, in *networking.HTTPDirectResponse) {
	action := &routev3.DirectResponseAction{Status: in.Status}
	switch body := in.GetBody().GetSpecifier().(type) {
	case *networking.HTTPBody_String_:
		action.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body.String_}}
	case *networking.HTTPBody_Bytes:
		action.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: body.Bytes}}
	}
	out.Action = &routev3.Route_DirectResponse{DirectResponse: action}
}
