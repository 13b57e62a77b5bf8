package xds

import (
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// How requests fail for certain, in a part's Fails.
const (
	failsDenied   = "403 (RBAC: access denied)"
	failsDeniedL4 = "connection closed (RBAC: access denied)"
)

// chainFails tells whether a chain's authorization denies everything.
func (on digests) chainFails(fc *listenerv3.FilterChain) []string {
	if !on {
		return nil
	}
	for _, f := range fc.GetFilters() {
		rules, manager := &tcprbacv3.RBAC{}, &hcmv3.HttpConnectionManager{}
		switch config := f.GetTypedConfig(); {
		case config.MessageIs(rules) && config.UnmarshalTo(rules) == nil:
			if deniesAll(rules.GetRules()) {
				return []string{failsDeniedL4}
			}
		case config.MessageIs(manager) && config.UnmarshalTo(manager) == nil:
			if slices.ContainsFunc(manager.GetHttpFilters(), filterDeniesAll) {
				return []string{failsDenied}
			}
		}
	}
	return nil
}

func filterDeniesAll(f *hcmv3.HttpFilter) bool {
	rules := &httprbacv3.RBAC{}
	config := f.GetTypedConfig()
	return config.MessageIs(rules) && config.UnmarshalTo(rules) == nil && deniesAll(rules.GetRules())
}

// deniesAll reports whether enforced rules let nothing through; no rules at all
// enforce nothing.
func deniesAll(rules *rbacv3.RBAC) bool {
	if rules == nil {
		return false
	}
	for _, p := range rules.GetPolicies() {
		permission, principal := anyOf(p.GetPermissions(), permits), anyOf(p.GetPrincipals(), identifies)
		switch rules.GetAction() {
		case rbacv3.RBAC_ALLOW:
			if permission != never && principal != never {
				return false
			}
		case rbacv3.RBAC_DENY:
			if permission == always && principal == always {
				return true
			}
		}
	}
	return rules.GetAction() == rbacv3.RBAC_ALLOW
}

// certainty is what is known of a rule before any request is seen.
type certainty int

const (
	never certainty = iota
	sometimes
	always
)

func (c certainty) not() certainty { return always - c }

func anyOf[T any](list []T, of func(T) certainty) certainty {
	out := never
	for _, one := range list {
		out = max(out, of(one))
	}
	return out
}

func allOf[T any](list []T, of func(T) certainty) certainty {
	out := always
	for _, one := range list {
		out = min(out, of(one))
	}
	return out
}

func permits(p *rbacv3.Permission) certainty {
	switch r := p.GetRule().(type) {
	case *rbacv3.Permission_Any:
		return always
	case *rbacv3.Permission_AndRules:
		return allOf(r.AndRules.GetRules(), permits)
	case *rbacv3.Permission_OrRules:
		return anyOf(r.OrRules.GetRules(), permits)
	case *rbacv3.Permission_NotRule:
		return permits(r.NotRule).not()
	}
	return sometimes
}

func identifies(p *rbacv3.Principal) certainty {
	switch r := p.GetIdentifier().(type) {
	case *rbacv3.Principal_Any:
		return always
	case *rbacv3.Principal_AndIds:
		return allOf(r.AndIds.GetIds(), identifies)
	case *rbacv3.Principal_OrIds:
		return anyOf(r.OrIds.GetIds(), identifies)
	case *rbacv3.Principal_NotId:
		return identifies(r.NotId).not()
	}
	return sometimes
}

// routeFails tells of the routes that choose by path alone and abort all requests.
func (on digests) routeFails(routes []*routev3.Route) []string {
	if !on {
		return nil
	}
	var out []string
	matches := routeMatches(routes)
	for i, r := range routes {
		m := r.GetMatch()
		if len(m.GetHeaders())+len(m.GetQueryParameters())+len(m.GetDynamicMetadata()) > 0 || m.GetGrpc() != nil || m.GetTlsContext() != nil || m.GetRuntimeFraction() != nil {
			continue
		}
		if fault := abortsAll(r); fault != "" {
			out = append(out, fmt.Sprintf("%s for %s", fault, matches[i]))
		}
	}
	return sortedSet(out)
}

// abortsAll is the status that a route's fault answers every request with;
// empty: it does not.
func abortsAll(r *routev3.Route) string {
	fault := &httpfaultv3.HTTPFault{}
	config := r.GetTypedPerFilterConfig()[faultFilter.GetName()]
	if config == nil || config.UnmarshalTo(fault) != nil {
		return ""
	}
	abort := fault.GetAbort()
	share := abort.GetPercentage()
	if abort == nil || len(fault.GetHeaders()) > 0 || share.GetNumerator() < denominators[share.GetDenominator()] {
		return ""
	}
	switch status := abort.GetErrorType().(type) {
	case *httpfaultv3.FaultAbort_HttpStatus:
		return fmt.Sprintf("%d FI (fault injected)", status.HttpStatus)
	case *httpfaultv3.FaultAbort_GrpcStatus:
		return fmt.Sprintf("gRPC status %d, FI (fault injected)", status.GrpcStatus)
	}
	return ""
}

var denominators = map[typev3.FractionalPercent_DenominatorType]uint32{
	typev3.FractionalPercent_HUNDRED: 100, typev3.FractionalPercent_TEN_THOUSAND: 10000, typev3.FractionalPercent_MILLION: 1000000,
}

// clusterTLS is how a cluster connects (result.Part.TLS).
func (on digests) clusterTLS(c *clusterv3.Cluster) string {
	if !on || len(c.GetTransportSocketMatches()) > 0 {
		return ""
	}
	context := &tlsv3.UpstreamTlsContext{}
	switch config := c.GetTransportSocket().GetTypedConfig(); {
	case c.GetTransportSocket() == nil:
		return "plaintext"
	case !config.MessageIs(context) || config.UnmarshalTo(context) != nil:
		return ""
	}
	for _, secret := range context.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
		if secret.GetName() == "default" {
			return "mutual"
		}
	}
	return "tls"
}
