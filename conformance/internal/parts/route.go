package parts

import (
	"fmt"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Route gives one part per virtual host.
func Route(rc *route.RouteConfiguration) []report.Part {
	var out []report.Part
	for _, vh := range rc.VirtualHosts {
		out = append(out, report.Part{
			Name:    vh.Name,
			Domains: report.Set(vh.Domains),
			To:      report.Set(virtualHostTargets(vh)),
		})
	}
	report.SortParts(out)
	return out
}

// virtualHostTargets says where a virtual host's routes lead to.
func virtualHostTargets(vh *route.VirtualHost) []string {
	var out []string
	if vh.RequireTls != route.VirtualHost_NONE {
		out = append(out, "redirect-tls")
	}
	out = append(out, mirrors(vh.RequestMirrorPolicies)...)
	for _, r := range vh.Routes {
		out = append(out, routeTargets(r)...)
	}
	return out
}

// routeTargets says where one route leads to.
func routeTargets(r *route.Route) []string {
	switch a := r.Action.(type) {
	case *route.Route_Redirect:
		return []string{"redirect"}
	case *route.Route_DirectResponse:
		return []string{fmt.Sprintf("direct:%d", a.DirectResponse.GetStatus())}
	case *route.Route_Route:
		out := actionTargets(a.Route)
		if len(out) == 0 {
			out = []string{"none"}
		}
		return append(out, mirrors(a.Route.GetRequestMirrorPolicies())...)
	}
	return []string{"none"}
}

// actionTargets names the destinations of a route action.
func actionTargets(a *route.RouteAction) []string {
	switch c := a.GetClusterSpecifier().(type) {
	case *route.RouteAction_Cluster:
		return nonEmpty("", c.Cluster)
	case *route.RouteAction_ClusterHeader:
		return nonEmpty("header ", c.ClusterHeader)
	case *route.RouteAction_ClusterSpecifierPlugin, *route.RouteAction_InlineClusterSpecifierPlugin:
		return []string{"plugin"}
	case *route.RouteAction_WeightedClusters:
		var out []string
		for _, w := range c.WeightedClusters.GetClusters() {
			out = append(out, nonEmpty("", w.Name)...)
			out = append(out, nonEmpty("header ", w.ClusterHeader)...)
		}
		return out
	}
	return nil
}

// mirrors names the clusters that requests are copied to.
func mirrors(policies []*route.RouteAction_RequestMirrorPolicy) []string {
	var out []string
	for _, p := range policies {
		out = append(out, nonEmpty("mirror ", p.Cluster)...)
	}
	return out
}

// nonEmpty gives the prefixed value, or nothing if it is empty.
func nonEmpty(prefix, value string) []string {
	if value == "" {
		return nil
	}
	return []string{prefix + value}
}
