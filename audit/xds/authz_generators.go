package xds

import (
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	uritemplatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// generator is an attribute: permissionGenerator, principalGenerator or
// principalsGenerator. What implements none of them for a side, or says false,
// cannot be tested there.
type generator any

// permissionGenerator tests one value; several are joined by OR.
type permissionGenerator interface {
	permission(key, value string, forTCP bool) (*rbacv3.Permission, bool)
}

// permissionsGenerator tests all values at once.
type permissionsGenerator interface {
	permissions(key string, values []string) (*rbacv3.Permission, bool)
}

// principalGenerator tests one value; several are joined by OR.
type principalGenerator interface {
	principal(key, value string, forTCP bool) (*rbacv3.Principal, bool)
}

// principalsGenerator tests all values at once.
type principalsGenerator interface {
	principals(key string, values []string, forTCP bool) (*rbacv3.Principal, bool)
}

// permission joins the values' permissions; nil: none; false: one value cannot
// be tested.
func (c condition) permission(values []string, forTCP bool) (*rbacv3.Permission, bool) {
	if len(values) == 0 {
		return nil, true
	}
	if g, ok := c.generate.(permissionsGenerator); ok {
		return g.permissions(c.key, values)
	}
	g, ok := c.generate.(permissionGenerator)
	if !ok {
		return nil, false
	}
	var or []*rbacv3.Permission
	all := true
	for _, v := range values {
		p, ok := g.permission(c.key, v, forTCP)
		all = all && ok
		if p != nil {
			or = append(or, p)
		}
	}
	if len(or) == 0 {
		return nil, all
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: or}}}, all
}

func (c condition) principal(values []string, forTCP bool) (*rbacv3.Principal, bool) {
	if len(values) == 0 {
		return nil, true
	}
	if g, ok := c.generate.(principalsGenerator); ok {
		return g.principals(c.key, values, forTCP)
	}
	g, ok := c.generate.(principalGenerator)
	if !ok {
		return nil, false
	}
	var or []*rbacv3.Principal
	all := true
	for _, v := range values {
		p, ok := g.principal(c.key, v, forTCP)
		all = all && ok
		if p != nil {
			or = append(or, p)
		}
	}
	if len(or) == 0 {
		return nil, all
	}
	return principalOr(or), all
}

type destinationIP struct{}

func (destinationIP) permission(_, value string, _ bool) (*rbacv3.Permission, bool) {
	prefix, ok := parsePrefix(value)
	if !ok {
		return nil, false
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: cidrRange(prefix)}}, true
}

type destinationPort struct{}

func (destinationPort) permission(_, value string, _ bool) (*rbacv3.Permission, bool) {
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return nil, false
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(port)}}, true
}

type serverName struct{}

func (serverName) permission(_, value string, _ bool) (*rbacv3.Permission, bool) {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: stringMatcher(value, "")}}, true
}

// envoyMetadata is experimental.envoy.filters.NAME[KEY]; a value in brackets is
// an element of a list.
type envoyMetadata struct{}

func (envoyMetadata) permissions(key string, values []string) (*rbacv3.Permission, bool) {
	filter, name, ok := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(key, "experimental."), "]"), "[")
	if !ok {
		return nil, false
	}
	var or []*matcherv3.ValueMatcher
	for _, value := range values {
		if strings.HasPrefix(value, "[") && strings.HasSuffix(value, "]") {
			or = append(or, listValue(stringValue(stringMatcher(strings.Trim(value, "[]"), ""))))
		} else {
			or = append(or, stringValue(stringMatcher(value, "")))
		}
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Metadata{
		Metadata: metadataMatcher(filter, []string{name}, orValue(or)),
	}}, true
}

type sourceIP struct{}

func (sourceIP) principal(_, value string, _ bool) (*rbacv3.Principal, bool) {
	prefix, ok := parsePrefix(value)
	if !ok {
		return nil, false
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: cidrRange(prefix)}}, true
}

type remoteIP struct{}

func (remoteIP) principal(_, value string, _ bool) (*rbacv3.Principal, bool) {
	prefix, ok := parsePrefix(value)
	if !ok {
		return nil, false
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: cidrRange(prefix)}}, true
}

type sourceNamespace struct{}

func (sourceNamespace) principal(_, value string, _ bool) (*rbacv3.Principal, bool) {
	parts := strings.Split(value, "*")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	return authenticated(regexMatcher(".*/ns/" + strings.Join(parts, ".*") + "/.*")), true
}

// sourceAccount is a service account, "name" in the policy's namespace or "ns/name".
type sourceAccount struct{ namespace string }

func (g sourceAccount) principal(_, value string, _ bool) (*rbacv3.Principal, bool) {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok {
		namespace, name = g.namespace, value
	}
	return authenticated(regexMatcher("spiffe://.+/ns/" + regexp.QuoteMeta(namespace) + "/(.+/|)sa/" + regexp.QuoteMeta(name) + "(/.+)?")), true
}

type sourceTrustDomain struct{}

