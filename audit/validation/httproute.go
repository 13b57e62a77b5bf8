package validation

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) httpRoute(at *path, r *networking.HTTPRoute, delegate, outside bool) {
	c.httpAction(at, r, delegate)
	for i, m := range r.GetMatch() {
		c.httpMatch(at.key("match").item(i), m, outside)
	}
	c.headers(at.key("headers"), r.GetHeaders())
	c.cors(at.key("corsPolicy"), r.GetCorsPolicy())
	c.fault(at.key("fault"), r.GetFault())
	if n := r.GetMirrorPercent().GetValue(); n > 100 { // still read
		c.refuse(at.key("mirrorPercent"), "%d is more than 100", n)
	}
	c.share(at.key("mirrorPercentage").key("value"), r.GetMirrorPercentage())
	c.destination(at.key("mirror"), r.GetMirror())
	for i, m := range r.GetMirrors() {
		c.neededMirror(at.key("mirrors").item(i), m)
	}
	c.redirect(at.key("redirect"), r.GetRedirect(), r.GetMatch())
	c.directResponse(at.key("directResponse"), r.GetDirectResponse())
	c.retries(at.key("retries"), r.GetRetries())
	c.rewrite(at.key("rewrite"), r.GetRewrite())
	c.oneAuthority(at, r)
	c.httpDestinations(at.key("route"), r.GetRoute())
	c.optionalDuration(at.key("timeout"), r.GetTimeout())
}

// httpAction checks that a route does one thing.
func (c *checker) httpAction(at *path, r *networking.HTTPRoute, delegate bool) {
	switch {
	case r.GetDelegate() != nil && !delegate:
		if r.GetRedirect() != nil || r.Route != nil {
			c.refuse(at.key("delegate"), "not together with route or redirect")
		}
		return
	case r.GetDelegate() != nil:
		c.refuse(at.key("delegate"), "a delegate cannot have delegates")
	}
	switch {
	case r.GetRedirect() != nil:
		if len(r.GetRoute()) > 0 || r.GetFault() != nil || r.GetRewrite() != nil || r.GetDirectResponse() != nil {
			c.refuse(at.key("redirect"), "not together with route, fault, rewrite or directResponse")
		}
	case r.GetDirectResponse() != nil:
		if len(r.GetRoute()) > 0 || r.GetFault() != nil || r.GetRewrite() != nil {
			c.refuse(at.key("directResponse"), "not together with route, fault or rewrite")
		}
	case len(r.GetRoute()) == 0:
		c.refuse(at, "one of route, redirect, directResponse is needed")
	}
	if r.GetMirror() != nil && len(r.GetMirrors()) > 0 {
		c.refuse(at.key("mirror"), "not together with mirrors")
	}
}

func (c *checker) httpMatch(at *path, m *networking.HTTPMatchRequest, outside bool) {
	for _, name := range sorted(m.GetHeaders()) {
		c.matchedHeader(at.key("headers").key(name), name, outside)
		c.textMatch(at.key("headers").key(name), m.GetHeaders()[name])
	}
	for _, name := range sorted(m.GetWithoutHeaders()) {
		c.matchedHeader(at.key("withoutHeaders").key(name), name, outside)
		if m.GetWithoutHeaders()[name].GetRegex() != "*" {
			c.textMatch(at.key("withoutHeaders").key(name), m.GetWithoutHeaders()[name])
		}
	}
	c.regexMatch(at.key("uri"), m.GetUri())
	c.textMatch(at.key("scheme"), m.GetScheme())
	c.textMatch(at.key("method"), m.GetMethod())
	c.textMatch(at.key("authority"), m.GetAuthority())
	for _, name := range sorted(m.GetQueryParams()) {
		c.textMatch(at.key("queryParams").key(name), m.GetQueryParams()[name])
	}
	c.routePort(at.key("port"), m.GetPort())
	c.kubernetesLabels(at.key("sourceLabels"), m.GetSourceLabels())
	c.gatewayNames(at.key("gateways"), m.GetGateways(), false)
	if m.GetSourceNamespace() != "" {
		c.label(at.key("sourceNamespace"), m.GetSourceNamespace())
	}
}

