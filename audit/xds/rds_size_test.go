package xds

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
)

// TestRouteBytesAddUp holds the bytes that are added up from shared shapes
// against the length of the whole message, for every proxy and name.
func TestRouteBytesAddUp(t *testing.T) {
	inputs, err := filepath.Glob("testdata/route/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, input := range inputs {
		read, err := load.Files(t.Context(), load.Options{Filenames: []string{"testdata/route/base.yaml", input}})
		if err != nil {
			t.Fatal(err)
		}
		for _, view := range mesh.New(read.Snapshot()).Views {
			rec := scope.NewRecorder()
			scoper := scope.NewScoper(view, rec)
			b := New(view, scoper, rec)
			for _, p := range view.Proxies {
				s := scoper.For(p)
				for _, name := range []string{
					"80", "8080", "8443", "9090", "15080", "http_proxy", "unix:///tmp/x", "1",
					"auto.b.svc.cluster.local:8080", "autose.example.com:7000", "nothing.example.com:80", "x:http",
				} {
					added := b.SidecarRoute(s, p, name)
					r, ok := parseRouteName(name)
					if !ok {
						continue
					}
					whole := b.routeConfiguration(name, b.routeHosts(r))
					if patches := b.patchesFor(p); patchesRoutes(patches, networking.EnvoyFilter_SIDECAR_OUTBOUND) {
						continue // built whole anyway
					}
					if want := int64(proto.Size(whole)); added.Bytes != want {
						t.Errorf("%s: %s/%s %s: %d bytes, the message has %d", input, p.Namespace, p.Name, name, added.Bytes, want)
					}
				}
			}
		}
	}
}
