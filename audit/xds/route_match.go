package xds

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// claimsHeader is the pretended header that matches claims of a verified JWT.
const claimsHeader = "@request.auth.claims"

// routeMatch translates the conditions that Envoy tests; nil matches everything.
func routeMatch(in *networking.HTTPMatchRequest, semantics routeSemantics) *routev3.RouteMatch {
	out := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	if in == nil {
		return out
	}
	setHeaderMatches(out, in)
	setPath(out, in.Uri, semantics)
	out.CaseSensitive = wrapperspb.Bool(!in.IgnoreUriCase)
	for _, pseudo := range []struct {
		name  string
		match *networking.StringMatch
	}{{":method", in.Method}, {":authority", in.Authority}, {":scheme", in.Scheme}} {
		if pseudo.match != nil {
			out.Headers = append(out.Headers, headerMatch(pseudo.name, pseudo.match))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.QueryParams)) {
		out.QueryParameters = append(out.QueryParameters, queryMatch(name, in.QueryParams[name]))
	}
	return out
}

func setHeaderMatches(out *routev3.RouteMatch, in *networking.HTTPMatchRequest) {
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		if m := claimMatch(name, in.Headers[name]); m != nil {
			out.DynamicMetadata = append(out.DynamicMetadata, m)
			continue
		}
		out.Headers = append(out.Headers, headerMatch(name, in.Headers[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(in.WithoutHeaders)) {
		match := in.WithoutHeaders[name]
		if m := claimMatch(name, match); m != nil {
			m.Invert = true
			out.DynamicMetadata = append(out.DynamicMetadata, m)
			continue
		}
		h := headerMatch(name, match)
		h.InvertMatch = true
		h.TreatMissingHeaderAsEmpty = !presentMatch(match)
		out.Headers = append(out.Headers, h)
	}
	slices.SortStableFunc(out.Headers, func(x, y *routev3.HeaderMatcher) int { return cmp.Compare(x.Name, y.Name) })
}

func setPath(out *routev3.RouteMatch, uri *networking.StringMatch, semantics routeSemantics) {
	switch m := uri.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: m.Exact}
	case *networking.StringMatch_Prefix:
		if (semantics == ingressSemantics || semantics == gatewaySemantics) && m.Prefix != "/" {
			out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: strings.TrimSuffix(m.Prefix, "/")}
			return
		}
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: m.Prefix}
	case *networking.StringMatch_Regex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.Regex}}
	}
}

// presentMatch reports a match that only asks for the header to be there: an
// empty one, or the regular expression "*".
func presentMatch(in *networking.StringMatch) bool {
	if in.GetMatchType() == nil {
		return true
	}
	return in.GetRegex() == "*"
}

func headerMatch(name string, in *networking.StringMatch) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: name}
	if presentMatch(in) {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
	} else if m := stringMatch(in); m != nil {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: m}
	}
	return out
}

func queryMatch(name string, in *networking.StringMatch) *routev3.QueryParameterMatcher {
	out := &routev3.QueryParameterMatcher{Name: name}
	if presentMatch(in) {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
	} else if m := stringMatch(in); m != nil {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: m}
	}
	return out
}

// stringMatch translates a string match; nil if it has no type.
func stringMatch(in *networking.StringMatch) *matcherv3.StringMatcher {
	switch m := in.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: m.Exact}}
	case *networking.StringMatch_Prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: m.Prefix}}
	case *networking.StringMatch_Regex:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: m.Regex}}}
	}
	return nil
}

// claimMatch translates a match on a JWT claim, "@request.auth.claims.a.b" or
// "@request.auth.claims[a][b]"; nil for any other header.
func claimMatch(name string, in *networking.StringMatch) *matcherv3.MetadataMatcher {
	if !strings.HasPrefix(strings.ToLower(name), claimsHeader) {
		return nil
	}
	rest := name[len(claimsHeader):]
	var claims []string
	switch {
	case strings.HasPrefix(rest, ".") && len(rest) > 1:
		claims = strings.Split(rest[1:], ".")
	case strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]") && len(rest) > 2:
		claims = strings.Split(rest[1:len(rest)-1], "][")
	default:
		return nil
	}
	out := &matcherv3.MetadataMatcher{Filter: "envoy.filters.http.jwt_authn"}
	for _, key := range append([]string{"payload"}, claims...) {
		out.Path = append(out.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key},
		})
	}
	value := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: stringMatch(in)}}
	list := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{
		ListMatch: &matcherv3.ListMatcher{MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: value}},
	}}
	out.Value = &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{
		OrMatch: &matcherv3.OrMatcher{ValueMatchers: []*matcherv3.ValueMatcher{list, value}},
	}}
	return out
}
