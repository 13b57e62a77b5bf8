package xds

import (
	"maps"
	"slices"
	"strconv"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Where RBAC filters leave their verdicts (Istio
// pilot/pkg/security/authz/model/model.go).
const (
	shadowResult      = "shadow_engine_result"
	shadowPolicyID    = "shadow_effective_policy_id"
	shadowAllowPrefix = "istio_dry_run_allow_"
	shadowDenyPrefix  = "istio_dry_run_deny_"
	extAuthzPrefix    = "istio_ext_authz_"
	tcpRBACStatPrefix = "tcp."
	customRulePrefix  = "istio-ext-authz"
)

type authorizationPolicy = snapshot.Config[*security.AuthorizationPolicy]

// authorizationPolicies are those that apply to a proxy, by action, each in
// istiod's order: the root namespace's first (Istio pilot/pkg/model/authorization.go).
// also names one more namespace that istiod looks into, that of a service with
// a chain of its own; empty: none.
func (b *Builder) authorizationPolicies(p *mesh.Proxy, also string) map[security.AuthorizationPolicy_Action][]*authorizationPolicy {
	out := map[security.AuthorizationPolicy_Action][]*authorizationPolicy{}
	if b.view.Policies == nil {
		return out
	}
	for _, namespace := range lookedInto(b.view.RootNamespace, p.Namespace, also) {
		for _, policy := range b.view.Policies.AuthorizationPolicies {
			if policy.Namespace == namespace && policyAttaches(p, namespace, policy.Spec) {
				action := policy.Spec.GetAction()
				out[action] = append(out[action], policy)
			}
		}
	}
	return out
}

// lookedInto are the namespaces, each once, in order, without empty ones.
func lookedInto(namespaces ...string) []string {
	var out []string
	for _, n := range namespaces {
		if n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// policyFilters are the filters of AuthorizationPolicies.
type policyFilters struct {
	customHTTP, rbacHTTP []*hcmv3.HttpFilter
	customTCP, rbacTCP   []*listenerv3.Filter
}

// policyFilters makes the filters for a proxy; also is as in authorizationPolicies.
func (b *Builder) policyFilters(p *mesh.Proxy, also string) policyFilters {
	var look policyFilters
	policies := b.authorizationPolicies(p, also)
	r := &rbacBuilder{trustDomains: append([]string{b.view.Config.GetTrustDomain()}, b.view.Config.GetTrustDomainAliases()...)}
	for _, kind := range []struct {
		action security.AuthorizationPolicy_Action
		envoy  rbacv3.RBAC_Action
	}{
		{security.AuthorizationPolicy_AUDIT, rbacv3.RBAC_LOG},
		{security.AuthorizationPolicy_DENY, rbacv3.RBAC_DENY},
		{security.AuthorizationPolicy_ALLOW, rbacv3.RBAC_ALLOW},
	} {
		of := policies[kind.action]
		if len(of) == 0 {
			continue
		}
		look.rbacHTTP = append(look.rbacHTTP, httpRBAC(r.rules(of, kind.envoy, false)))
		look.rbacTCP = append(look.rbacTCP, tcpRBAC(r.rules(of, kind.envoy, true)))
	}
	if custom := policies[security.AuthorizationPolicy_CUSTOM]; len(custom) > 0 {
		look.customHTTP, look.customTCP = b.customFilters(r, custom)
	}
	return look
}

// ruleSet are the enforced and the dry-run rules of an action; nil: no policy
// is of that kind.
type ruleSet struct{ enforced, shadow *rbacv3.RBAC }

func shadowPrefix(shadow *rbacv3.RBAC) string {
	switch {
	case shadow == nil:
		return shadowAllowPrefix // the action of no rules reads as ALLOW
	case shadow.Action == rbacv3.RBAC_ALLOW:
		return shadowAllowPrefix
	case shadow.Action == rbacv3.RBAC_DENY:
		return shadowDenyPrefix
	}
	return ""
}

func httpRBAC(rules ruleSet) *hcmv3.HttpFilter {
	return httpFilter(httpRBACName, toAny(&httprbacv3.RBAC{
		Rules: rules.enforced, ShadowRules: rules.shadow, ShadowRulesStatPrefix: shadowPrefix(rules.shadow),
	}))
}

func tcpRBAC(rules ruleSet) *listenerv3.Filter {
	return networkFilter(tcpRBACName, toAny(&tcprbacv3.RBAC{
		Rules: rules.enforced, StatPrefix: tcpRBACStatPrefix,
		ShadowRules: rules.shadow, ShadowRulesStatPrefix: shadowPrefix(rules.shadow),
	}))
}

// rules are the Envoy rules of policies with one action (Istio
// pilot/pkg/security/authz/builder/builder.go build).
func (r *rbacBuilder) rules(policies []*authorizationPolicy, action rbacv3.RBAC_Action, forTCP bool) ruleSet {
	var out ruleSet
	for _, policy := range policies {
		target := &out.enforced
		if isDryRun(policy) {
			target = &out.shadow
		}
		if *target == nil {
			*target = &rbacv3.RBAC{Action: action, Policies: map[string]*rbacv3.Policy{}}
		}
		r.addPolicy(*target, policy, "", forTCP)
	}
	return out
}

func isDryRun(policy *authorizationPolicy) bool {
	dry, _ := strconv.ParseBool(policy.Annotations["istio.io/dry-run"])
	return dry
}

// addPolicy adds a policy's rules; prefix goes before their names.
func (r *rbacBuilder) addPolicy(into *rbacv3.RBAC, policy *authorizationPolicy, prefix string, forTCP bool) {
	name := func(rule int) string {
		return prefix + "ns[" + policy.Namespace + "]-policy[" + policy.Name + "]-rule[" + strconv.Itoa(rule) + "]"
	}
	for i, rule := range policy.Spec.GetRules() {
		if generated := r.policy(policy.Namespace, rule, into.Action, forTCP); generated != nil {
			into.Policies[name(i)] = generated
		}
	}
	if len(policy.Spec.GetRules()) == 0 {
		into.Policies[name(0)] = matchNever
	}
}

// matchNever is what a policy without rules becomes.
var matchNever = &rbacv3.Policy{
	Permissions: []*rbacv3.Permission{permissionNot(permissionAny)},
	Principals:  []*rbacv3.Principal{principalNot(principalAny)},
}

// customFilters are the pairs of RBAC and ext_authz filters of CUSTOM
// policies, one for each provider by name.
func (b *Builder) customFilters(r *rbacBuilder, policies []*authorizationPolicy) (http []*hcmv3.HttpFilter, tcp []*listenerv3.Filter) {
	byProvider := map[string][]*authorizationPolicy{}
	for _, policy := range policies {
		provider := policy.Spec.GetProvider().GetName()
		byProvider[provider] = append(byProvider[provider], policy)
	}
	names := slices.Sorted(maps.Keys(byProvider))
	turnedAway := len(names) > 1 && !b.view.Flags.MultipleCustomAuthzProviders
	for _, name := range names {
		prefix := customRulePrefix
		if b.view.Behaviours.CustomAuthzByProvider && name != "" {
			prefix += "-" + name
		}
		authz := b.extAuthz(name)
		httpRules, tcpRules := r.customRules(byProvider[name], prefix+"-", false), r.customRules(byProvider[name], prefix+"-", true)
		if turnedAway || authz == nil {
			http = append(http, httpFilter(httpRBACName, toAny(&httprbacv3.RBAC{Rules: denyAll(httpRules.enforced)})))
			tcp = append(tcp, networkFilter(tcpRBACName, toAny(&tcprbacv3.RBAC{Rules: denyAll(tcpRules.enforced), StatPrefix: tcpRBACStatPrefix})))
			continue
		}
		if b.view.Behaviours.CustomAuthzByProvider {
			prefix = customRulePrefix + "-" + name
		}
		http = append(http,
			httpFilter(httpRBACName, toAny(&httprbacv3.RBAC{
				Rules: nonEmptyRules(httpRules.shadow), ShadowRules: httpRules.enforced, ShadowRulesStatPrefix: extAuthzPrefix,
			})),
			httpFilter(httpExtAuthzName, toAny(authz.http(prefix))))
		if authz.tcp == nil {
			continue
		}
		tcp = append(tcp,
			networkFilter(tcpRBACName, toAny(&tcprbacv3.RBAC{
				Rules: nonEmptyRules(tcpRules.shadow), ShadowRules: tcpRules.enforced,
				StatPrefix: tcpRBACStatPrefix, ShadowRulesStatPrefix: extAuthzPrefix,
			})),
			networkFilter(tcpExtAuthzName, toAny(authz.tcp(prefix))))
	}
	return http, tcp
}

// customRules are the rules of one provider's policies; both sets are there.
func (r *rbacBuilder) customRules(policies []*authorizationPolicy, prefix string, forTCP bool) ruleSet {
	out := ruleSet{
		enforced: &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{}},
		shadow:   &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{}},
	}
	for _, policy := range policies {
		target := out.enforced
		if isDryRun(policy) {
			target = out.shadow
		}
		r.addPolicy(target, policy, prefix, forTCP)
	}
	return out
}

func nonEmptyRules(rules *rbacv3.RBAC) *rbacv3.RBAC {
	if len(rules.GetPolicies()) == 0 {
		return nil
	}
	return rules
}

// denyAll turns rules whose provider cannot be used into plain denials.
func denyAll(rules *rbacv3.RBAC) *rbacv3.RBAC {
	out := proto.CloneOf(rules)
	out.Policies = map[string]*rbacv3.Policy{}
	for name, policy := range rules.GetPolicies() {
		out.Policies[name+"-deny-due-to-bad-CUSTOM-action"] = policy
	}
	return out
}
