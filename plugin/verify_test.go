package plugin_test

import (
	"encoding/binary"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// TestVerifyDumps takes what a real istiod sent to a proxy of the demo mesh (make
// e2e records it), less what it sent for a ServiceEntry that the demo mesh does not
// have: it is equal, and whatever is left out of it, or stands in it beside, is told.
func TestVerifyDumps(t *testing.T) {
	const proxy = "cart-v1-c688f88c4-00000"
	text, err := os.ReadFile("../testdata/verify/cart.json")
	if err != nil {
		t.Fatal(err)
	}
	type entry = map[string]any
	configs := func(change func(kind string, e entry) bool) string {
		var dump struct {
			Configs []entry `json:"configs"`
		}
		if err := json.Unmarshal(text, &dump); err != nil {
			t.Fatal(err)
		}
		dump.Configs = slices.DeleteFunc(dump.Configs, func(e entry) bool {
			_, kind, _ := strings.Cut(e["@type"].(string), "v3.")
			for _, list := range []string{"dynamic_listeners", "dynamicListeners", "dynamic_active_clusters", "dynamicActiveClusters"} {
				if all, ok := e[list].([]any); ok {
					e[list] = slices.DeleteFunc(all, func(r any) bool {
						text, _ := json.Marshal(r) //nolint:errchkjson // it came of JSON
						return strings.Contains(string(text), "7777")
					})
				}
			}
			return !change(kind, e)
		})
		out, err := json.Marshal(dump)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	all := func(string, entry) bool { return true }
	for name, c := range map[string]struct {
		dump   string
		status int
		out    []string // of both streams
	}{
		"whole":               {configs(all), plugin.ExitOK, []string{"1 proxy: 1 equal, 0 differ", " equal  "}},
		"from PowerShell":     {"\ufeff" + configs(all), plugin.ExitOK, []string{"1 proxy: 1 equal, 0 differ"}},
		"from PowerShell 5":   {utf16LE("\ufeff" + configs(all)), plugin.ExitOK, []string{"1 proxy: 1 equal, 0 differ"}},
		"no endpoints":        {configs(func(kind string, _ entry) bool { return kind != "EndpointsConfigDump" }), plugin.ExitOK, []string{"1 equal (1 only in part)", "equal in part", "eds not compared: the dump has no endpoints"}},
		"clusters only":       {configs(func(kind string, _ entry) bool { return kind == "ClustersConfigDump" }), plugin.ExitOK, []string{"1 equal (1 only in part)", "lds, rds not compared: not in what was read"}},
		"nothing":             {`{"configs":[]}`, plugin.ExitUnread, []string{"1 proxy: 0 equal, 0 differ, 1 not read", "tells of no listeners, routes, clusters or endpoints"}},
		"nothing of it":       {`{"configs":[{"@type":"type.googleapis.com/envoy.admin.v3.BootstrapConfigDump"}]}`, plugin.ExitUnread, []string{"tells of no listeners"}},
		"something behind it": {configs(all) + "garbage", plugin.ExitUnread, []string{"no JSON of a config dump"}},
		"two in one":          {configs(all) + configs(all), plugin.ExitUnread, []string{"no JSON of a config dump"}},
		"a refused update": {configs(func(kind string, e entry) bool {
			if kind == "ListenersConfigDump" {
				e["dynamicListeners"] = append(e["dynamicListeners"].([]any), entry{"name": "err", "errorState": entry{"details": "bad"}})
			}
			return true
		}), plugin.ExitOK, []string{"1 equal, 0 differ", "note: Envoy refused an update of listener err: bad (shop/" + proxy + ")"}},
	} {
		file := filepath.Join(t.TempDir(), "dump.json")
		if err := os.WriteFile(file, []byte(c.dump), 0o600); err != nil {
			t.Fatal(err)
		}
		status, out, errs := run(t, "verify", proxy, "-n", "shop", "--demo", "--config-dump", file)
		for _, want := range c.out {
			if !strings.Contains(out+errs, want) {
				t.Errorf("%s: no %q in\n%s%s", name, want, out, errs)
			}
		}
		if status != c.status {
			t.Errorf("%s: exit status %d, want %d\n%s%s", name, status, c.status, out, errs)
		}
	}
}

// silentADS takes a stream and never answers.
type silentADS struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (silentADS) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	<-stream.Context().Done()
	return nil
}

// An istiod that does not answer for one proxy is not asked for the others.
func TestVerifySilentIstiod(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, silentADS{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	status, out, errs := run(t, "verify", "--demo", "-n", "shop", "--timeout", "300ms", "--xds", listener.Addr().String())
	if status != plugin.ExitUnread || !strings.Contains(out, "no answer for cds") || strings.Count(out, "not asked any more") != 1 {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
}

// utf16LE is a text as PowerShell 5 writes it.
func utf16LE(text string) string {
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, unit)
	}
	return string(out)
}
