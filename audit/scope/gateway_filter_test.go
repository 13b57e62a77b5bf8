package scope_test

import (
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/scope"
)

const filterEnv = "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG=true"

func TestGatewayFilter(t *testing.T) {
	objects := []string{
		service("apps/dest", "", "http-80", "http-81"), service("apps/mirror", "", "http-80"), service("apps/unused", "", "http-80"), service("apps/tls", "", "tls-443"),
		service("obs/otel", "", "grpc-4317"), service("obs2/otel", "", "grpc-4317"), service("apps/referenced", "", "http-80"), service("apps/other", "", "http-80"),
		serviceEntry("sys/jwks", "issuer.example", "", "https-443"), serviceEntry("sys/jwks2", "issuer2.example", "", "https-443"),
		object("Gateway edge/gw", "{selector: {app: gw}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}"),
		object("VirtualService apps/vs", "{hosts: [x.example], exportTo: [other], gateways: [edge/gw], http: [{route: [{destination: {host: dest}}], mirror: {host: mirror}}], tls: [{match: [{sniHosts: [x.example]}], route: [{destination: {host: tls}}]}]}"),
		object("VirtualService apps/mesh", "{hosts: [y.example], http: [{route: [{destination: {host: unused}}]}]}"),
		"apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: ef, namespace: edge, annotations: {envoyfilter.istio.io/referenced-services: 'referenced.apps.svc.cluster.local'}}\nspec: {workloadSelector: {labels: {app: gw}}}",
		"apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: ef2, namespace: edge, annotations: {envoyfilter.istio.io/referenced-services: 'other.apps.svc.cluster.local'}}\nspec: {workloadSelector: {labels: {app: not-gw}}}",
		"apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: ra, namespace: edge}\nspec: {selector: {matchLabels: {app: gw}}, jwtRules: [{issuer: a, jwksUri: 'https://issuer.example/keys'}]}",
		"apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: ra, namespace: apps}\nspec: {jwtRules: [{issuer: a, jwksUri: 'https://issuer2.example/keys'}]}",
	}
	config := "extensionProviders: [{name: otlp, envoyOtelAls: {service: obs/otel.obs.svc.cluster.local, port: 4317}}]"
	for _, c := range []struct {
		name, version string
		env           []string
		labels        string
		want          []string
	}{
		{"kept", "1.31.0", []string{filterEnv}, "app=gw", []string{"dest.apps:80,81", "mirror.apps:80", "otel.obs:4317", "referenced.apps:80", "tls.apps:443"}},
		{"JWKS that Envoy fetches", "1.31.0", []string{filterEnv, "PILOT_JWT_ENABLE_REMOTE_JWKS=envoy"}, "app=gw", []string{"dest.apps:80,81", "issuer.example:443", "mirror.apps:80", "otel.obs:4317", "referenced.apps:80", "tls.apps:443"}},
		{"no Gateway selects it", "1.31.0", []string{filterEnv}, "app=lone", []string{"otel.obs:4317"}},
		{"1.24 does not know ns/host, nor the annotation", "1.24.6", []string{filterEnv}, "app=gw", []string{"dest.apps:80,81", "mirror.apps:80", "tls.apps:443"}},
		{"1.24 without a Gateway", "1.24.6", []string{filterEnv}, "app=lone", []string{}},
	} {
		v := view(t, append(objects, istiod(c.version, config, c.env...))...)
		s := scoper(v).For(router(v, "edge/gw-0", c.labels))
		equal(t, c.name, c.want, names(s.Services))
		equal(t, c.name+": visible", len(v.Services), len(s.Visible))
		if s.Service("unused.apps.svc.cluster.local") == nil {
			t.Errorf("%s: a filtered service cannot be looked up", c.name)
		}
	}
	v := view(t, append(objects, istiod("1.31.0", config, filterEnv))...)
	rec := scope.NewRecorder()
	s := scope.NewScoper(v, rec).For(router(v, "edge/gw-0", "app=gw"))
	for _, svc := range s.Services {
		if svc.Host == "otel.obs.svc.cluster.local" {
			equal(t, "provider", "CDS-13  / meshConfig.extensionProviders[otlp]", why(rec, svc.Because))
		}
		if svc.Host == "mirror.apps.svc.cluster.local" {
			equal(t, "destination", "CDS-12 VirtualService apps/vs spec.http[0].mirror.host", why(rec, svc.Because))
		}
	}
}

func TestRouterMayShareTheDefaultScope(t *testing.T) {
	objects := []string{service("a/web", "", "http-80"), service("a/none", "~", "http-80"),
		object("VirtualService a/web", "{hosts: [web], http: [{route: [{destination: {host: none}}]}]}"), pod("a/m-sidecar", "sidecar"), pod("a/gw", "router"), pod("a/z-gw", "router")}
	v := view(t, objects...)
	s := scoper(v)
	before, after := s.For(router(v, "a/gw")), s.For(router(v, "a/z-gw"))
	equal(t, "before the sidecar by name", []string{"web.a:80"}, names(before.Services))
	equal(t, "after it (TRAP-3)", []string{"none.a:80+", "web.a:80"}, names(after.Services))
	equal(t, "both depend on the order", []bool{true, true}, []bool{before.OrderDependent, after.OrderDependent})
	equal(t, "a namespace with routers only", false, s.For(router(v, "b/gw")).OrderDependent)
}

// pod is a pod "ns/name" with a proxy of a kind.
func pod(name, kind string) string {
	ns, short, _ := strings.Cut(name, "/")
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + short + ", namespace: " + ns + ", labels: {app: " + short + "}, annotations: {sidecar.istio.io/status: '{}'}}\n" +
		"spec: {containers: [{name: istio-proxy, image: docker.io/istio/proxyv2:1.31.0, args: [proxy, " + kind + "]}]}\nstatus: {podIP: 10.0.0.1, phase: Running}"
}
