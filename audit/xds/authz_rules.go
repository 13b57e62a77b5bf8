package xds

import (
	"slices"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	security "istio.io/api/security/v1beta1"
)

// rbacBuilder turns AuthorizationPolicy rules into Envoy's (Istio
// pilot/pkg/security/authz/model).
type rbacBuilder struct {
	trustDomains []string // the mesh's own, then its aliases
}

// condition is one attribute of a rule.
type condition struct {
	key               string
	values, notValues []string
	generate          generator
}

// conditions are joined by AND.
type conditions []condition

func (c conditions) front(generate generator, key string, values, notValues []string) conditions {
	if len(values) == 0 && len(notValues) == 0 {
		return c
	}
	return append(conditions{{key, values, notValues, generate}}, c...)
}

// policy translates one rule; nil: it has no meaning for the chain's protocol,
// or an attribute is unknown.
func (r *rbacBuilder) policy(namespace string, rule *security.Rule, action rbacv3.RBAC_Action, forTCP bool) *rbacv3.Policy {
	if rule == nil {
		return nil
	}
	permissions, principals, ok := split(namespace, rule)
	if !ok {
		return nil
	}
	// An ALLOW rule that says what cannot be tested is left out; a DENY or AUDIT
	// rule goes without that condition.
	strict := action == rbacv3.RBAC_ALLOW
	out := &rbacv3.Policy{}
	for _, and := range permissions {
		set := []*rbacv3.Permission{}
		for _, c := range and {
			positive, ok := c.permission(c.values, forTCP)
			negative, okNot := c.permission(c.notValues, forTCP)
			if strict && !(ok && okNot) {
				return nil
			}
			if positive != nil {
				set = append(set, positive)
			}
			if negative != nil {
				set = append(set, permissionNot(negative))
			}
		}
		if len(set) == 0 {
			set = append(set, permissionAny)
		}
		out.Permissions = append(out.Permissions, permissionAnd(set))
	}
	for _, and := range principals {
		set := []*rbacv3.Principal{}
		for _, c := range r.migrate(and) {
			positive, ok := c.principal(c.values, forTCP)
			negative, okNot := c.principal(c.notValues, forTCP)
			if strict && !(ok && okNot) {
				return nil
			}
			if positive != nil {
				set = append(set, positive)
			}
			if negative != nil {
				set = append(set, principalNot(negative))
			}
		}
		if len(set) == 0 {
			set = append(set, principalAny)
		}
		out.Principals = append(out.Principals, principalAnd(set))
	}
	return out
}

// split sorts a rule's conditions into permissions and principals, each a list
// of alternatives; false: an attribute of when is unknown.
func split(namespace string, rule *security.Rule) (permissions, principals []conditions, ok bool) {
	var basePermission, basePrincipal conditions
	for _, when := range rule.GetWhen() {
		key := when.GetKey()
		generate, forPermission := whenGenerator(key, namespace)
		if generate == nil {
			return nil, nil, false
		}
		c := condition{key, when.GetValues(), when.GetNotValues(), generate}
		switch {
		case len(c.values) == 0 && len(c.notValues) == 0:
		case forPermission:
			basePermission = append(basePermission, c)
		default:
			basePrincipal = append(basePrincipal, c)
		}
	}
	for _, from := range rule.GetFrom() {
		merged := slices.Clone(basePrincipal)
		if s := from.GetSource(); s != nil {
			merged = merged.front(sourceIP{}, attrSourceIP, s.GetIpBlocks(), s.GetNotIpBlocks()).
				front(remoteIP{}, attrRemoteIP, s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks()).
				front(sourceNamespace{}, attrSourceNamespace, s.GetNamespaces(), s.GetNotNamespaces()).
				front(sourceTrustDomain{}, attrSourceTrustDomain, s.GetTrustDomains(), s.GetNotTrustDomains()).
				front(sourceAccount{namespace}, attrSourceAccount, s.GetServiceAccounts(), s.GetNotServiceAccounts()).
				front(requestPrincipal{}, attrRequestPrincipal, s.GetRequestPrincipals(), s.GetNotRequestPrincipals()).
				front(sourcePrincipal{}, attrSourcePrincipal, s.GetPrincipals(), s.GetNotPrincipals())
		}
		principals = append(principals, merged)
	}
	if len(rule.GetFrom()) == 0 {
		principals = append(principals, basePrincipal)
	}
	for _, to := range rule.GetTo() {
		merged := slices.Clone(basePermission)
		if o := to.GetOperation(); o != nil {
			merged = merged.front(destinationPort{}, attrDestinationPort, o.GetPorts(), o.GetNotPorts()).
				front(requestPath{}, "path-matcher", o.GetPaths(), o.GetNotPaths()).
				front(requestMethod{}, ":method", o.GetMethods(), o.GetNotMethods()).
				front(requestHost{}, ":authority", o.GetHosts(), o.GetNotHosts())
		}
		permissions = append(permissions, merged)
	}
	if len(rule.GetTo()) == 0 {
		permissions = append(permissions, basePermission)
	}
	return permissions, principals, true
}

