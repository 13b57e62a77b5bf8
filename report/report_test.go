package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/report"
)

const hostile = "evil\x1b[31m\n<script>|\u202e\t"

// sample is a small audit with hostile names in every place that is shown.
func sample() *result.Audit {
	chain := func(match string, to ...string) result.Part { return result.Part{Match: &match, To: to} }
	rule := "shop/" + hostile
	a := &result.Audit{
		APIVersion: result.APIVersion, Kind: result.KindScopeReport,
		Mesh: result.MeshInfo{
			Namespaces: 3, Services: 7, EndpointRows: 12, Proxies: 4, Assumed: 3,
			ControlPlanes: []result.ControlPlane{{
				Revision: "default", Tags: []string{hostile}, Namespace: "istio-system", Version: "1.31.0", VersionAssumed: true,
				RootNamespace: "istio-system", OutboundPolicy: "ALLOW_ANY", Proxies: 4,
				Flags: map[string]string{"PILOT_FILTER_GATEWAY_CLUSTER_CONFIG": "true"},
			}},
			Totals: result.Totals{Connections: 4, EndpointRows: 20, Bytes: 91000},
		},
		Proxies: []result.Proxy{
			{Namespace: "edge", Name: "gw-0", Kind: result.Router, Group: "g2", Workload: "deployment/gw", Revision: "default", Version: "1.31.0"},
			{Namespace: "shop", Name: "cart-0", Kind: result.Sidecar, Group: "g1", Workload: "deployment/" + hostile, Revision: "default", Version: "1.31.0", Assumed: true},
			{Namespace: "shop", Name: "cart-1", Kind: result.Sidecar, Group: "g1", Workload: "deployment/" + hostile, Revision: "default", Version: "1.31.0", Assumed: true},
			{Namespace: "shop", Name: "db-0", Kind: result.Sidecar, Group: "g3", Workload: "statefulset/db", Revision: "default", Version: "1.31.0", Assumed: true},
		},
		Reasons: []result.Reason{{Rule: "VIS-2", Object: result.Ref{Kind: "Service", Namespace: "shop", Name: hostile, Source: result.Source{File: "a.yaml", Line: 7}}, Field: "metadata.annotations", Text: "exported to every namespace"}},
		Services: []result.Service{
			{Host: "db.shop.svc.cluster.local", Namespace: "shop", Headless: true, Proxies: 3, Bytes: 9000, Total: 27000, Addresses: 3},
			{Host: hostile, Namespace: "shop", Proxies: 4, Bytes: 1000, Total: 4000, Addresses: 2, Istiod: true},
		},
		Remainder: []result.Remainder{
			{Name: result.RestInbound, Proxies: 3, Bytes: 17750, Total: 53250},
			{Name: result.RestListeners, Proxies: 3, Bytes: 2250, Total: 6750},
		},
		Gaps: []result.Gap{
			{Kind: result.Unread, Object: result.Ref{Kind: "EnvoyFilter", Name: ""}, Text: "forbidden: patches are missing", All: true},
			{Kind: result.Assumed, Counted: true, Object: result.Ref{Kind: "RequestAuthentication", Namespace: "edge", Name: "jwt"}, Text: "key sets: 1", Proxies: []string{"edge/gw-0"}},
			{Kind: result.Assumed, Counted: true, Object: result.Ref{Kind: "RequestAuthentication", Namespace: "shop", Name: "jwt"}, Text: "key sets: 1", Proxies: []string{"shop/db-0"}},
			{Kind: result.Assumed, Text: "3 Pods from the templates of 2 workloads"},
		},
	}
	a.Scopes = []result.Scope{
		{ID: "s1", By: result.Ref{Kind: "Sidecar", Namespace: "shop", Name: hostile, Source: result.Source{File: "b.yaml", Line: 3}}, Text: "Sidecar shop/" + hostile, Resources: result.Resources{
			LDS: []*result.Resource{
				{Name: "0.0.0.0_80", Bytes: 2400, Parts: []result.Part{chain("app:h2c,http/1.1", "rds 80"), chain("default", "cluster PassthroughCluster")}, Because: []result.ReasonID{0}},
				{Name: "10.0.0.7_3306", Bytes: 600, Parts: []result.Part{chain("", "cluster outbound|3306||db.shop.svc.cluster.local")}},
			},
			RDS: []*result.Resource{{Name: "80", Bytes: 800, Parts: []result.Part{{Name: "web.shop.svc.cluster.local:80", Domains: []string{"a", "b", "c", "d"}, To: []string{"outbound|80||web.shop.svc.cluster.local"}, Matches: []string{"/cart*", "/*"}, By: result.Ref{Kind: "VirtualService", Namespace: "shop", Name: "web"}}}}},
			CDS: []*result.Resource{{Name: "outbound|3306||db.shop.svc.cluster.local", Bytes: 1000, Service: "db.shop.svc.cluster.local", Parts: []result.Part{{Type: "EDS", Rule: &rule}}}},
			EDS: []*result.Resource{{Name: "outbound|3306||db.shop.svc.cluster.local", Bytes: 450, Endpoints: 3, Service: "db.shop.svc.cluster.local"}},
		}},
		{ID: "s2", Text: "gateways of edge"},
	}
	counts := result.Counts{Endpoints: 3, XDS: result.XDS[int]{LDS: 3, RDS: 1, CDS: 2, EDS: 1}}
	size := result.Bytes{Total: 23000, XDS: result.XDS[int64]{LDS: 20750, RDS: 800, CDS: 1000, EDS: 450}}
	a.Groups = []result.Group{
		{ID: "g1", Kind: result.Sidecar, Namespace: "shop", Workload: "deployment/" + hostile, Scope: "s1", Proxies: 2, Counts: counts, Bytes: size},
		{ID: "g2", Kind: result.Router, Namespace: "edge", Workload: "deployment/gw", Scope: "s2", Proxies: 1, Counts: counts, Bytes: size},
		{ID: "g3", Kind: result.Sidecar, Namespace: "shop", Workload: "statefulset/db", Scope: "s1", Proxies: 1, Counts: counts, Bytes: size,
			Resources: result.Resources{LDS: []*result.Resource{{Name: "virtualInbound", Bytes: 17750}}},
			Without:   result.Lists[string]{LDS: []string{"10.0.0.7_3306"}},
			Resized:   result.Lists[result.Resized]{LDS: []result.Resized{{Name: "0.0.0.0_80", Bytes: 2410}}}},
	}
	return a
}

