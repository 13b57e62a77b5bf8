package validation

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
)

func (c *checker) peerAuthentication(at *path, s *security.PeerAuthentication) {
	ports := at.key("portLevelMtls")
	if len(s.GetSelector().GetMatchLabels()) == 0 && len(s.GetPortLevelMtls()) > 0 {
		c.refuse(ports, "only with a selector")
	}
	for _, port := range sorted(s.GetPortLevelMtls()) {
		c.port(ports, int64(port))
	}
	c.matchLabels(at.key("selector").key("matchLabels"), s.GetSelector().GetMatchLabels())
}

func (c *checker) requestAuthentication(at *path, s *security.RequestAuthentication) {
	c.target(at, s)
	for i, rule := range s.GetJwtRules() {
		c.jwtRule(at.key("jwtRules").item(i), rule)
	}
}

func (c *checker) jwtRule(at *path, r *security.JWTRule) {
	c.notEmpty(at.key("audiences"), r.GetAudiences())
	if r.GetIssuer()+r.GetJwksUri() == "" {
		c.refuse(at, "one of issuer, jwksUri is needed")
	}
	if uri := r.GetJwksUri(); uri != "" {
		if u, err := url.Parse(uri); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			c.refuse(at.key("jwksUri"), "%q is not an address of http or https", uri)
		}
	}
	if keys := r.GetJwks(); keys != "" && !json.Valid([]byte(keys)) {
		c.refuse(at.key("jwks"), "is not JSON")
	}
	for i, header := range r.GetFromHeaders() {
		if header.GetName() == "" {
			c.refuse(at.key("fromHeaders").item(i).key("name"), "missing")
		}
	}
	c.notEmpty(at.key("fromParams"), r.GetFromParams())
	c.notEmpty(at.key("fromCookies"), r.GetFromCookies())
	for i, claim := range r.GetOutputClaimToHeaders() {
		at := at.key("outputClaimToHeaders").item(i)
		switch {
		case claim.GetClaim() == "" || claim.GetHeader() == "":
			c.refuse(at, "both header and claim are needed")
		case !strictHeaderName.MatchString(claim.GetHeader()):
			c.refuse(at.key("header"), "%q is not the name of a header", claim.GetHeader())
		}
	}
	c.optionalDuration(at.key("timeout"), r.GetTimeout())
}

func (c *checker) telemetry(at *path, s *telemetry.Telemetry) {
	c.target(at, s)
	for i, m := range s.GetMetrics() {
		at := at.key("metrics").item(i)
		c.providers(at, m.GetProviders())
		for j, o := range m.GetOverrides() {
			c.metricOverride(at.key("overrides").item(j), o)
		}
	}
	for i, t := range s.GetTracing() {
		at := at.key("tracing").item(i)
		c.providers(at, t.GetProviders())
		if v := t.GetRandomSamplingPercentage().GetValue(); v < 0 || v > 100 {
			c.refuse(at.key("randomSamplingPercentage"), "%g is not between 0 and 100", v)
		}
		for _, name := range sorted(t.GetCustomTags()) {
			c.customTag(at.key("customTags").key(name), name, t.GetCustomTags()[name])
		}
	}
	for i, l := range s.GetAccessLogging() {
		c.providers(at.key("accessLogging").item(i), l.GetProviders())
	}
}

func (c *checker) providers(at *path, list []*telemetry.ProviderRef) {
	for i, p := range list {
		if p.GetName() == "" {
			c.refuse(at.key("providers").item(i).key("name"), "missing")
		}
	}
}

func (c *checker) metricOverride(at *path, o *telemetry.MetricsOverrides) {
	for _, name := range sorted(o.GetTagOverrides()) {
		tag := o.GetTagOverrides()[name]
		if upsert := tag.GetOperation() == telemetry.MetricsOverrides_TagOverride_UPSERT; upsert != (tag.GetValue() != "") {
			c.refuse(at.key("tagOverrides").key(name), "operation UPSERT has a value, and only it has one")
		}
	}
	if m, ok := o.GetMatch().GetMetricMatch().(*telemetry.MetricSelector_CustomMetric); ok && m.CustomMetric == "" {
		c.refuse(at.key("match").key("customMetric"), "empty")
	}
}

func (c *checker) customTag(at *path, name string, tag *telemetry.Tracing_CustomTag) {
	if name == "" {
		c.refuse(at, "a tag without a name")
	}
	switch t := tag.GetType().(type) {
	case *telemetry.Tracing_CustomTag_Literal:
		if t.Literal.GetValue() == "" {
			c.refuse(at.key("literal").key("value"), "missing")
		}
	case *telemetry.Tracing_CustomTag_Header:
		if t.Header.GetName() == "" {
			c.refuse(at.key("header").key("name"), "missing")
		}
	case *telemetry.Tracing_CustomTag_Environment:
		if t.Environment.GetName() == "" {
			c.refuse(at.key("environment").key("name"), "missing")
		}
	}
}

var sha256 = regexp.MustCompile(`^([a-f0-9]{64})?$`)

