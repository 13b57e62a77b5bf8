package validation

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"
)

// targeted is a policy that is for workloads, or for what it names.
type targeted interface {
	GetSelector() *typev1beta1.WorkloadSelector
	GetTargetRef() *typev1beta1.PolicyTargetReference
	GetTargetRefs() []*typev1beta1.PolicyTargetReference
}

// target checks what a policy is for.
func (c *checker) target(at *path, p targeted) {
	set := 0
	for _, has := range []bool{p.GetSelector() != nil, p.GetTargetRef() != nil, len(p.GetTargetRefs()) > 0} {
		if has {
			set++
		}
	}
	if set > 1 {
		c.refuse(at, "only one of selector and targetRefs can be set")
	}
	c.matchLabels(at.key("selector").key("matchLabels"), p.GetSelector().GetMatchLabels())
	if p.GetTargetRef() != nil {
		c.targetRef(at.key("targetRef"), p.GetTargetRef())
	}
	for i, r := range p.GetTargetRefs() {
		c.targetRef(at.key("targetRefs").item(i), r)
	}
}

func (c *checker) targetRef(at *path, r *typev1beta1.PolicyTargetReference) {
	if r.GetName() == "" {
		c.refuse(at.key("name"), "missing")
	}
	if r.GetNamespace() != "" {
		c.refuse(at.key("namespace"), "a policy is for its own namespace")
	}
	switch r.GetGroup() + "/" + r.GetKind() {
	case "/Service", "core/Service", "networking.istio.io/ServiceEntry", "gateway.networking.k8s.io/Gateway", "gateway.networking.k8s.io/GatewayClass":
	default:
		c.refuse(at.key("kind"), "%q is not a kind that a policy can be for", r.GetKind())
	}
}

func (c *checker) authorizationPolicy(at *path, s *security.AuthorizationPolicy) {
	c.target(at, s)
	c.dryRun(s.GetAction())
	custom := s.GetAction() == security.AuthorizationPolicy_CUSTOM
	switch {
	case s.Rules == nil && (custom || s.GetAction() == security.AuthorizationPolicy_DENY):
		c.refuse(at.key("rules"), "missing, so that action %s never comes about", s.GetAction())
	case custom && s.GetProvider().GetName() == "":
		c.refuse(at.key("provider").key("name"), "missing, which action CUSTOM needs")
	case !custom && s.GetProvider() != nil:
		c.refuse(at.key("provider"), "only with action CUSTOM")
	}
	for i, rule := range s.GetRules() {
		at := at.key("rules").item(i)
		for j, from := range rule.GetFrom() {
			c.source(at.key("from").item(j).key("source"), from.GetSource(), custom)
		}
		for j, to := range rule.GetTo() {
			c.operation(at.key("to").item(j).key("operation"), to.GetOperation())
		}
		for j, when := range rule.GetWhen() {
			c.condition(at.key("when").item(j), when, custom)
		}
	}
}

// dryRun checks the annotation that lets a policy only be logged.
func (c *checker) dryRun(action security.AuthorizationPolicy_Action) {
	value, found := c.annotations[dryRun]
	if !found {
		return
	}
	at := field("metadata").key("annotations").key(dryRun)
	if action != security.AuthorizationPolicy_ALLOW && action != security.AuthorizationPolicy_DENY {
		c.refuse(at, "not with action %s", action)
	} else if _, err := strconv.ParseBool(value); err != nil {
		c.refuse(at, "%q is neither true nor false", value)
	}
}

// namedList is a field with a list of texts.
type namedList struct {
	name   string
	values []string
}

