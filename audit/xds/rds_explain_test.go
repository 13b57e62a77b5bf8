package xds_test

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/mesh"
	"github.com/mesh-audit/mesh-audit/audit/scope"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/xds"
)

// TestRoutesTellWhatTheyLeaveOut asks for a route configuration with a
// recorder that keeps what is turned away.
func TestRoutesTellWhatTheyLeaveOut(t *testing.T) {
	for _, c := range []struct{ input, route, host, word, object string }{
		{"hosts", "8080", "nowhere.example.com", "unknown-host-port-80", "VirtualService b/nowhere"},
		{"hosts", "80", "api.example.com", "host-shadowed", "VirtualService a/younger"},
		{"hosts", "9999", "multi.a.svc.cluster.local", "protocol-tcp", "Service a/multi"},
		{"sidecars", "8080", "auto.b.svc.cluster.local", "sidecar-egress-port", "Sidecar a/ports"},
	} {
		read, err := load.Files(t.Context(), load.Options{Filenames: []string{"testdata/route/base.yaml", "testdata/route/" + c.input + ".yaml"}})
		if err != nil {
			t.Fatal(err)
		}
		view := mesh.New(read.Snapshot()).Views[0]
		rec := scope.NewExplainRecorder(func(subject string) bool { return subject == c.host })
		scoper := scope.NewScoper(view, rec)
		for _, p := range view.Proxies {
			if p.Namespace == "a" {
				xds.New(view, scoper, rec).SidecarRoute(scoper.For(p), p, c.route)
			}
		}
		found := false
		for _, e := range rec.Exclusions() {
			object := e.Reason.Object
			found = found || e.Reason.Word == c.word && object.Kind+" "+object.Namespace+"/"+object.Name == c.object
		}
		if !found {
			t.Errorf("%s: route %s does not tell %s of %s for %s: %+v", c.input, c.route, c.word, c.object, c.host, rec.Exclusions())
		}
	}
}

// TestDelegateIsAReason has the routes of a delegate: its object is among the reasons.
func TestDelegateIsAReason(t *testing.T) {
	s := readSidecars(t, "testdata/route/base.yaml", "testdata/route/hosts.yaml")
	r := s.route("a/client", "80")
	for _, id := range r.Because {
		if reason := s.rec.Reasons()[id]; reason.Word == "delegate" && reason.Object.Name == "leaf" {
			return
		}
	}
	t.Errorf("no reason names the delegate: %v", r.Because)
}

// TestOddVirtualServices must not panic on what validation would refuse.
func TestOddVirtualServices(t *testing.T) {
	s := readSidecars(t, "testdata/route/base.yaml")
	odd := &networking.VirtualService{
		Hosts: []string{"", "*", "*.", "web.a.svc.cluster.local", ":"},
		Http: []*networking.HTTPRoute{
			nil,
			{Match: []*networking.HTTPMatchRequest{{
				Uri: &networking.StringMatch{}, Method: &networking.StringMatch{},
				Headers:     map[string]*networking.StringMatch{"": nil, "@request.auth.claims.x": nil, "@request.auth.claims[": nil},
				QueryParams: map[string]*networking.StringMatch{"q": nil},
			}}, Route: []*networking.HTTPRouteDestination{nil, {Weight: -1}}},
			{Match: []*networking.HTTPMatchRequest{{Name: "x"}}, Redirect: &networking.HTTPRedirect{RedirectCode: 999}},
			{Match: []*networking.HTTPMatchRequest{{Name: "y"}}, DirectResponse: &networking.HTTPDirectResponse{Body: &networking.HTTPBody{}}},
			{
				Route: []*networking.HTTPRouteDestination{{Headers: &networking.Headers{}}}, Mirror: &networking.Destination{},
				Mirrors: []*networking.HTTPMirrorPolicy{nil, {}}, Rewrite: &networking.HTTPRewrite{}, Fault: &networking.HTTPFaultInjection{},
				CorsPolicy: &networking.CorsPolicy{AllowOrigins: []*networking.StringMatch{nil}}, Retries: &networking.HTTPRetry{Attempts: -1},
			},
		},
	}
	for _, p := range s.view.Proxies {
		sc := s.scoper.For(p)
		e := *sc.Egress[0]
		for _, spec := range []*networking.VirtualService{odd, nil, {}} {
			e.VirtualServices = append(e.VirtualServices, &mesh.VirtualService{Meta: &snapshot.Meta{}, Spec: spec})
		}
		changed := *sc
		changed.Egress = []*scope.EgressListener{&e}
		for _, name := range []string{"80", "http_proxy", "", ":", "x:", "-1", "99999999999999999999", "unix://"} {
			s.SidecarRoute(&changed, p, name)
		}
	}
}
