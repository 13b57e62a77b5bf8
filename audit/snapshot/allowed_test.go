package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// TestIstiodEnvironmentIsAllowed: values of known flags stay, of unknown ones
// the names, of anything else nothing.
func TestIstiodEnvironmentIsAllowed(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istiod"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Args: []string{"discovery"}, Env: []corev1.EnvVar{
		{Name: "REVISION", Value: "blue"}, {Name: "PILOT_HTTP10", Value: "true"}, {Name: "PILOT_NEW_THING", Value: "s3cret"},
		{Name: "VAULT_TOKEN", Value: "s3cret"}, {Name: "HTTPS_PROXY", Value: "http://me:s3cret@proxy"},
	}}}
	b := snapshot.NewBuilder()
	b.Add(d, result.Source{})
	want := []snapshot.EnvVar{{Name: "REVISION", Value: "blue"}, {Name: "PILOT_HTTP10", Value: "true"}, {Name: "PILOT_NEW_THING"}}
	if diff := cmp.Diff(want, b.Build().Istiods[0].Env); diff != "" {
		t.Error(diff)
	}
}

// TestProxyEnvironmentIsAllowed: what istiod learns of a proxy, and what that
// refers to.
func TestProxyEnvironmentIsAllowed(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{
		"proxy.istio.io/config":                   `{"proxyMetadata":{"TOKEN":"s3cret","ISTIO_META_DNS_CAPTURE":"true"}}`,
		"vault.hashicorp.com/agent-inject-secret": "s3cret",
		"resource.opentelemetry.io/service.name":  "front",
	}}}
	p.Spec.Containers = []corev1.Container{
		{Name: "web", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "s3cret"}}},
		{Name: "istio-proxy", Env: []corev1.EnvVar{
			{Name: "OWNER", Value: "team"}, {Name: "TOKEN", Value: "s3cret"},
			{Name: "ISTIO_META_OWNER", Value: "$(OWNER)-x"}, {Name: "TRUST_DOMAIN", Value: "td"},
			{Name: "PROXY_CONFIG", Value: `{"tracing":{"lightstep":{"accessToken":"s3cret"}}}`},
		}},
	}
	b := snapshot.NewBuilder()
	b.Add(p, result.Source{})
	have := b.Build().Pods[0]
	env := []snapshot.EnvVar{
		{Name: "OWNER", Value: "team"}, {Name: "ISTIO_META_OWNER", Value: "$(OWNER)-x"}, {Name: "TRUST_DOMAIN", Value: "td"},
		{Name: "PROXY_CONFIG", Value: `{"tracing":{"lightstep":{"accessToken":"xxxxxx"}}}`},
	}
	if diff := cmp.Diff(env, have.Proxy.Env); diff != "" {
		t.Error(diff)
	}
	annotations := map[string]string{
		"proxy.istio.io/config":                  `{"proxyMetadata":{"ISTIO_META_DNS_CAPTURE":"true"}}`,
		"resource.opentelemetry.io/service.name": "front",
	}
	if diff := cmp.Diff(annotations, have.Annotations); diff != "" {
		t.Error(diff)
	}
}

// TestMeshConfigIsAllowed: a clean text stays as it is; of any other only what
// must go changes, and what has a length that istiod sends keeps it.
func TestMeshConfigIsAllowed(t *testing.T) {
	const clean = "# ours\nrootNamespace: infra\ndefaultConfig:\n  proxyMetadata: {ISTIO_META_DNS_CAPTURE: \"true\"}\n"
	const full = `
rootNamespace: infra
vendorPassword: s3cret
caCertificates:
- pem: s3cret
extensionProviders:
- name: otel
  opentelemetry:
    port: 4318
    service: otel.infra.svc.cluster.local
    http: {path: /v1, headers: [{name: api-key, value: s3cret}]}
`
	const allowed = `caCertificates:
- pem: xxxxxx
extensionProviders:
- name: otel
  opentelemetry:
    http:
      headers:
      - name: api-key
        value: xxxxxx
      path: /v1
    port: 4318
    service: otel.infra.svc.cluster.local
rootNamespace: infra
vendorPassword: null
`
	for _, c := range []struct{ in, want string }{{clean, clean}, {full, allowed}, {"", ""}, {"- no\n- object\n", "- no\n- object\n"}} {
		if diff := cmp.Diff(c.want, snapshot.AllowedMeshConfig(c.in)); diff != "" {
			t.Error(diff)
		}
	}
}
