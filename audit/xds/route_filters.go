package xds

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	httpfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	statefulsessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/scope"
)

const (
	faultFilterName   = "envoy.filters.http.fault"
	corsFilterName    = "envoy.filters.http.cors"
	sessionFilterName = "envoy.filters.http.stateful_session"
)

// setRouteFilters adds what the filters of the listener read from the route.
// hosts are the destinations, for persistent sessions.
func (b *Builder) setRouteFilters(out *routev3.Route, in *networking.HTTPRoute, hosts []string, o *routeOptions) {
	filters := map[string]*anypb.Any{}
	if in.Fault != nil {
		filters[faultFilterName] = toAny(httpFault(in.Fault))
	}
	if in.CorsPolicy != nil {
		filters[corsFilterName] = toAny(corsPolicy(in.CorsPolicy))
	}
	var session *statefulsessionv3.StatefulSession
	for _, host := range hosts {
		if o.service == nil {
			break
		}
		next := b.persistentSession(o.service(host))
		if next != nil && session != nil {
			break
		}
		session = next
	}
	if session != nil {
		filters[sessionFilterName] = sessionPerRoute(session)
	}
	if len(filters) > 0 {
		out.TypedPerFilterConfig = filters
	}
}

// persistentSession is the session that a service's labels ask for; nil if
// none, or if istiod does not look at them.
func (b *Builder) persistentSession(svc *scope.Service) *statefulsessionv3.StatefulSession {
	if svc == nil || !b.view.Flags.PersistentSession {
		return nil
	}
	if cookie := svc.Labels[b.view.Flags.PersistentSessionLabel]; cookie != "" {
		name, path, ok := strings.Cut(cookie, ":")
		if !ok {
			path = "/"
		}
		return &statefulsessionv3.StatefulSession{SessionState: &corev3.TypedExtensionConfig{
			Name:        "envoy.http.stateful_session.cookie",
			TypedConfig: toAny(&cookiev3.CookieBasedSessionState{Cookie: &httpv3.Cookie{Name: name, Path: path}}),
		}}
	}
	if header := svc.Labels[b.view.Flags.PersistentSessionHeaderLabel]; header != "" {
		return &statefulsessionv3.StatefulSession{SessionState: &corev3.TypedExtensionConfig{
			Name:        "envoy.http.stateful_session.header",
			TypedConfig: toAny(&headerv3.HeaderBasedSessionState{Name: header}),
		}}
	}
	return nil
}

func sessionPerRoute(session *statefulsessionv3.StatefulSession) *anypb.Any {
	return toAny(&statefulsessionv3.StatefulSessionPerRoute{
		Override: &statefulsessionv3.StatefulSessionPerRoute_StatefulSession{StatefulSession: session},
	})
}

// httpFault translates a fault; kinds that istiod does not know are left out.
func httpFault(in *networking.HTTPFaultInjection) *httpfaultv3.HTTPFault {
	out := &httpfaultv3.HTTPFault{}
	if d, ok := in.GetDelay().GetHttpDelayType().(*networking.HTTPFaultInjection_Delay_FixedDelay); ok {
		out.Delay = &faultv3.FaultDelay{
			Percentage:         hundredths(in.Delay.Percent),
			FaultDelaySecifier: &faultv3.FaultDelay_FixedDelay{FixedDelay: d.FixedDelay},
		}
		if in.Delay.Percentage != nil {
			out.Delay.Percentage = millionths(in.Delay.Percentage)
		}
	}
	abort := &httpfaultv3.FaultAbort{}
	switch a := in.GetAbort().GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		abort.ErrorType = &httpfaultv3.FaultAbort_HttpStatus{HttpStatus: uint32(a.HttpStatus)}
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		abort.ErrorType = &httpfaultv3.FaultAbort_GrpcStatus{GrpcStatus: grpcStatus[a.GrpcStatus]}
	default:
		return out
	}
	if in.Abort.Percentage != nil {
		abort.Percentage = millionths(in.Abort.Percentage)
	}
	out.Abort = abort
	return out
}

// grpcStatus are the codes of gRPC by name.
var grpcStatus = map[string]uint32{
	"OK": 0, "CANCELLED": 1, "UNKNOWN": 2, "INVALID_ARGUMENT": 3, "DEADLINE_EXCEEDED": 4, "NOT_FOUND": 5,
	"ALREADY_EXISTS": 6, "PERMISSION_DENIED": 7, "RESOURCE_EXHAUSTED": 8, "FAILED_PRECONDITION": 9, "ABORTED": 10,
	"OUT_OF_RANGE": 11, "UNIMPLEMENTED": 12, "INTERNAL": 13, "UNAVAILABLE": 14, "DATA_LOSS": 15, "UNAUTHENTICATED": 16,
}

func corsPolicy(in *networking.CorsPolicy) *corsv3.CorsPolicy {
	out := &corsv3.CorsPolicy{
		ForwardNotMatchingPreflights: wrapperspb.Bool(in.UnmatchedPreflights != networking.CorsPolicy_IGNORE),
		FilterEnabled:                &corev3.RuntimeFractionalPercent{DefaultValue: hundredths(100)},
		AllowCredentials:             in.AllowCredentials,
		AllowHeaders:                 strings.Join(in.AllowHeaders, ","),
		AllowMethods:                 strings.Join(in.AllowMethods, ","),
		ExposeHeaders:                strings.Join(in.ExposeHeaders, ","),
	}
	if in.AllowOrigins != nil {
		for _, origin := range in.AllowOrigins {
			if m := stringMatch(origin); m != nil {
				out.AllowOriginStringMatch = append(out.AllowOriginStringMatch, m)
			}
		}
	} else {
		for _, origin := range in.AllowOrigin {
			out.AllowOriginStringMatch = append(out.AllowOriginStringMatch,
				&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: origin}})
		}
	}
	if in.MaxAge != nil {
		out.MaxAge = strconv.FormatInt(in.MaxAge.GetSeconds(), 10)
	}
	return out
}