func TestGolden(t *testing.T) {
	a := sample()
	for name, render := range map[string]func(io.Writer) error{
		"scope.txt":      func(w io.Writer) error { return report.Scope(w, a, report.ScopeOptions{}) },
		"scope-wide.txt": func(w io.Writer) error { return report.Scope(w, a, report.ScopeOptions{Wide: true, All: true}) },
		"fanout.txt":     func(w io.Writer) error { return report.Fanout(w, a, report.ScopeOptions{}) },
		"proxy.txt":      func(w io.Writer) error { return report.Proxy(w, a, a.Find("shop", "db-0"), report.ProxyOptions{}) },
		"proxy-wide.txt": func(w io.Writer) error {
			return report.Proxy(w, a, a.Find("shop", "cart-0"), report.ProxyOptions{Wide: true})
		},
		"proxy-host.txt": func(w io.Writer) error {
			return report.Proxy(w, a, a.Find("shop", "cart-0"), report.ProxyOptions{Host: "db.shop.svc.cluster.local"})
		},
		"scope.json": func(w io.Writer) error { return report.JSON(w, a, report.DataOptions{}) },
		"names.json": func(w io.Writer) error { return report.JSON(w, a, report.DataOptions{Resources: true}) },
		"full.yaml":  func(w io.Writer) error { return report.YAML(w, a, report.DataOptions{Resources: true, Details: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := render(&out); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsRune(out.String(), '\x1b') || strings.HasSuffix(name, ".txt") && strings.ContainsRune(out.String(), '\u202e') {
				t.Error("the output has a raw control character")
			}
			golden(t, name, out.Bytes())
		})
	}
}

func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, have, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("%s (-want +have):\n%s", name, diff)
	}
}

// TestTableWidth: the default table fits 120 columns.
func TestTableWidth(t *testing.T) {
	var out bytes.Buffer
	if err := report.Scope(&out, sample(), report.ScopeOptions{Width: 120}); err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(out.String(), "PROXIES")
	for line := range strings.Lines(rows) {
		if n := len([]rune(strings.TrimRight(line, " \n"))); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// TestSchemaHolds checks what is printed against the published schema.
func TestSchemaHolds(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../docs/scope-report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []report.DataOptions{{}, {Resources: true}, {Resources: true, Details: true}} {
		var out bytes.Buffer
		if err := report.JSON(&out, sample(), o); err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(&out)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestRoundTrip: a saved report is the same audit again.
func TestRoundTrip(t *testing.T) {
	var out bytes.Buffer
	if err := report.JSON(&out, sample(), report.DataOptions{Resources: true, Details: true}); err != nil {
		t.Fatal(err)
	}
	back := &result.Audit{}
	if err := json.Unmarshal(out.Bytes(), back); err != nil {
		t.Fatal(err)
	}
	// Invalid UTF-8 aside, nothing is lost.
	if diff := cmp.Diff(sample(), back); diff != "" {
		t.Errorf("-before +after:\n%s", diff)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestWriteErrors: no renderer swallows an error of the output.
func TestWriteErrors(t *testing.T) {
	a := sample()
	for name, err := range map[string]error{
		"scope":  report.Scope(failing{}, a, report.ScopeOptions{}),
		"fanout": report.Fanout(failing{}, a, report.ScopeOptions{}),
		"proxy":  report.Proxy(failing{}, a, &a.Proxies[0], report.ProxyOptions{}),
		"json":   report.JSON(failing{}, a, report.DataOptions{}),
		"yaml":   report.YAML(failing{}, a, report.DataOptions{}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestNoProxies: pods that could not be read are not pods that are not there.
func TestNoProxies(t *testing.T) {
	for want, gaps := range map[string][]result.Gap{
		"No proxies: no pod with an istio-proxy container":                                                       nil,
		"No proxies are known: pods could not be read. With rights in one namespace only, give --only-namespace": {{Kind: result.Unread, Object: result.Ref{Kind: "Pod"}, All: true, Text: "cannot list pods: forbidden"}},
		"No proxies are known: pods could not be read.\n":                                                        {{Kind: result.Unread, Object: result.Ref{Kind: "Pod"}, All: true, Text: "cannot list pods: the deadline passed"}},
	} {
		var out bytes.Buffer
		if err := report.Scope(&out, &result.Audit{Gaps: gaps}, report.ScopeOptions{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
