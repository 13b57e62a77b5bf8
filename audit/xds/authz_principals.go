package xds

import (
	"regexp"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

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