func (sourceTrustDomain) principal(_, value string, _ bool) (*rbacv3.Principal, bool) {
	before, after, wildcard := strings.Cut(value, "*")
	switch {
	case value == "*":
		return authenticated(prefixMatcher("spiffe://", false)), true
	case !wildcard:
		return authenticated(prefixMatcher("spiffe://"+value+"/", false)), true
	}
	return authenticated(regexMatcher("spiffe://" + regexp.QuoteMeta(before) + "[^/]*" + regexp.QuoteMeta(after) + "/.*")), true
}

type sourcePrincipal struct{}

func (sourcePrincipal) principal(_, value string, _ bool) (*rbacv3.Principal, bool) {
	return authenticated(stringMatcher(value, "spiffe://")), true
}

// requestPrincipal is "issuer/subject" of a token.
type requestPrincipal struct{}

func (requestPrincipal) principals(_ string, values []string, forTCP bool) (*rbacv3.Principal, bool) {
	if forTCP {
		return nil, false
	}
	var or []*rbacv3.Principal
	for _, value := range values {
		issuer, subject := tokenMatchers(value)
		or = append(or, principalAnd([]*rbacv3.Principal{claimPrincipal("iss", issuer), claimPrincipal("sub", subject)}))
	}
	if len(or) == 1 {
		return or[0], true
	}
	return principalOr(or), true
}

func tokenMatchers(value string) (issuer, subject *matcherv3.StringMatcher) {
	anything := regexMatcher(".+")
	i := strings.LastIndex(value, "/")
	iss, sub := value, ""
	if i >= 0 {
		iss, sub = value[:i], value[i+1:]
	}
	switch {
	case value == "*":
		return anything, anything
	case strings.HasPrefix(value, "*") && i < 0:
		return anything, suffixMatcher(value[1:], false)
	case strings.HasPrefix(value, "*"):
		if iss == "*" {
			return anything, exactMatcher(sub, false)
		}
		return suffixMatcher(iss[1:], false), exactMatcher(sub, false)
	case strings.HasSuffix(value, "*") && i < 0:
		return prefixMatcher(strings.TrimSuffix(value, "*"), false), anything
	case strings.HasSuffix(value, "*"):
		if sub == "*" {
			return exactMatcher(iss, false), anything
		}
		return exactMatcher(iss, false), prefixMatcher(strings.TrimSuffix(sub, "*"), false)
	}
	return exactMatcher(iss, false), exactMatcher(sub, false)
}

// requestClaim is a claim of a token: of its path, or of the key's brackets.
type requestClaim struct{ path []string }

func (g requestClaim) principals(key string, values []string, forTCP bool) (*rbacv3.Principal, bool) {
	path := g.path
	if path == nil {
		var ok bool
		if path, ok = nestedBrackets(strings.TrimPrefix(key, attrRequestClaims)); !ok {
			return nil, false
		}
	}
	if forTCP {
		return nil, false
	}
	var or []*matcherv3.ValueMatcher
	for _, v := range values {
		or = append(or, stringValue(stringMatcher(v, "")))
	}
	value := orValue(or)
	return metadataPrincipal(append([]string{"payload"}, path...), &matcherv3.ValueMatcher{
		MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{
			ValueMatchers: []*matcherv3.ValueMatcher{listValue(value), value},
		}},
	}), true
}

// nestedBrackets reads "[a][b]".
func nestedBrackets(s string) ([]string, bool) {
	var out []string
	for rest := s; rest != ""; {
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 || strings.IndexByte(rest[1:end], '[') >= 0 {
			name, ok := inBrackets(s)
			return []string{name}, ok
		}
		out = append(out, rest[1:end])
		rest = rest[end+1:]
	}
	return out, true
}

func inBrackets(s string) (string, bool) {
	if !strings.HasPrefix(s, "[") || !strings.HasSuffix(s, "]") {
		return "", false
	}
	return strings.TrimPrefix(strings.TrimSuffix(s, "]"), "["), true
}

type requestHeader struct{}

func (requestHeader) principal(key, value string, forTCP bool) (*rbacv3.Principal, bool) {
	name, ok := inBrackets(strings.TrimPrefix(key, attrRequestHeader))
	if forTCP || !ok {
		return nil, false
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: headerMatcher(name, value, false)}}, true
}

type requestHost struct{}

func (requestHost) permission(key, value string, forTCP bool) (*rbacv3.Permission, bool) {
	if forTCP {
		return nil, false
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: headerMatcher(key, value, true)}}, true
}

type requestMethod struct{}

func (requestMethod) permission(key, value string, forTCP bool) (*rbacv3.Permission, bool) {
	if forTCP {
		return nil, false
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: headerMatcher(key, value, false)}}, true
}

type requestPath struct{}

func (requestPath) permission(_, value string, forTCP bool) (*rbacv3.Permission, bool) {
	if forTCP {
		return nil, false
	}
	if strings.Contains(value, "{*}") || strings.Contains(value, "{**}") {
		template := strings.NewReplacer("{*}", "*", "{**}", "**").Replace(value)
		return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
			Name:        "uri-template",
			TypedConfig: toAny(&uritemplatev3.UriTemplateMatchConfig{PathTemplate: template}),
		}}}, true
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
		Rule: &matcherv3.PathMatcher_Path{Path: stringMatcher(value, "")},
	}}}, true
}
