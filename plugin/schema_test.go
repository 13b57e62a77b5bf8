package plugin_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/grpc"

	"github.com/mesh-audit/mesh-audit/plugin"
)

// TestOutputHoldsSchema checks what the commands print for the demo mesh
// against the schemas that docs/ publishes.
func TestOutputHoldsSchema(t *testing.T) {
	dump := filepath.Join(t.TempDir(), "dump.json")
	const nothing = `{"configs": [{"@type": "type.googleapis.com/envoy.admin.v3.ListenersConfigDump"}]}`
	if err := os.WriteFile(dump, []byte(nothing), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		schema string
		status int
		args   []string
	}{
		{"scope", plugin.ExitOK, []string{"scope", "--demo", "-o", "json"}},
		{"scope", plugin.ExitOK, []string{"scope", "--demo", "-o", "json", "--resources"}},
		{"scope", plugin.ExitOK, []string{"scope", "--demo", "-o", "json", "--details"}},
		{"scope", plugin.ExitOK, []string{"scope", "--demo", "-o", "json", "-n", "nowhere"}},
		{"verify", plugin.ExitYes, []string{"verify", "cart-v1-c688f88c4-00000", "-n", "shop", "--demo", "-o", "json", "--config-dump", dump}},
		{"verify", plugin.ExitUnread, []string{"verify", "-n", "shop", "--demo", "-o", "json", "--xds", noADS(t)}},
	} {
		schema, err := jsonschema.NewCompiler().Compile("../docs/" + c.schema + "-report.schema.json")
		if err != nil {
			t.Fatal(err)
		}
		status, out, errs := run(t, c.args...)
		if status != c.status {
			t.Fatalf("%v: exit status %d\n%s", c.args, status, errs)
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

// noADS is the address of a gRPC server that is no istiod.
func noADS(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}