// textMatch checks a match of text, of which a prefix or an expression cannot
// be empty.
func (c *checker) textMatch(at *path, m *networking.StringMatch) {
	if p, ok := m.GetMatchType().(*networking.StringMatch_Prefix); ok && p.Prefix == "" {
		c.refuse(at.key("prefix"), "empty")
	}
	c.regexMatch(at, m)
}

func (c *checker) regexMatch(at *path, m *networking.StringMatch) {
	r, ok := m.GetMatchType().(*networking.StringMatch_Regex)
	if !ok {
		return
	}
	if r.Regex == "" {
		c.refuse(at.key("regex"), "empty")
	}
	c.regex(at.key("regex"), r.Regex)
}

// Names of headers: those of HTTP, and those that are shorter.
var (
	headerName       = regexp.MustCompile("^[!#$%&'*+\\-.^_`|~A-Za-z0-9]+$")
	strictHeaderName = regexp.MustCompile(`^[-_A-Za-z0-9]+$`)
	pseudoHeaders    = []string{":method", ":scheme", ":authority", ":path", ":status"}
)

// matchedHeader checks the name of a header to match on, which may stand for a
// claim of a token at a gateway.
func (c *checker) matchedHeader(at *path, name string, outside bool) {
	switch {
	case claimHeader(name):
		if !outside {
			c.refuse(at, "only gateways route by claims of tokens")
		}
	case !headerName.MatchString(name) && !slices.Contains(pseudoHeaders, name):
		c.refuse(at, "%q is not the name of a header", name)
	}
}

// claimHeader: "@request.auth.claims.a" or "@request.auth.claims[a][b]".
func claimHeader(name string) bool {
	const prefix = "@request.auth.claims"
	if len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return false
	}
	rest := name[len(prefix):]
	return strings.HasPrefix(rest, ".") && len(rest) > 1 || strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]") && len(rest) > 2
}

// headers checks what is set on requests and responses.
func (c *checker) headers(at *path, h *networking.Headers) {
	for _, side := range []struct {
		at        *path
		operation *networking.Headers_HeaderOperations
		authority bool // may be set
	}{{at.key("request"), h.GetRequest(), true}, {at.key("response"), h.GetResponse(), false}} {
		c.setHeaders(side.at.key("add"), side.operation.GetAdd(), side.authority)
		c.setHeaders(side.at.key("set"), side.operation.GetSet(), side.authority)
		for i, name := range side.operation.GetRemove() {
			c.changedHeader(side.at.key("remove").item(i), name, false)
		}
	}
}

func (c *checker) setHeaders(at *path, values map[string]string, authority bool) {
	for _, name := range sorted(values) {
		c.changedHeader(at.key(name), name, authority)
		c.headerValue(at.key(name), values[name])
	}
}

func (c *checker) changedHeader(at *path, name string, authority bool) {
	switch {
	case name == "":
		c.refuse(at, "a header without a name")
	case authority && isAuthority(name):
	case strings.HasPrefix(name, ":"), strings.EqualFold(name, "host"):
		c.refuse(at, "%q cannot be changed here", name)
	}
}

func isAuthority(name string) bool {
	return strings.EqualFold(name, ":authority") || strings.EqualFold(name, "host")
}

// The value of a header: text with %% for a percent sign, and with variables,
// %NAME% or %NAME(arguments)%, without control characters.
var (
	headerText  = regexp.MustCompile(`^[^\x00-\x08\x0A-\x1F\x7F]*$`)
	headerValue = regexp.MustCompile(`(?s)^(?:[^%]|%%|%[^%(]*(?:\( *(?:\[ *"|[^ \[])` + argument + `(?:" *, *"` + argument + `)*(?:\)|" *\] *\)) *)?%)*$`)
)

const argument = `(?:\\.|[^\\)"])*`

func (c *checker) headerValue(at *path, value string) {
	if !headerText.MatchString(value) || !headerValue.MatchString(value) {
		c.refuse(at, "%q is not the value of a header: a %% that begins no variable is written %%%%", value)
	}
}

