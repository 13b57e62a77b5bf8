package xds

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	security "istio.io/api/security/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// placeholderBytes is the length of the key set that istiod sends while it could
// not fetch a jwksUri: a public key that fits no private one (Istio
// pilot/pkg/model/jwks_resolver.go PublicOnlyJwks).
const placeholderBytes = 426

// fetchedKeys is as long as a key set that istiod fetches.
func (b *Builder) fetchedKeys() string {
	return strings.Repeat("k", cmp.Or(b.view.KeySetBytes, placeholderBytes))
}

// fetchedSets counts the rules whose keys istiod fetches and inlines.
func (b *Builder) fetchedSets(rules []*security.JWTRule) (n int) {
	for _, r := range rules {
		if _, remote := b.keyCluster(r.GetJwksUri()); r.GetJwksUri() != "" && !remote && (r.GetJwks() == "" || b.remoteKeys()) {
			n++
		}
	}
	return n
}

// remoteKeys reports whether proxies fetch keys where they can (FLAG-22).
func (b *Builder) remoteKeys() bool {
	mode := b.view.Flags.RemoteJWKS
	return mode == "hybrid" || mode == "true" || mode == "envoy"
}

// keyCluster is the cluster from which a proxy fetches the keys of a uri itself;
// false: istiod fetches and inlines them.
func (b *Builder) keyCluster(uri string) (string, bool) {
	if uri == "" || !b.remoteKeys() {
		return "", false
	}
	host, port := keyServer(uri)
	_, cluster, ok := b.providerCluster(host, uint32(port))
	if !ok && b.view.Flags.RemoteJWKS == "envoy" {
		return outboundName(port, "", host), true
	}
	return cluster, ok
}

// jwtFilter checks the tokens of the RequestAuthentications that apply; nil:
// none does (Istio pilot/pkg/security/authn/policy_applier.go).
func (b *Builder) jwtFilter(p *mesh.Proxy) *hcmv3.HttpFilter {
	rules := b.jwtRules(p)
	if len(rules) == 0 {
		return nil
	}
	config := &jwtv3.JwtAuthentication{Providers: map[string]*jwtv3.JwtProvider{}, BypassCorsPreflight: true}
	var each, any []*jwtv3.JwtRequirement
	for i, rule := range rules {
		name := "origins-" + strconv.Itoa(i)
		config.Providers[name] = b.jwtProvider(rule, p.Kind != mesh.SidecarProxy)
		own := &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: name}}
		each = append(each, anyRequirement([]*jwtv3.JwtRequirement{
			own, {RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}}},
		}))
		any = append(any, own)
	}
	requires := each[0]
	if len(each) > 1 {
		requires = anyRequirement(append(any, &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{
			RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: each},
		}}))
	}
	config.Rules = []*jwtv3.RequirementRule{{
		Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		RequirementType: &jwtv3.RequirementRule_Requires{Requires: requires},
	}}
	return httpFilter(jwtFilterName, toAny(config))
}

// jwtRules are the rules of the namespace's policies, then the root
// namespace's, by issuer.
func (b *Builder) jwtRules(p *mesh.Proxy) []*security.JWTRule {
	if b.view.Policies == nil {
		return nil
	}
	var rules []*security.JWTRule
	for _, namespace := range lookedInto(p.Namespace, b.view.RootNamespace) {
		for _, policy := range b.view.Policies.RequestAuthentications {
			if policy.Namespace == namespace && policyAttaches(p, namespace, policy.Spec) {
				rules = append(rules, policy.Spec.GetJwtRules()...)
			}
		}
	}
	rules = slices.DeleteFunc(rules, func(r *security.JWTRule) bool { return r == nil })
	slices.SortStableFunc(rules, func(x, y *security.JWTRule) int { return cmp.Compare(x.GetIssuer(), y.GetIssuer()) })
	return rules
}

func anyRequirement(list []*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{
		RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: list},
	}}
}

func (b *Builder) jwtProvider(rule *security.JWTRule, clearRouteCache bool) *jwtv3.JwtProvider {
	claims := append([]string{"permission", "scope"}, rule.GetSpaceDelimitedClaims()...)
	slices.Sort(claims)
	provider := &jwtv3.JwtProvider{
		Issuer:               rule.GetIssuer(),
		Audiences:            rule.GetAudiences(),
		Forward:              rule.GetForwardOriginalToken(),
		ForwardPayloadHeader: rule.GetOutputPayloadToHeader(),
		PayloadInMetadata:    "payload",
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{
			SpaceDelimitedClaims: slices.Compact(claims),
		},
		ClearRouteCache: clearRouteCache,
		FromParams:      rule.GetFromParams(),
		FromCookies:     rule.GetFromCookies(),
	}
	for _, c := range rule.GetOutputClaimToHeaders() {
		provider.ClaimToHeaders = append(provider.ClaimToHeaders, &jwtv3.JwtClaimToHeader{HeaderName: c.GetHeader(), ClaimName: c.GetClaim()})
	}
	for _, h := range rule.GetFromHeaders() {
		provider.FromHeaders = append(provider.FromHeaders, &jwtv3.JwtHeader{Name: h.GetName(), ValuePrefix: h.GetPrefix()})
	}
	b.setKeys(provider, rule)
	return provider
}

// setKeys says where the keys come from: inline, which istiod fetches, or from
// the uri, which the proxy fetches (FLAG-22).
func (b *Builder) setKeys(provider *jwtv3.JwtProvider, rule *security.JWTRule) {
	uri, keys := rule.GetJwksUri(), rule.GetJwks()
	if cluster, remote := b.keyCluster(uri); remote {
		timeout := rule.GetTimeout()
		if timeout == nil {
			timeout = &durationpb.Duration{Seconds: 5}
		}
		provider.JwksSourceSpecifier = &jwtv3.JwtProvider_RemoteJwks{RemoteJwks: &jwtv3.RemoteJwks{
			HttpUri: &corev3.HttpUri{
				Uri:              uri,
				HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster},
				Timeout:          timeout,
			},
			CacheDuration: &durationpb.Duration{Seconds: 300},
		}}
		return
	}
	if uri != "" && b.remoteKeys() {
		keys = ""
	}
	if keys == "" {
		keys = b.fetchedKeys()
	}
	provider.JwksSourceSpecifier = &jwtv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{
		Specifier: &corev3.DataSource_InlineString{InlineString: keys},
	}}
}

// keyServer is the host and port of a jwksUri.
func keyServer(uri string) (host string, port int) {
	u, err := url.Parse(uri)
	if err != nil {
		return "", 0
	}
	port = 80
	if u.Scheme == "https" {
		port = 443
	}
	if n, err := strconv.Atoi(u.Port()); err == nil {
		port = n
	}
	return u.Hostname(), port
}
