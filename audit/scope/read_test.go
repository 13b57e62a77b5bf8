package scope_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// view reads objects written in YAML; they need no cluster IPs.
func view(t *testing.T, objects ...string) *mesh.View {
	t.Helper()
	r, err := load.Bytes(context.Background(), "test.yaml", []byte(strings.Join(objects, "\n---\n")), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range r.Diagnostics {
		t.Fatalf("%v: %s", d.Object, d.Text)
	}
	m := mesh.New(r.Snapshot())
	if len(m.Views) != 1 {
		t.Fatalf("%d views", len(m.Views))
	}
	return m.Views[0]
}

// istiod is the Deployment of an istiod of a version, with its mesh config and environment.
func istiod(version, meshConfig string, env ...string) string {
	var vars strings.Builder
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&vars, "\n        - {name: %s, value: %q}", name, value)
	}
	config := ""
	for _, line := range strings.Split(meshConfig, "\n") {
		config += "\n    " + line
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod, namespace: istio-system, labels: {istio.io/rev: default}}
spec:
  selector: {matchLabels: {app: istiod}}
  template:
    metadata: {labels: {app: istiod, istio.io/rev: default}}
    spec:
      containers:
      - name: discovery
        image: docker.io/istio/pilot:%s
        args: [discovery]
        env:
        - {name: REVISION, value: default}%s
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |%s
`, version, vars.String(), config)
}

// service is a Kubernetes Service "ns/name" with ports "http-80"; exportTo "" is unset.
func service(name, exportTo string, ports ...string) string {
	ns, short, _ := strings.Cut(name, "/")
	annotation := ""
	if exportTo != "" {
		annotation = fmt.Sprintf(", annotations: {networking.istio.io/exportTo: %q}", exportTo)
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s%s}\nspec: {ports: [%s]}", short, ns, annotation, portList(ports))
}

func portList(ports []string) string {
	var list []string
	for _, p := range ports {
		i := strings.LastIndex(p, "-")
		list = append(list, fmt.Sprintf("{name: %s, port: %s}", p, p[i+1:]))
	}
	return strings.Join(list, ", ")
}

// object is an Istio object "Kind ns/name" with its spec in YAML's flow style.
func object(name, spec string) string {
	kind, rest, _ := strings.Cut(name, " ")
	ns, short, _ := strings.Cut(rest, "/")
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: %s", kind, short, ns, spec)
}

// aged gives an object a creation time: minutes after midnight.
func aged(minutes int, object string) string {
	return strings.Replace(object, "metadata: {", fmt.Sprintf("metadata: {creationTimestamp: '2026-01-01T%02d:%02d:00Z', ", minutes/60, minutes%60), 1)
}

// serviceEntry is a ServiceEntry "ns/name" of a host with ports "http-80".
func serviceEntry(name, host, exportTo string, ports ...string) string {
	var list []string
	for _, p := range ports {
		protocol, number, _ := strings.Cut(p, "-")
		list = append(list, fmt.Sprintf("{name: %s, number: %s, protocol: %s}", p, number, strings.ToUpper(protocol)))
	}
	export := ""
	if exportTo != "" {
		export = fmt.Sprintf("exportTo: [%s], ", exportTo)
	}
	return object("ServiceEntry "+name, fmt.Sprintf("{%shosts: ['%s'], resolution: STATIC, ports: [%s]}", export, host, strings.Join(list, ", ")))
}

// proxy is a pod that istiod knows.
func proxy(v *mesh.View, name string, labels ...string) *mesh.Proxy {
	ns, short, _ := strings.Cut(name, "/")
	own := map[string]string{}
	for _, l := range labels {
		k, value, _ := strings.Cut(l, "=")
		own[k] = value
	}
	return &mesh.Proxy{View: v, Namespace: ns, Name: short, IPv4: true, Labels: mesh.LabelsOf(own)}
}

func router(v *mesh.View, name string, labels ...string) *mesh.Proxy {
	p := proxy(v, name, labels...)
	p.Kind = mesh.RouterProxy
	return p
}

func scoper(v *mesh.View) *scope.Scoper { return scope.NewScoper(v, scope.NewRecorder()) }

// names are services as "host:port,port", sorted; cluster.local's suffix is cut, a pulled-in one has a "+".
func names(services []*scope.Service) []string {
	out := []string{}
	for _, s := range services {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprint(p.Number))
		}
		name := strings.TrimSuffix(s.Host, ".svc.cluster.local") + ":" + strings.Join(ports, ",")
		if s.Pulled {
			name += "+"
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// why is the reason of the scope's service of a host as "rule object field".
func why(rec *scope.ReasonRecorder, because result.ReasonID) string {
	r := rec.Reasons()[because]
	return strings.TrimSpace(fmt.Sprintf("%s %s %s/%s %s", r.Rule, r.Object.Kind, r.Object.Namespace, r.Object.Name, r.Field))
}

// sidecarOf is a Sidecar of a namespace with one egress listener.
func sidecarOf(ns string, hosts ...string) snapshot.Config[*networking.Sidecar] {
	return snapshot.Config[*networking.Sidecar]{
		Meta: snapshot.Meta{Kind: "Sidecar", Namespace: ns, Name: "default"},
		Spec: &networking.Sidecar{Egress: []*networking.IstioEgressListener{{Hosts: hosts}}},
	}
}