// oneAuthority checks that a request's authority is changed once.
func (c *checker) oneAuthority(at *path, r *networking.HTTPRoute) {
	current := r.GetRewrite().GetAuthority()
	for _, values := range []map[string]string{r.GetHeaders().GetRequest().GetSet(), r.GetHeaders().GetRequest().GetAdd()} {
		for _, name := range sorted(values) {
			if !isAuthority(name) {
				continue
			}
			if current != "" {
				c.refuse(at.key("headers").key("request"), "the authority is set to %q already", current)
				return
			}
			current = values[name]
		}
	}
}

func (c *checker) httpDestinations(at *path, routes []*networking.HTTPRouteDestination) {
	total := int32(0)
	for i, r := range routes {
		c.neededDestination(at.item(i).key("destination"), r.GetDestination())
		c.headers(at.item(i).key("headers"), r.GetHeaders())
		c.notNegative(at.item(i).key("weight"), r.GetWeight())
		total += r.GetWeight()
	}
	c.totalWeight(at, len(routes), total)
}

func (c *checker) neededMirror(at *path, m *networking.HTTPMirrorPolicy) {
	if m.GetDestination() == nil {
		c.refuse(at.key("destination"), "missing")
	}
	c.destination(at.key("destination"), m.GetDestination())
	c.share(at.key("percentage").key("value"), m.GetPercentage())
}

// share checks a percentage from 0 to 100.
func (c *checker) share(at *path, p *networking.Percent) {
	if v := p.GetValue(); v < 0 || v > 100 {
		c.refuse(at, "%g is not between 0 and 100", v)
	}
}

// fineShare checks a percentage that is 0, or 0.0001 and more.
func (c *checker) fineShare(at *path, p *networking.Percent) {
	c.share(at, p)
	if v := p.GetValue(); v > 0 && v < 0.0001 {
		c.refuse(at, "%g is less than 0.0001", v)
	}
}

func (c *checker) cors(at *path, p *networking.CorsPolicy) {
	for i, origin := range p.GetAllowOrigins() {
		if origin.GetExact()+origin.GetPrefix()+origin.GetRegex() == "" {
			c.refuse(at.key("allowOrigins").item(i), "empty")
		}
		c.regexMatch(at.key("allowOrigins").item(i), origin)
	}
	for i, method := range p.GetAllowMethods() {
		switch method {
		case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
			http.MethodConnect, http.MethodOptions, http.MethodTrace, "*":
		default:
			c.refuse(at.key("allowMethods").item(i), "%q is not a method of HTTP", method)
		}
	}
	c.corsHeaders(at.key("allowHeaders"), p.GetAllowHeaders())
	c.corsHeaders(at.key("exposeHeaders"), p.GetExposeHeaders())
	if age := p.GetMaxAge(); age != nil && c.duration(at.key("maxAge"), age) && age.GetNanos() > 0 {
		c.refuse(at.key("maxAge"), "%s is not a whole number of seconds", age.AsDuration())
	}
}

func (c *checker) corsHeaders(at *path, names []string) {
	for i, name := range names {
		if !headerName.MatchString(name) { // "*" is one
			c.refuse(at.item(i), "%q is not the name of a header", name)
		}
	}
}

func (c *checker) fault(at *path, f *networking.HTTPFaultInjection) {
	if f == nil {
		return
	}
	if f.GetAbort() == nil && f.GetDelay() == nil {
		c.refuse(at, "one of abort, delay is needed")
	}
	c.fineShare(at.key("abort").key("percentage").key("value"), f.GetAbort().GetPercentage())
	switch e := f.GetAbort().GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		c.status(at.key("abort").key("httpStatus"), int64(e.HttpStatus))
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		if !slices.Contains(grpcStatuses, e.GrpcStatus) {
			c.refuse(at.key("abort").key("grpcStatus"), "%q is not a status of gRPC", e.GrpcStatus)
		}
	case *networking.HTTPFaultInjection_Abort_Http2Error:
		c.refuse(at.key("abort").key("http2Error"), "Istio cannot do this")
	}
	delay := at.key("delay")
	c.fineShare(delay.key("percentage").key("value"), f.GetDelay().GetPercentage())
	switch d := f.GetDelay().GetHttpDelayType().(type) {
	case *networking.HTTPFaultInjection_Delay_FixedDelay:
		c.duration(delay.key("fixedDelay"), d.FixedDelay)
	case *networking.HTTPFaultInjection_Delay_ExponentialDelay:
		c.refuse(delay.key("exponentialDelay"), "Istio cannot do this")
	}
}

