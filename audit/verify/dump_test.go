package verify_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/verify"
)

func of[T any](v T) *T { return &v }

func read(t *testing.T, texts ...string) *verify.Actual {
	t.Helper()
	dump := verify.NewDump("config dump")
	for _, text := range texts {
		if err := dump.Add([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return dump.Actual()
}

func dumpText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/dump.json")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parts are the canonical fields of all resources of a type.
func parts(a *verify.Actual, xdsType string) map[string][]result.Part {
	out := map[string][]result.Part{}
	for name, r := range a.Types[xdsType] {
		for _, p := range r.Parts {
			out[name] = append(out[name], result.Part{Name: p.Name, Match: p.Match, Domains: p.Domains, To: p.To, Type: p.Type, Rule: p.Rule, Endpoints: p.Endpoints})
		}
	}
	return out
}

// TestDump reads a whole dump: what istiod sent, not what Envoy has from its
// bootstrap; unknown types and fields in it are passed over.
func TestDump(t *testing.T) {
	a := read(t, dumpText(t))
	const cart = "outbound|80|v1|cart.shop.svc.cluster.local"
	want := map[string]map[string][]result.Part{
		"lds": {"0.0.0.0_80": {
			{Match: of("app:h2c,http/1.1 transport:raw_buffer"), To: []string{"rds 80"}},
			{Match: of("default"), To: []string{"cluster PassthroughCluster"}},
		}},
		"rds": {"80": {{Name: "cart.shop.svc.cluster.local:80", Domains: []string{"cart", "cart.shop.svc.cluster.local"}, To: []string{cart}}}},
		"cds": {
			cart:                        {{Type: "EDS", Rule: of("shop/cart")}},
			"outbound|443||api.example": {{Type: "STRICT_DNS", Rule: of(""), Endpoints: of(2)}},
			"outbound|81||cart.shop.svc.cluster.local": {{Type: "EDS", Rule: of("")}},
		},
		"eds": {cart: {{Endpoints: of(3)}}},
	}
	for xdsType, resources := range want {
		if diff := cmp.Diff(resources, parts(a, xdsType)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", xdsType, diff)
		}
	}
	if namespace, name := a.Proxy(); namespace != "shop" || name != "web-0" {
		t.Errorf("the dump is of %s/%s, want shop/web-0", namespace, name)
	}
	if a.Bytes {
		t.Error("bytes of a dump are said to be comparable")
	}
	for _, note := range []string{"outbound|81||cart.shop.svc.cluster.local is warming", "refused an update of listener 0.0.0.0_80: no such filter", "10.0.0.9_443 is draining"} {
		if !slices.ContainsFunc(a.Notes, func(n string) bool { return strings.Contains(n, note) }) {
			t.Errorf("no note tells %q: %q", note, a.Notes)
		}
	}
	for _, xdsType := range []string{"nds", "ecds"} {
		if _, told := a.Types[xdsType]; told {
			t.Errorf("%s counts as told", xdsType)
		}
	}
}

// TestDumpWithoutEndpoints: without include_eds there is nothing to compare, not nothing there.
func TestDumpWithoutEndpoints(t *testing.T) {
	text, _, _ := strings.Cut(dumpText(t), `{"@type": "type.googleapis.com/envoy.admin.v3.SecretsConfigDump"`)
	a := read(t, strings.TrimRight(text, " ,\n")+"]}")
	if _, told := a.Types["eds"]; told || !strings.Contains(a.NotTold["eds"], "include_eds") {
		t.Errorf("eds: told %v, why not: %q", told, a.NotTold["eds"])
	}
}

// TestDumpOfOneResource reads the answers to /config_dump?resource=…, whose entries stand alone.
func TestDumpOfOneResource(t *testing.T) {
	a := read(t,
		`{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.ClustersConfigDump.DynamicCluster",
		  "cluster": {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "BlackHoleCluster", "type": "STATIC"}}]}`,
		`{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump.DynamicRouteConfig",
		  "route_config": {"@type": "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", "name": "80"}}]}`)
	if a.Types["cds"]["BlackHoleCluster"] == nil || a.Types["rds"]["80"] == nil {
		t.Errorf("got %v", a.Types)
	}
}

func TestDumpRefused(t *testing.T) {
	for text, want := range map[string]string{
		``:                  "no JSON",
		`[]`:                "no JSON",
		`{"listeners": []}`: `there is no list "configs"`,
		`{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump", "dynamic_route_configs": 3}]}`:                                                                                                 "configs[0]: RoutesConfigDump",
		`{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.RoutesConfigDump", "dynamic_route_configs": [{"route_config": {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "x"}}]}]}`: "rds",
	} {
		err := verify.NewDump("x").Add([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

// FuzzDump: whatever the text, there is a result or an error.
func FuzzDump(f *testing.F) {
	text, err := os.ReadFile("testdata/dump.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.EndpointsConfigDump","dynamic_endpoint_configs":[{}]}]}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		dump := verify.NewDump("x")
		_ = dump.Add(text)
		_ = dump.Actual()
	})
}
