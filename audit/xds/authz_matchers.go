package xds

import (
	"regexp"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

var (
	permissionAny = &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}}
	principalAny  = &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
)

func permissionAnd(set []*rbacv3.Permission) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: set}}}
}

func permissionNot(p *rbacv3.Permission) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
}

func principalAnd(set []*rbacv3.Principal) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: set}}}
}

func principalOr(set []*rbacv3.Principal) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: set}}}
}

func principalNot(p *rbacv3.Principal) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
}

func authenticated(name *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
		Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: name},
	}}
}

// metadataPrincipal tests what the JWT filter left.
func metadataPrincipal(path []string, value *matcherv3.ValueMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Metadata{Metadata: metadataMatcher(jwtFilterName, path, value)}}
}

func claimPrincipal(claim string, m *matcherv3.StringMatcher) *rbacv3.Principal {
	return metadataPrincipal([]string{"payload", claim}, stringValue(m))
}

func metadataMatcher(filter string, path []string, value *matcherv3.ValueMatcher) *matcherv3.MetadataMatcher {
	m := &matcherv3.MetadataMatcher{Filter: filter, Value: value}
	for _, key := range path {
		m.Path = append(m.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key},
		})
	}
	return m
}

func stringValue(m *matcherv3.StringMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
}

func listValue(one *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{
		ListMatch: &matcherv3.ListMatcher{MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: one}},
	}}
}

// orValue joins matchers; a single one stays as it is.
func orValue(set []*matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	if len(set) == 1 {
		return set[0]
	}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{ValueMatchers: set}}}
}

func regexMatcher(regex string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}}}
}

func prefixMatcher(prefix string, ignoreCase bool) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{IgnoreCase: ignoreCase, MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: prefix}}
}

func suffixMatcher(suffix string, ignoreCase bool) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{IgnoreCase: ignoreCase, MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: suffix}}
}

func exactMatcher(exact string, ignoreCase bool) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{IgnoreCase: ignoreCase, MatchPattern: &matcherv3.StringMatcher_Exact{Exact: exact}}
}

// stringMatcher matches a value that may begin or end with "*", after a prefix.
func stringMatcher(v, prefix string) *matcherv3.StringMatcher {
	switch {
	case v == "*":
		return regexMatcher(".+")
	case strings.HasPrefix(v, "*") && prefix == "":
		return suffixMatcher(v[1:], false)
	case strings.HasPrefix(v, "*"):
		return regexMatcher(prefix + ".*" + regexp.QuoteMeta(v[1:]))
	case strings.HasSuffix(v, "*"):
		return prefixMatcher(prefix+strings.TrimSuffix(v, "*"), false)
	}
	return exactMatcher(prefix+v, false)
}

func headerMatcher(name, v string, ignoreCase bool) *routev3.HeaderMatcher {
	m := &routev3.HeaderMatcher{Name: name}
	var value *matcherv3.StringMatcher
	switch {
	case v == "*":
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
		return m
	case strings.HasPrefix(v, "*"):
		value = suffixMatcher(v[1:], ignoreCase)
	case strings.HasSuffix(v, "*"):
		value = prefixMatcher(v[:len(v)-1], ignoreCase)
	default:
		value = exactMatcher(v, ignoreCase)
	}
	m.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: value}
	return m
}