func (c *checker) source(at *path, s *security.Source, custom bool) {
	if s == nil {
		c.refuse(at, "missing")
		return
	}
	identities := []namedList{
		{"principals", s.GetPrincipals()},
		{"notPrincipals", s.GetNotPrincipals()},
		{"requestPrincipals", s.GetRequestPrincipals()},
		{"notRequestPrincipals", s.GetNotRequestPrincipals()},
		{"namespaces", s.GetNamespaces()},
		{"notNamespaces", s.GetNotNamespaces()},
		{"serviceAccounts", s.GetServiceAccounts()},
		{"notServiceAccounts", s.GetNotServiceAccounts()},
		{"trustDomains", s.GetTrustDomains()},
		{"notTrustDomains", s.GetNotTrustDomains()},
	}
	addresses := []namedList{
		{"ipBlocks", s.GetIpBlocks()},
		{"notIpBlocks", s.GetNotIpBlocks()},
		{"remoteIpBlocks", s.GetRemoteIpBlocks()},
		{"notRemoteIpBlocks", s.GetNotRemoteIpBlocks()},
	}
	if !filled(identities) && !filled(addresses) {
		c.refuse(at, "empty")
	}
	for _, f := range identities {
		c.notEmpty(at.key(f.name), f.values)
		if custom && len(f.values) > 0 {
			c.refuse(at.key(f.name), "not with action CUSTOM")
		}
	}
	for _, f := range addresses {
		for i, text := range f.values {
			c.addressOrRange(at.key(f.name).item(i), text)
		}
	}
	accounts := len(s.GetServiceAccounts())+len(s.GetNotServiceAccounts()) > 0
	if accounts && len(s.GetPrincipals())+len(s.GetNotPrincipals())+len(s.GetNamespaces())+len(s.GetNotNamespaces()) > 0 {
		c.refuse(at.key("serviceAccounts"), "not together with principals or namespaces")
	}
	c.serviceAccounts(at.key("serviceAccounts"), s.GetServiceAccounts())
	c.serviceAccounts(at.key("notServiceAccounts"), s.GetNotServiceAccounts())
	c.trustDomains(at.key("trustDomains"), s.GetTrustDomains())
	c.trustDomains(at.key("notTrustDomains"), s.GetNotTrustDomains())
}

func filled(lists []namedList) bool {
	return slices.ContainsFunc(lists, func(l namedList) bool { return len(l.values) > 0 })
}

// serviceAccounts checks "account" and "namespace/account".
func (c *checker) serviceAccounts(at *path, list []string) {
	if len(list) > 16 {
		c.refuse(at, "more than 16")
	}
	for i, text := range list {
		namespace, name, found := strings.Cut(text, "/")
		if text == "" || found && (namespace == "" || name == "") || strings.ContainsAny(name, "/") || strings.Contains(text, "*") || len(text) > 320 {
			c.refuse(at.item(i), "%q is not of the form name or namespace/name", text)
		}
	}
}

func (c *checker) trustDomains(at *path, list []string) {
	for i, text := range list {
		if strings.Contains(text, "/") {
			c.refuse(at.item(i), "%q: a trust domain has no /", text)
		}
		c.oneWildcard(at.item(i), text)
	}
}

// oneWildcard checks that * is there at most once, at an end.
func (c *checker) oneWildcard(at *path, text string) {
	if strings.Contains(strings.TrimSuffix(strings.TrimPrefix(text, "*"), "*"), "*") || strings.Count(text, "*") > 1 {
		c.refuse(at, "%q: * belongs at one of its ends", text)
	}
}

func (c *checker) operation(at *path, o *security.Operation) {
	if o == nil {
		c.refuse(at, "missing")
		return
	}
	fields := []namedList{
		{"hosts", o.GetHosts()},
		{"notHosts", o.GetNotHosts()},
		{"ports", o.GetPorts()},
		{"notPorts", o.GetNotPorts()},
		{"methods", o.GetMethods()},
		{"notMethods", o.GetNotMethods()},
		{"paths", o.GetPaths()},
		{"notPaths", o.GetNotPaths()},
	}
	if !filled(fields) {
		c.refuse(at, "empty")
	}
	for _, f := range fields {
		if !c.notEmpty(at.key(f.name), f.values) {
			continue
		}
		switch f.name {
		case "ports", "notPorts":
			c.portTexts(at.key(f.name), f.values)
		case "paths", "notPaths":
			for i, template := range f.values {
				c.pathTemplate(at.key(f.name).item(i), template)
			}
		}
	}
}

