package xds

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
)

// headerOps are the header operations of one place.
type headerOps struct {
	requestAdd, responseAdd       []*corev3.HeaderValueOption
	requestRemove, responseRemove []string
	authority                     string // what the request's Host header becomes
}

func headerOperations(in *networking.Headers) headerOps {
	req, resp := in.GetRequest(), in.GetResponse()
	set, authority := headersToAdd(req.GetSet(), corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	add, added := headersToAdd(req.GetAdd(), corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	respSet, _ := headersToAdd(resp.GetSet(), corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	respAdd, _ := headersToAdd(resp.GetAdd(), corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	return headerOps{
		requestAdd: append(set, add...), responseAdd: append(respSet, respAdd...),
		requestRemove: withoutInternal(req.GetRemove()), responseRemove: withoutInternal(resp.GetRemove()),
		authority: cmp.Or(authority, added),
	}
}

// headersToAdd orders headers by name; those that Envoy does not let change
// are left out, but the authority among them is told.
func headersToAdd(headers map[string]string, action corev3.HeaderValueOption_HeaderAppendAction) (out []*corev3.HeaderValueOption, authority string) {
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		if strings.EqualFold(key, ":authority") || strings.EqualFold(key, "host") {
			authority = headers[key]
		}
		if internalHeader(key) {
			continue
		}
		out = append(out, &corev3.HeaderValueOption{
			Header:       &corev3.HeaderValue{Key: key, Value: headers[key]},
			AppendAction: action,
		})
	}
	return out, authority
}

func internalHeader(key string) bool {
	return strings.HasPrefix(key, ":") || strings.EqualFold(key, "host")
}

func withoutInternal(keys []string) []string {
	var out []string
	for _, k := range keys {
		if !internalHeader(k) {
			out = append(out, k)
		}
	}
	return out
}

// altSvcHeader advertises HTTP/3 on the port for a day.
func altSvcHeader(port int) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
		Header:       &corev3.HeaderValue{Key: "alt-svc", Value: fmt.Sprintf(`h3=":%d"; ma=86400`, port)},
	}
}

const defaultRetryOn = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"

// previousHosts makes retries go to other hosts.
var previousHosts = []*routev3.RetryPolicy_RetryHostPredicate{{
	Name:       "envoy.retry_host_predicates.previous_hosts",
	ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{TypedConfig: toAny(&previoushostsv3.PreviousHostsPredicate{})},
}}

// previousPriorities makes retries go to other localities.
var previousPriorities = &routev3.RetryPolicy_RetryPriority{
	Name: "envoy.retry_priorities.previous_priorities",
	ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
		TypedConfig: toAny(&previousprioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 2}),
	},
}

// retryPolicy translates a retry policy: nil is istiod's default one, one
// without attempts turns retries off (SIZE-22; Istio
// pilot/pkg/networking/core/route/retry/retry.go). hashed says that a single
// destination has consistent hashing, which keeps retries on their host.
func (b *Builder) retryPolicy(in *networking.HTTPRetry, hashed bool) *routev3.RetryPolicy {
	if in != nil && in.Attempts <= 0 {
		return nil
	}
	out := &routev3.RetryPolicy{
		NumRetries:                    wrapperspb.UInt32(2),
		RetryOn:                       defaultRetryOn,
		HostSelectionRetryMaxAttempts: 5,
	}
	if !b.view.Flags.ExcludeUnsafe503 {
		out.RetriableStatusCodes = []uint32{http.StatusServiceUnavailable}
	}
	if !hashed {
		out.RetryHostPredicate = previousHosts
	}
	if in == nil {
		return out
	}
	out.NumRetries = wrapperspb.UInt32(uint32(in.Attempts))
	if in.RetryOn != "" {
		out.RetryOn, out.RetriableStatusCodes = retryConditions(in.RetryOn)
	}
	out.PerTryTimeout = in.PerTryTimeout
	if b.view.Behaviours.RetryBackoff {
		if in.RetryIgnorePreviousHosts != nil {
			out.RetryHostPredicate = nil
			if in.RetryIgnorePreviousHosts.GetValue() {
				out.RetryHostPredicate = previousHosts
			}
		}
		if in.Backoff != nil {
			out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: in.Backoff}
		}
	}
	if in.RetryRemoteLocalities.GetValue() {
		out.RetryPriority = previousPriorities
	}
	return out
}

// retryConditions splits retryOn into Envoy's conditions and status codes.
func retryConditions(retryOn string) (conditions string, codes []uint32) {
	var words []string
	for word := range strings.SplitSeq(retryOn, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		if code, err := strconv.Atoi(word); err == nil && http.StatusText(code) != "" {
			codes = append(codes, uint32(code))
			continue
		}
		words = append(words, word)
	}
	conditions = strings.Join(words, ",")
	if len(codes) > 0 && !strings.Contains(conditions, "retriable-status-codes") {
		conditions += ",retriable-status-codes"
	}
	return conditions, codes
}

// hashForDestination is the consistent hash that the DestinationRule of a
// destination sets; nil if none. Most specific wins: the subset's port, the
// subset, the port, the rule.
func (b *Builder) hashForDestination(d *networking.Destination, o *routeOptions) *networking.LoadBalancerSettings_ConsistentHashLB {
	svc := o.scope.Service(d.GetHost())
	if svc == nil {
		return nil
	}
	dr := o.scope.DestinationRule(svc.Service, o.proxy)
	if dr == nil {
		return nil
	}
	policy := dr.Spec.GetTrafficPolicy()
	for _, subset := range dr.Spec.GetSubsets() {
		if subset.GetName() != d.GetSubset() {
			continue
		}
		if hash := portHash(d, subset.GetTrafficPolicy()); hash != nil {
			return hash
		}
		if hash := subset.GetTrafficPolicy().GetLoadBalancer().GetConsistentHash(); hash != nil {
			return hash
		}
		break
	}
	if hash := portHash(d, policy); hash != nil {
		return hash
	}
	return policy.GetLoadBalancer().GetConsistentHash()
}

// portHash is the hash of the policy's settings for the destination's own port.
func portHash(d *networking.Destination, policy *networking.TrafficPolicy) *networking.LoadBalancerSettings_ConsistentHashLB {
	if d.GetPort() == nil {
		return nil
	}
	for _, setting := range policy.GetPortLevelSettings() {
		if setting.GetPort().GetNumber() == d.GetPort().GetNumber() {
			return setting.GetLoadBalancer().GetConsistentHash()
		}
	}
	return nil
}

// hashPolicy translates a consistent hash; nil if it has no key.
func hashPolicy(in *networking.LoadBalancerSettings_ConsistentHashLB) *routev3.RouteAction_HashPolicy {
	switch key := in.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: key.HttpHeaderName},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		cookie := &routev3.RouteAction_HashPolicy_Cookie{
			Name: key.HttpCookie.GetName(), Ttl: key.HttpCookie.GetTtl(), Path: key.HttpCookie.GetPath(),
		}
		for _, attr := range key.HttpCookie.GetAttributes() {
			cookie.Attributes = append(cookie.Attributes, &routev3.RouteAction_HashPolicy_CookieAttribute{Name: attr.GetName(), Value: attr.GetValue()})
		}
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookie}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: key.UseSourceIp},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: key.HttpQueryParameterName},
		}}
	}
	return nil
}

// millionths is a percentage in Envoy's finest unit.
func millionths(p *networking.Percent) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: uint32(p.GetValue() * 10000), Denominator: typev3.FractionalPercent_MILLION}
}

func hundredths(p int32) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: uint32(p), Denominator: typev3.FractionalPercent_HUNDRED}
}
