package xds

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// meshGateway is the name by which sidecars bind VirtualServices.
const meshGateway = "mesh"

// routeOptions are what differs between the places where a VirtualService's
// http routes are used: a sidecar's route configuration or a router's.
type routeOptions struct {
	scope *scope.Scope
	proxy *mesh.Proxy
	// port is what match.port and the destinations without a port of their own
	// are taken against: a sidecar's route port (0: http_proxy, unix sockets),
	// a router's server port.
	port int
	// gateway is the name that the VirtualService is bound by: "mesh" or "ns/name".
	gateway string
	// tls says that the server has TLS settings (redirect ports).
	tls bool
	// altSvc adds the alt-svc header that advertises HTTP/3.
	altSvc bool
	// service finds a destination host's service, for its only port, its alias
	// and its labels (RDS-12); nil when it knows none.
	service func(host string) *scope.Service
	// portFixed says that service knows its services with port as their only
	// port, as a sidecar's route for a port does.
	portFixed bool
}

// routeKey is all that the routes of a VirtualService are made from.
type routeKey struct {
	vs                  *mesh.VirtualService
	port                int
	gateway             string
	tls, altSvc, xfHost bool
	context             string
}

// vsRoutes are the Envoy routes that a VirtualService's http routes become for
// a proxy, in order: those that the proxy's labels, namespace and gateway let
// through, up to the first that matches everything (RDS-11; Istio
// pilot/pkg/networking/core/route/route.go). Empty: the VirtualService says
// nothing here. The slice and its routes are shared between all uses with the
// same outcome and must not be changed.
func (b *Builder) vsRoutes(vs *mesh.VirtualService, o routeOptions) []*routev3.Route {
	key := b.routeKey(vs, &o)
	if known, ok := b.routes.ofVS[key]; ok {
		return known
	}
	var out []*routev3.Route
	for _, http := range vs.Spec.GetHttp() {
		routes, last := b.httpRoutes(vs, http, &o)
		out = append(out, routes...)
		if last {
			break
		}
	}
	b.routes.ofVS[key] = out
	return out
}

// httpRoutes are the routes of one http rule, and whether no later rule can be reached.
func (b *Builder) httpRoutes(vs *mesh.VirtualService, http *networking.HTTPRoute, o *routeOptions) (routes []*routev3.Route, last bool) {
	if http == nil {
		return nil, false
	}
	if len(http.Match) == 0 {
		return []*routev3.Route{b.translateRoute(vs, http, nil, o)}, true
	}
	for _, match := range http.Match {
		if !o.applies(match) {
			continue
		}
		r := b.translateRoute(vs, http, match, o)
		routes = append(routes, r)
		if matchesEverything(r) {
			return routes, true
		}
	}
	return routes, false
}

// applies tests the conditions of a match that istiod decides itself: port,
// gateways, sourceLabels and sourceNamespace.
func (o *routeOptions) applies(match *networking.HTTPMatchRequest) bool {
	if match == nil {
		return true
	}
	if match.Port != 0 && match.Port != uint32(o.port) {
		return false
	}
	if len(match.Gateways) > 0 {
		for _, g := range match.Gateways {
			if g == o.gateway {
				return true
			}
		}
		return false
	}
	return o.proxy.Labels.Include(match.SourceLabels) &&
		(match.SourceNamespace == "" || match.SourceNamespace == o.proxy.Namespace)
}

// routeKey tells uses of a VirtualService with different routes apart. Its
// context holds what the proxy and the scope decide: the matches that apply
// and what is known of each destination; empty in the common case that all
// matches apply and no destination is special.
func (b *Builder) routeKey(vs *mesh.VirtualService, o *routeOptions) routeKey {
	var context strings.Builder
	for i, http := range vs.Spec.GetHttp() {
		for j, match := range http.GetMatch() {
			if match != nil && !o.applies(match) {
				context.WriteString(strconv.Itoa(i) + "." + strconv.Itoa(j) + "-")
			}
		}
		for j, dst := range http.GetRoute() {
			special := b.destinationContext(dst.GetDestination(), o)
			if hash := b.hashForDestination(dst.GetDestination(), o); hash != nil {
				special += "#" + b.routes.hashID(hash)
			}
			if special != "" {
				context.WriteString(strconv.Itoa(i) + "." + strconv.Itoa(j) + special)
			}
		}
		for j, dst := range mirrorDestinations(http) {
			if special := b.destinationContext(dst, o); special != "" {
				context.WriteString(strconv.Itoa(i) + "m" + strconv.Itoa(j) + special)
			}
		}
	}
	return routeKey{
		vs: vs, port: o.port, gateway: o.gateway, tls: o.tls, altSvc: o.altSvc,
		xfHost: b.proxyHeaders(o.proxy, outboundClass).xForwardedHost, context: context.String(),
	}
}