func (c *checker) portTexts(at *path, ports []string) {
	for i, text := range ports {
		if _, err := strconv.ParseUint(text, 10, 16); err != nil {
			c.refuse(at.item(i), "%q is not a port", text)
		}
	}
}

// literalSegment is a segment of a path that stands for itself (RFC 3986, pchar).
var literalSegment = regexp.MustCompile(`^[a-zA-Z0-9-._~%!$&'()+,;:@=]+$`)

// pathTemplate checks a path, whose segments may be {*} and, at its end, {**}.
func (c *checker) pathTemplate(at *path, text string) {
	template := strings.Contains(text, "{*}") || strings.Contains(text, "{**}")
	ended := false
	for segment := range strings.SplitSeq(strings.Trim(text, "/"), "/") {
		switch operator := segment == "{*}" || segment == "{**}"; {
		case operator && ended:
			c.refuse(at, "%q: {**} belongs at the end", text)
			return
		case operator:
			ended = segment == "{**}"
		case strings.ContainsAny(segment, "{}"):
			c.refuse(at, "%q: of braces, only {*} and {**} can be a segment", text)
			return
		case template && !literalSegment.MatchString(segment):
			c.refuse(at, "%q: %q is not a segment of a template", text, segment)
			return
		}
	}
}

// plainAttributes are those of a condition whose values can be any text.
var plainAttributes = []string{
	"source.namespace", "source.principal", "request.auth.principal", "request.auth.audiences", "request.auth.presenter", "connection.sni",
}

func (c *checker) condition(at *path, w *security.Condition, custom bool) {
	key := w.GetKey()
	if key == "" {
		c.refuse(at.key("key"), "missing")
		return
	}
	if len(w.GetValues())+len(w.GetNotValues()) == 0 {
		c.refuse(at, "one of values, notValues is needed")
	}
	identity := slices.Contains([]string{"source.namespace", "source.serviceAccount", "source.trustDomain", "source.principal"}, key)
	if custom && (identity || strings.HasPrefix(key, "request.auth.")) {
		c.refuse(at.key("key"), "%q: not with action CUSTOM", key)
	}
	bracketed := strings.HasPrefix(key, "request.headers") || strings.HasPrefix(key, "request.auth.claims") || strings.HasPrefix(key, "experimental.envoy.filters.")
	open := strings.IndexByte(key, '[')
	switch {
	case bracketed && (!strings.HasSuffix(key, "]") || open < 1 || open >= len(key)-2):
		c.refuse(at.key("key"), "%q is not of the form attribute[name]", key)
	case !bracketed && !slices.Contains(plainAttributes, key) && !slices.Contains(checkedAttributes, key):
		c.refuse(at.key("key"), "%q is not an attribute that Istio knows", key)
	}
	c.conditionValues(at.key("values"), key, w.GetValues())
	c.conditionValues(at.key("notValues"), key, w.GetNotValues())
}

// checkedAttributes are those whose values have a form.
var checkedAttributes = []string{"source.ip", "remote.ip", "destination.ip", "destination.port", "source.serviceAccount", "source.trustDomain"}

func (c *checker) conditionValues(at *path, key string, values []string) {
	if !c.notEmpty(at, values) {
		return
	}
	switch key {
	case "source.ip", "remote.ip", "destination.ip":
		c.addressesOrRanges(at, values)
	case "destination.port":
		c.portTexts(at, values)
	case "source.serviceAccount":
		c.serviceAccounts(at, values)
	case "source.trustDomain":
		for i, text := range values {
			c.oneWildcard(at.item(i), text)
		}
	}
}