func (c *checker) wasmPlugin(at *path, s *extensions.WasmPlugin) {
	c.target(at, s)
	c.wasmURL(at.key("url"), s.GetUrl())
	if !sha256.MatchString(s.GetSha256()) {
		c.refuse(at.key("sha256"), "%q is not 64 hexadecimal digits", s.GetSha256())
	}
	if len(s.GetImagePullSecret()) > 253 {
		c.refuse(at.key("imagePullSecret"), "is longer than 253 characters")
	}
	if len(s.GetPluginName()) > 256 {
		c.refuse(at.key("pluginName"), "is longer than 256 characters")
	}
	c.wasmEnvironment(at.key("vmConfig").key("env"), s.GetVmConfig().GetEnv())
	for i, m := range s.GetMatch() {
		for j, port := range m.GetPorts() {
			c.port(at.key("match").item(i).key("ports").item(j).key("number"), int64(port.GetNumber()))
		}
	}
}

func (c *checker) wasmURL(at *path, text string) {
	u, err := url.ParseRequestURI(text)
	if err != nil {
		u, err = url.ParseRequestURI("http://" + text)
	}
	switch {
	case text == "":
		c.refuse(at, "missing")
	case err != nil:
		c.refuse(at, "%q is not an address", text)
	case u.Scheme != "" && u.Scheme != "file" && u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "oci":
		c.refuse(at, "%q: %s is none of file, http, https, oci", text, u.Scheme)
	}
}

func (c *checker) wasmEnvironment(at *path, env []*extensions.EnvVar) {
	names := map[string]bool{}
	for i, e := range env {
		at := at.item(i)
		switch {
		case e.GetName() == "" || len(e.GetName()) > 256:
			c.refuse(at.key("name"), "empty, or longer than 256 characters")
		case names[e.GetName()]:
			c.refuse(at.key("name"), "%q is there twice", e.GetName())
		case e.GetValueFrom() != extensions.EnvValueSource_INLINE && e.GetValue() != "":
			c.refuse(at.key("value"), "only with valueFrom INLINE")
		}
		names[e.GetName()] = true
	}
}

// The filters whose filters a patch can be for.
var connectionManagers = []string{"envoy.filters.network.http_connection_manager", "envoy.http_connection_manager"}

func (c *checker) envoyFilter(at *path, s *networking.EnvoyFilter) {
	c.matchLabels(at.key("workloadSelector").key("labels"), s.GetWorkloadSelector().GetLabels())
	for i, p := range s.GetConfigPatches() {
		if p.GetMatch().GetContext() != networking.EnvoyFilter_WAYPOINT {
			c.envoyPatch(at.key("configPatches").item(i), p)
		}
	}
}

func (c *checker) envoyPatch(at *path, p *networking.EnvoyFilter_EnvoyConfigObjectPatch) {
	operation := p.GetPatch().GetOperation()
	switch {
	case p.GetApplyTo() == networking.EnvoyFilter_INVALID:
		c.refuse(at.key("applyTo"), "missing")
	case p.GetPatch() == nil:
		c.refuse(at.key("patch"), "missing")
	case operation == networking.EnvoyFilter_Patch_INVALID:
		c.refuse(at.key("patch").key("operation"), "missing")
	case operation != networking.EnvoyFilter_Patch_REMOVE && p.GetPatch().GetValue() == nil:
		c.refuse(at.key("patch").key("value"), "missing, which operation %s needs", operation)
	}
	m := p.GetMatch()
	if version := m.GetProxy().GetProxyVersion(); len(version) <= 1024 {
		c.regex(at.key("match").key("proxy").key("proxyVersion"), version)
	}
	kind, matched := "listener", m.GetListener() != nil
	switch p.GetApplyTo() {
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER:
	case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE:
		kind, matched = "routeConfiguration", m.GetRouteConfiguration() != nil
	case networking.EnvoyFilter_CLUSTER:
		kind, matched = "cluster", m.GetCluster() != nil
	default:
		return
	}
	if m.GetObjectTypes() != nil && !matched {
		c.refuse(at.key("match"), "applyTo %s has a match of %s", p.GetApplyTo(), kind)
	}
	c.filterMatch(at.key("match").key("listener").key("filterChain").key("filter"), p)
}

func (c *checker) filterMatch(at *path, p *networking.EnvoyFilter_EnvoyConfigObjectPatch) {
	f := p.GetMatch().GetListener().GetFilterChain().GetFilter()
	switch sub := f.GetSubFilter(); {
	case f == nil:
	case f.GetName() == "":
		c.refuse(at.key("name"), "missing")
	case sub == nil:
	case p.GetApplyTo() != networking.EnvoyFilter_HTTP_FILTER:
		c.refuse(at.key("subFilter"), "only with applyTo HTTP_FILTER")
	case !slices.Contains(connectionManagers, f.GetName()):
		c.refuse(at.key("subFilter"), "only of %s", connectionManagers[0])
	case sub.GetName() == "":
		c.refuse(at.key("subFilter").key("name"), "missing")
	}
}