// destinationContext is what the registry adds to a destination: its alias,
// its only port, its persistent session; empty if nothing.
func (b *Builder) destinationContext(d *networking.Destination, o *routeOptions) string {
	svc := o.serviceOf(d)
	if svc == nil {
		return ""
	}
	out := ""
	if svc.ExternalName != "" {
		out += "=" + svc.ExternalName
	}
	if d.GetPort() == nil && !o.portFixed && len(svc.Ports) == 1 {
		out += ":" + strconv.Itoa(svc.Ports[0].Number)
	}
	if b.view.Flags.PersistentSession {
		out += "~" + svc.Labels[b.view.Flags.PersistentSessionLabel] + "~" + svc.Labels[b.view.Flags.PersistentSessionHeaderLabel]
	}
	return out
}

func (o *routeOptions) serviceOf(d *networking.Destination) *scope.Service {
	if o.service == nil || d.GetHost() == "" {
		return nil
	}
	return o.service(d.GetHost())
}

// mirrorDestinations are those of mirror and mirrors.
func mirrorDestinations(http *networking.HTTPRoute) []*networking.Destination {
	var out []*networking.Destination
	if http.GetMirror() != nil {
		out = append(out, http.Mirror)
	}
	for _, m := range http.GetMirrors() {
		if m.GetDestination() != nil {
			out = append(out, m.Destination)
		}
	}
	return out
}

// translateRoute makes the route of one rule and one of its matches; match is
// nil for a rule without any.
func (b *Builder) translateRoute(vs *mesh.VirtualService, in *networking.HTTPRoute, match *networking.HTTPMatchRequest, o *routeOptions) *routev3.Route {
	out := &routev3.Route{
		Name:       in.Name,
		Match:      routeMatch(match, semanticsOf(vs)),
		Metadata:   configMetadata(vs.Meta, "virtual-service"),
		StatPrefix: match.GetStatPrefix(),
	}
	if match.GetName() != "" {
		out.Name += "." + match.Name
	}
	authority := ""
	if in.Headers != nil {
		ops := headerOperations(in.Headers)
		out.RequestHeadersToAdd, out.RequestHeadersToRemove = ops.requestAdd, ops.requestRemove
		out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = ops.responseAdd, ops.responseRemove
		authority = ops.authority
	}
	var hosts []string
	switch {
	case in.Redirect != nil:
		setRedirect(out, in.Redirect, o.port, o.tls)
	case in.DirectResponse != nil:
		setDirectResponse(out, in.DirectResponse)
	default:
		hosts = b.setDestinations(out, vs, in, authority, o)
	}
	out.Decorator = &routev3.Decorator{Operation: routeOperation(out, vs.Name, o.port)}
	b.setRouteFilters(out, in, hosts, o)
	if o.altSvc {
		out.ResponseHeadersToAdd = append(out.ResponseHeadersToAdd, altSvcHeader(o.port))
	}
	return out
}

// matchesEverything reports a route after which no other is reached.
func matchesEverything(r *routev3.Route) bool {
	m := r.GetMatch()
	if len(m.GetHeaders()) > 0 || len(m.GetQueryParameters()) > 0 || len(m.GetDynamicMetadata()) > 0 {
		return false
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return p.Prefix == "/"
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return p.PathSeparatedPrefix == "/"
	case *routev3.RouteMatch_SafeRegex:
		return p.SafeRegex.GetRegex() == ".*"
	}
	return false
}

// routeOperation is the name of a route in traces.
func routeOperation(r *routev3.Route, vsName string, port int) string {
	path := "/*"
	switch p := r.GetMatch().GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		path = p.Prefix + "*"
	case *routev3.RouteMatch_Path:
		path = p.Path
	case *routev3.RouteMatch_SafeRegex:
		path = p.SafeRegex.GetRegex()
	}
	if fields := strings.Split(r.GetRoute().GetCluster(), "|"); len(fields) == 4 {
		number, _ := strconv.Atoi(fields[1])
		return fields[3] + ":" + strconv.Itoa(number) + path
	}
	return vsName + ":" + strconv.Itoa(port) + path
}

// configMetadata names the object that an Envoy object was made from, as
// istiod does (SIZE-23); kind is in kebab case.
func configMetadata(m *snapshot.Meta, kind string) *corev3.Metadata {
	path := "/apis/networking.istio.io/v1/namespaces/" + m.Namespace + "/" + kind + "/" + m.Name
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"istio": {Fields: map[string]*structpb.Value{"config": structpb.NewStringValue(path)}},
	}}
}

// routeSemantics is how a VirtualService was made: by hand, or by istiod from
// another API.
type routeSemantics string

// The semantics other than the usual.
const (
	ingressSemantics routeSemantics = "ingress"
	gatewaySemantics routeSemantics = "gateway"
)

func semanticsOf(vs *mesh.VirtualService) routeSemantics {
	return routeSemantics(vs.Annotations["internal.istio.io/route-semantics"])
}
