package xds

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// routeParts are a route configuration's parts: one for each virtual host, by name.
func (on digests) routeParts(rc *routev3.RouteConfiguration) []result.Part {
	out := make([]result.Part, 0, len(rc.GetVirtualHosts()))
	for _, vh := range rc.GetVirtualHosts() {
		out = append(out, on.virtualHostPart(vh))
	}
	sortVirtualHostParts(out)
	return out
}

func (on digests) virtualHostPart(vh *routev3.VirtualHost) result.Part {
	return result.Part{
		Name:    vh.GetName(),
		Domains: sortedSet(vh.GetDomains()),
		To:      virtualHostTargets(vh),
		Matches: routeMatches(vh.GetRoutes()),
		Bytes:   fieldBytes(int64(proto.Size(vh))),
		Digest:  on.virtualHost(vh),
		Fails:   on.routeFails(vh.GetRoutes()),
	}
}

// sortVirtualHostParts orders by name; equal names, which only EnvoyFilters
// make, by the rest.
func sortVirtualHostParts(parts []result.Part) {
	slices.SortStableFunc(parts, func(x, y result.Part) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), slices.Compare(x.Domains, y.Domains), slices.Compare(x.To, y.To))
	})
}

// virtualHostTargets says where a virtual host leads to, in the canonical form.
func virtualHostTargets(vh *routev3.VirtualHost) []string {
	var out []string
	if vh.GetRequireTls() != routev3.VirtualHost_NONE {
		out = append(out, "redirect-tls")
	}
	out = append(out, mirrorTargets(vh.GetRequestMirrorPolicies())...)
	return sortedSet(append(out, routeTargets(vh.GetRoutes())...))
}

// routeTargets says where routes lead to, in the canonical form.
func routeTargets(routes []*routev3.Route) []string {
	var out []string
	for _, r := range routes {
		switch a := r.GetAction().(type) {
		case *routev3.Route_Redirect:
			out = append(out, "redirect")
		case *routev3.Route_DirectResponse:
			out = append(out, "direct:"+strconv.FormatUint(uint64(a.DirectResponse.GetStatus()), 10))
		case *routev3.Route_Route:
			to := actionTargets(a.Route)
			if len(to) == 0 {
				to = []string{"none"}
			}
			out = append(append(out, to...), mirrorTargets(a.Route.GetRequestMirrorPolicies())...)
		default:
			out = append(out, "none")
		}
	}
	return sortedSet(out)
}

func actionTargets(a *routev3.RouteAction) []string {
	switch c := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		return prefixed("", c.Cluster)
	case *routev3.RouteAction_ClusterHeader:
		return prefixed("header ", c.ClusterHeader)
	case *routev3.RouteAction_ClusterSpecifierPlugin, *routev3.RouteAction_InlineClusterSpecifierPlugin:
		return []string{"plugin"}
	case *routev3.RouteAction_WeightedClusters:
		var out []string
		for _, w := range c.WeightedClusters.GetClusters() {
			out = append(append(out, prefixed("", w.GetName())...), prefixed("header ", w.GetClusterHeader())...)
		}
		return out
	}
	return nil
}

func mirrorTargets(policies []*routev3.RouteAction_RequestMirrorPolicy) []string {
	var out []string
	for _, p := range policies {
		out = append(out, prefixed("mirror ", p.GetCluster())...)
	}
	return out
}

func prefixed(prefix, name string) []string {
	if name == "" {
		return nil
	}
	return []string{prefix + name}
}

// routeMatches says what each route matches, as istioctl prints it.
func routeMatches(routes []*routev3.Route) []string {
	out := make([]string, 0, len(routes))
	for _, r := range routes {
		m := r.GetMatch()
		var words []string
		if p := m.GetPrefix(); p != "" {
			words = append(words, p+"*")
		}
		if p := m.GetPathSeparatedPrefix(); p != "" {
			words = append(words, "PathPrefix:"+p)
		}
		if p := m.GetPath(); p != "" {
			words = append(words, p)
		}
		if p := m.GetSafeRegex(); p != nil {
			words = append(words, "regex "+p.GetRegex())
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// sortedSet is the values in byte order, each once; nil if there are none.
func sortedSet(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

// fieldBytes is the length of a length-delimited field whose number is below
// 16: tag, length and content.
func fieldBytes(content int64) int64 {
	return 1 + int64(protowire.SizeBytes(int(content)))
}