// Attributes of when conditions.
const (
	attrRequestHeader     = "request.headers"
	attrSourceIP          = "source.ip"
	attrRemoteIP          = "remote.ip"
	attrSourceNamespace   = "source.namespace"
	attrSourceAccount     = "source.serviceAccount"
	attrSourceTrustDomain = "source.trustDomain"
	attrSourcePrincipal   = "source.principal"
	attrRequestPrincipal  = "request.auth.principal"
	attrRequestAudiences  = "request.auth.audiences"
	attrRequestPresenter  = "request.auth.presenter"
	attrRequestClaims     = "request.auth.claims"
	attrDestinationIP     = "destination.ip"
	attrDestinationPort   = "destination.port"
	attrSNI               = "connection.sni"
	attrEnvoyFilter       = "experimental.envoy.filters."
)

// whenGenerator finds what an attribute becomes; nil: unknown.
func whenGenerator(key, namespace string) (g generator, permission bool) {
	switch key {
	case attrDestinationIP:
		return destinationIP{}, true
	case attrDestinationPort:
		return destinationPort{}, true
	case attrSNI:
		return serverName{}, true
	case attrSourceIP:
		return sourceIP{}, false
	case attrRemoteIP:
		return remoteIP{}, false
	case attrSourceNamespace:
		return sourceNamespace{}, false
	case attrSourceTrustDomain:
		return sourceTrustDomain{}, false
	case attrSourceAccount:
		return sourceAccount{namespace}, false
	case attrSourcePrincipal:
		return sourcePrincipal{}, false
	case attrRequestPrincipal:
		return requestPrincipal{}, false
	case attrRequestAudiences:
		return requestClaim{path: []string{"aud"}}, false
	case attrRequestPresenter:
		return requestClaim{path: []string{"azp"}}, false
	}
	switch {
	case strings.HasPrefix(key, attrEnvoyFilter):
		return envoyMetadata{}, true
	case strings.HasPrefix(key, attrRequestHeader):
		return requestHeader{}, false
	case strings.HasPrefix(key, attrRequestClaims):
		return requestClaim{}, false
	}
	return nil, false
}

// migrate lets principals of a trust domain of the mesh stand for all of them
// (Istio pilot/pkg/security/trustdomain/bundle.go).
func (r *rbacBuilder) migrate(and conditions) conditions {
	out := slices.Clone(and)
	for i := range out {
		switch c := &out[i]; c.key {
		case attrSourcePrincipal:
			c.values, c.notValues = r.expandPrincipals(c.values), r.expandPrincipals(c.notValues)
		case attrSourceTrustDomain:
			c.values, c.notValues = r.expandTrustDomains(c.values), r.expandTrustDomains(c.notValues)
		}
	}
	return out
}

func (r *rbacBuilder) expandPrincipals(principals []string) []string {
	var out []string
	for _, principal := range principals {
		parts := strings.Split(principal, "/")
		if len(parts) != 5 || parts[0] == "*" || !looseMatch(parts[0], r.trustDomains) && parts[0] != "cluster.local" {
			out = append(out, principal)
			continue
		}
		var own []string
		for _, domain := range r.trustDomains {
			expanded := principal
			if !suffixMatches(domain, parts[0]) {
				expanded = domain + "/" + strings.Join(parts[1:], "/")
			}
			if !slices.Contains(own, expanded) {
				own = append(own, expanded)
			}
		}
		out = append(out, own...)
	}
	return out
}

func (r *rbacBuilder) expandTrustDomains(domains []string) []string {
	var out []string
	for _, domain := range domains {
		add := []string{domain}
		if slices.Contains(r.trustDomains, domain) {
			add = r.trustDomains
		}
		for _, d := range add {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out
}

// looseMatch tests a against patterns, either side with a leading or trailing "*".
func looseMatch(a string, list []string) bool {
	return slices.ContainsFunc(list, func(s string) bool {
		return a == s || s == "*" || prefixMatches(a, s) || prefixMatches(s, a) || suffixMatches(a, s) || suffixMatches(s, a)
	})
}

func prefixMatches(a, pattern string) bool {
	prefix, ok := strings.CutSuffix(pattern, "*")
	return ok && strings.HasPrefix(a, prefix)
}

func suffixMatches(a, pattern string) bool {
	suffix, ok := strings.CutPrefix(pattern, "*")
	return ok && strings.HasSuffix(a, suffix)
}
