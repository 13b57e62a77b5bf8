package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func TestKubernetesProtocols(t *testing.T) {
	// REG-4: name, appProtocol, protocol, number → protocol.
	cases := []struct {
		name, app, protocol string
		number              int
		want                mesh.Protocol
	}{
		{"web", "", "TCP", 80, mesh.Unsupported},
		{"http", "", "TCP", 80, mesh.HTTP},
		{"x", "HTTP-web", "TCP", 80, mesh.HTTP},
		{"httpx", "", "TCP", 80, mesh.Unsupported},
		{"tcp-dns", "", "TCP", 53, mesh.TCP},
		{"", "", "TCP", 3306, mesh.TCP},
		{"", "", "TCP", 443, mesh.Unsupported},
		{"grpc-web-x", "", "TCP", 80, mesh.GRPCWeb},
		{"grpc-x", "", "TCP", 80, mesh.GRPC},
		{"http", "kubernetes.io/h2c", "TCP", 80, mesh.HTTP2},
		{"http", "kubernetes.io/wss", "TCP", 80, mesh.HTTPS},
		{"http", "other.io/x", "TCP", 80, mesh.Unsupported},
		{"http", "", "UDP", 53, mesh.UDP},
		{"http", "", "SCTP", 80, mesh.HTTP},
	}
	var text strings.Builder
	for i, c := range cases {
		fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {name: s%d, namespace: a}\nspec: {ports: [{name: %q, port: %d, protocol: %s", i, c.name, c.number, c.protocol)
		if c.app != "" {
			fmt.Fprintf(&text, ", appProtocol: %q", c.app)
		}
		text.WriteString("}]}\n")
	}
	v := only(t, text.String())
	for i, c := range cases {
		s := v.Service(fmt.Sprintf("s%d.a.svc.cluster.local", i), "a")
		if s == nil || len(s.Ports) != 1 || s.Ports[0].Protocol != c.want {
			t.Errorf("%+v: service %+v", c, s)
		}
	}
}

func TestServiceEntryFanOut(t *testing.T) {
	v := only(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: multi, namespace: a}
spec:
  hosts: [one.example.com, two.example.com]
  addresses: [10.50.0.1/32, 10.60.0.0/16, "2001:db8::/128"]
  ports: [{number: 443, name: tls, protocol: tls}, {number: 80, name: http, protocol: ""}]
  resolution: NONE
`)
	var got []string
	for _, s := range v.Services {
		got = append(got, fmt.Sprint(s.Host, " ", s.Address, " ", s.External, " ", s.Ports[1].Protocol))
	}
	want := []string{
		"one.example.com 10.50.0.1 true UnsupportedProtocol", "one.example.com 10.60.0.0/16 true UnsupportedProtocol",
		"one.example.com 2001:db8:: true UnsupportedProtocol", "two.example.com 10.50.0.1 true UnsupportedProtocol",
		"two.example.com 10.60.0.0/16 true UnsupportedProtocol", "two.example.com 2001:db8:: true UnsupportedProtocol",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestServiceOrderAndIndex(t *testing.T) {
	v := only(t, `
apiVersion: v1
kind: Service
metadata: {name: s, namespace: a, creationTimestamp: "2024-01-02T00:00:00Z"}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: z, namespace: a, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: squat, namespace: a, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {hosts: [s.a.svc.cluster.local], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: other, namespace: b, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {hosts: [s.a.svc.cluster.local], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
`)
	// REG-22: creation, then name (a ServiceEntry's is its host), then namespace.
	want := []string{"a/s.a.svc.cluster.local", "b/s.a.svc.cluster.local", "a/z.a.svc.cluster.local", "a/s.a.svc.cluster.local"}
	if diff := cmp.Diff(want, hosts(v.Services)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if s := v.Service("s.a.svc.cluster.local", "a"); s == nil || !s.Kubernetes {
		t.Errorf("the index holds %v, want the Kubernetes Service", s)
	}
	if s := v.Service("s.a.svc.cluster.local", "b"); s == nil || s.Kubernetes {
		t.Errorf("the index of namespace b holds %v", s)
	}
	if s := v.Service("s.a.svc.cluster.local", "c"); s != nil {
		t.Errorf("the index of namespace c holds %v", s)
	}
}

func TestAliases(t *testing.T) {
	external := func(name, namespace, to string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec: {type: ExternalName, externalName: %s}\n", name, namespace, to)
	}
	v := only(t, `
apiVersion: v1
kind: Service
metadata: {name: pg, namespace: b}
spec: {clusterIP: 10.0.0.1, ports: [{name: tcp, port: 5432}]}
`+external("db", "c", "pg.b.svc.cluster.local")+external("hop", "a", "db.c.svc.cluster.local")+
		external("loop", "a", "back.a.svc.cluster.local")+external("back", "a", "loop.a.svc.cluster.local")+external("far", "a", "example.com"))
	var got []string
	for _, s := range v.Services {
		for _, a := range s.Aliases {
			got = append(got, s.Host+" < "+a.Namespace+"/"+a.Host)
		}
	}
	want := []string{
		"pg.b.svc.cluster.local < a/hop.a.svc.cluster.local",
		"pg.b.svc.cluster.local < c/db.c.svc.cluster.local",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("aliases (-want +got):\n%s", diff)
	}
}

func TestAllocateByHash(t *testing.T) {
	// The addresses are those of Istio's own test of its allocator
	// (pilot/pkg/serviceregistry/serviceentry/controller_test.go).
	want := map[string]string{
		"a.com": "240.240.109.8", "c.com": "240.240.234.51", "e.com": "240.240.85.60", "g.com": "240.240.23.172",
		"i.com": "240.240.15.2", "k.com": "240.240.160.161", "l.com": "240.240.42.96", "n.com": "240.240.121.61",
		"o.com": "240.240.122.71", "*.wild.com": "",
	}
	b := &snapshot.Snapshot{Overrides: snapshot.Overrides{Env: map[string]string{"PILOT_ENABLE_IP_AUTOALLOCATE": "false"}}}
	for host := range want {
		e := snapshot.ServiceEntry{}
		e.Name, e.Spec = host, &networking.ServiceEntry{Hosts: []string{host}, Resolution: networking.ServiceEntry_STATIC}
		b.ServiceEntries = append(b.ServiceEntries, e)
	}
	for _, s := range mesh.New(b).Views[0].Services {
		if s.AutoV4 != want[s.Host] {
			t.Errorf("%s has %s, want %s", s.Host, s.AutoV4, want[s.Host])
		}
	}
}

func TestAllocatedAddresses(t *testing.T) {
	v := only(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: auto, namespace: a}
spec: {hosts: [auto.example.com], ports: [{number: 7000, name: tcp, protocol: TCP}], resolution: DNS}
status: {addresses: [{host: auto.example.com, value: 240.240.0.9}, {host: auto.example.com, value: "2001:2::9"}, {host: other, value: 240.240.0.8}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: none, namespace: a, labels: {networking.istio.io/enable-autoallocate-ip: "False"}}
spec: {hosts: [none.example.com], ports: [{number: 7000, name: tcp, protocol: TCP}], resolution: DNS}
status: {addresses: [{host: none.example.com, value: 240.240.0.7}]}
`)
	s := v.ServicesByHost("auto.example.com")[0]
	if s.AutoV4 != "240.240.0.9" || s.AutoV6 != "2001:2::9" {
		t.Errorf("allocated %q and %q", s.AutoV4, s.AutoV6)
	}
	if s := v.ServicesByHost("none.example.com")[0]; s.AutoV4 != "" {
		t.Errorf("opted out, yet allocated %q", s.AutoV4)
	}
	plain := &mesh.Proxy{View: v, IPv4: true, Cluster: "Kubernetes"}
	capturing := &mesh.Proxy{View: v, IPv4: true, Cluster: "Kubernetes", Metadata: mesh.Metadata{DNSCapture: true}}
	six := &mesh.Proxy{View: v, IPv6: true, Cluster: "Kubernetes", Metadata: mesh.Metadata{DNSCapture: true}}
	for p, want := range map[*mesh.Proxy]string{plain: "0.0.0.0", capturing: "240.240.0.9", six: "2001:2::9"} {
		if got := s.AddressFor(p); got != want {
			t.Errorf("AddressFor = %s, want %s", got, want)
		}
		if diff := cmp.Diff([]string{want}, s.AddressesFor(p)); diff != "" {
			t.Errorf("AddressesFor (-want +got):\n%s", diff)
		}
	}
}

func TestExportToDefaults(t *testing.T) {
	config := func(version, mesh string) string {
		return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: istiod, namespace: istio-system, labels: {app: istiod}}
spec: {template: {metadata: {labels: {app: istiod}}, spec: {containers: [{name: discovery, image: "istio/pilot:` + version + `", args: [discovery]}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: '` + mesh + `'}
---
apiVersion: v1
kind: Service
metadata: {name: s, namespace: a}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
`
	}
	for _, c := range []struct {
		version, mesh string
		want          []string
	}{
		{"1.31.0", `{defaultServiceExportTo: [b, "~"]}`, []string{"b", "~"}},
		{"1.30.2", `{defaultServiceExportTo: [b, "~"]}`, []string{"~"}},
		{"1.30.2", `{defaultServiceExportTo: ["*", "."]}`, []string{"."}},
		{"1.31.0", `{}`, []string{"*"}},
	} {
		v := only(t, config(c.version, c.mesh))
		if diff := cmp.Diff(c.want, v.EffectiveExportTo(v.Services[0])); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.version, c.mesh, diff)
		}
	}
}

func TestDiscoverySelectors(t *testing.T) {
	v := only(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: '{discoverySelectors: [{matchLabels: {mesh: "on"}}, {matchExpressions: [{key: team, operator: In, values: [x]}]}]}'}
---
{apiVersion: v1, kind: Namespace, metadata: {name: istio-system}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {mesh: "on"}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {team: x}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: c, labels: {team: z}}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: a}, spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: b}, spec: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: s, namespace: c}, spec: {clusterIP: 10.0.0.3, ports: [{name: http, port: 80}]}}
---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default, namespace: istio-system}, spec: {egress: [{hosts: ["./*"]}]}}
`)
	if diff := cmp.Diff([]string{"a/s.a.svc.cluster.local", "b/s.b.svc.cluster.local"}, hosts(v.Services)); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if len(v.Sidecars) != 0 {
		t.Errorf("the root namespace's Sidecar is seen: %v", v.Sidecars)
	}
}
