package xds

import (
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