// grpcStatuses are the names of https://grpc.io/docs/guides/status-codes/.
var grpcStatuses = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

func (c *checker) status(at *path, code int64) {
	if code < 200 || code > 600 {
		c.refuse(at, "%d is not a status of HTTP from 200 to 599", code)
	}
}

func (c *checker) redirect(at *path, r *networking.HTTPRedirect, matches []*networking.HTTPMatchRequest) {
	switch {
	case r == nil:
		return
	case r.GetUri() != "" && r.GetPrefixRewrite() != "":
		c.refuse(at.key("prefixRewrite"), "not together with uri")
	case r.GetUri()+r.GetPrefixRewrite()+r.GetAuthority()+r.GetScheme() == "" && r.GetRedirectPort() == nil:
		c.refuse(at, "one of uri, authority, scheme, port is needed")
	}
	for _, m := range matches {
		if _, prefix := m.GetUri().GetMatchType().(*networking.StringMatch_Prefix); r.GetPrefixRewrite() != "" && m.GetUri() != nil && !prefix {
			c.refuse(at.key("prefixRewrite"), "every match of a URI must be of a prefix")
			break
		}
	}
	if code := r.GetRedirectCode(); code != 0 && (code < 300 || code > 399) {
		c.refuse(at.key("redirectCode"), "%d is not between 300 and 399", code)
	}
	if s := r.GetScheme(); s != "" && s != "http" && s != "https" {
		c.refuse(at.key("scheme"), "%q is neither http nor https", s)
	}
	if r.GetPort() > 0 {
		c.port(at.key("port"), int64(r.GetPort()))
	}
}

func (c *checker) directResponse(at *path, r *networking.HTTPDirectResponse) {
	if r == nil {
		return
	}
	if len(r.GetBody().GetString_())+len(r.GetBody().GetBytes()) > 1<<20 {
		c.refuse(at.key("body"), "is longer than 1 MB")
	}
	c.status(at.key("status"), int64(r.GetStatus()))
}

// retryOn are Envoy's words for when to try again.
var retryOn = []string{
	"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "retriable-4xx", "refused-stream",
	"retriable-status-codes", "retriable-headers", "envoy-ratelimited", "http3-post-connect-failure",
	"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
}

func (c *checker) retries(at *path, r *networking.HTTPRetry) {
	if r == nil {
		return
	}
	c.notNegative(at.key("attempts"), r.GetAttempts())
	if r.GetAttempts() == 0 && (r.GetPerTryTimeout() != nil || r.GetRetryOn() != "" || r.GetRetryRemoteLocalities() != nil) {
		c.refuse(at, "attempts is 0, so that nothing else can be set")
	}
	c.optionalDuration(at.key("perTryTimeout"), r.GetPerTryTimeout())
	c.optionalDuration(at.key("backoff"), r.GetBackoff())
	if r.GetRetryOn() == "" {
		return
	}
	for word := range strings.SplitSeq(r.GetRetryOn(), ",") {
		code, _ := strconv.Atoi(word)
		if http.StatusText(code) == "" && !slices.Contains(retryOn, word) {
			c.refuse(at.key("retryOn"), "%q is not a reason to try again", word)
		}
	}
}

func (c *checker) rewrite(at *path, r *networking.HTTPRewrite) {
	switch x := r.GetUriRegexRewrite(); {
	case r == nil:
	case x != nil && r.GetUri() != "":
		c.refuse(at.key("uriRegexRewrite"), "not together with uri")
	case x != nil && (x.GetMatch() == "" || x.GetRewrite() == ""):
		c.refuse(at.key("uriRegexRewrite"), "both match and rewrite are needed")
	case x != nil:
		c.regex(at.key("uriRegexRewrite").key("match"), x.GetMatch())
	case r.GetUri()+r.GetAuthority() == "":
		c.refuse(at, "one of uri, uriRegexRewrite, authority is needed")
	}
}
