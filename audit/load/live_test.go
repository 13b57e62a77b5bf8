package load_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/internal/apistub"
)

func liveText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/live.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "\n")
}

func TestLiveEqualsFiles(t *testing.T) {
	text := liveText(t)
	server, config := apistub.New(t, text)
	counts := map[string]int{}
	got, err := load.Live(t.Context(), load.LiveOptions{
		Config: config, QPS: 1000, Burst: 1000, PageSize: 2, UserAgent: "kubectl-mesh_audit/test",
		Progress: func(kind string, n int) { counts[kind] = n },
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := load.Bytes(t.Context(), "live.yaml", []byte(text), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Diagnostics) > 0 {
		t.Fatal(r.Diagnostics)
	}
	for _, g := range got.Gaps {
		t.Errorf("gap: %s", g.Text)
	}
	if len(got.ConfigMaps) != 2 {
		t.Errorf("%d mesh ConfigMaps, want istiod's own and the one that it shares", len(got.ConfigMaps))
	}
	if diff := cmp.Diff(summary(r.Snapshot()), summary(got)); diff != "" {
		t.Error(diff)
	}
	if counts["pods"] != 3 {
		t.Errorf("progress: %v, want 3 pods", counts)
	}
	for _, path := range server.Requests {
		if strings.Contains(path, "secrets") || strings.HasSuffix(path, "/configmaps") {
			t.Errorf("request for %s", path)
		}
	}
	if len(server.Agents) != 1 || !server.Agents["kubectl-mesh_audit/test"] {
		t.Errorf("user agents: %v", server.Agents)
	}
}

// summary is a snapshot as JSON, without the places that objects come from.
func summary(s *snapshot.Snapshot) any {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	return dropSources(v)
}

func dropSources(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "Source")
		for _, e := range v {
			dropSources(e)
		}
	case []any:
		for _, e := range v {
			dropSources(e)
		}
	}
	return v
}

func live(t *testing.T, fail func(http.ResponseWriter, *http.Request, int) bool) *snapshot.Snapshot {
	t.Helper()
	server, config := apistub.New(t, liveText(t))
	server.Fail = fail
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000, PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func gaps(s *snapshot.Snapshot) (out []string) {
	for _, g := range s.Gaps {
		out = append(out, fmt.Sprintf("%s %s: %s", g.Kind, g.Object.Kind, g.Text))
	}
	return out
}

func TestLiveFailures(t *testing.T) {
	pods := func(r *http.Request) bool { return r.URL.Path == "/api/v1/pods" }
	expired := false
	tests := map[string]struct {
		fail func(http.ResponseWriter, *http.Request, int) bool
		pods int
		gap  string // "": none
	}{
		"page 2": {func(w http.ResponseWriter, r *http.Request, after int) bool {
			return pods(r) && after > 0 && apistub.Refuse(w, 500, metav1.StatusReasonInternalError, "etcd is away")
		}, 0, "unread Pod: cannot list pods: etcd is away; missing: the proxies"},
		"forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return pods(r) && apistub.Refuse(w, 403, metav1.StatusReasonForbidden, `User "eve" cannot list pods`)
		}, 0, `unread Pod: cannot list pods: forbidden: User "eve" cannot list pods; missing: the proxies`},
		"not JSON": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if pods(r) {
				_, _ = w.Write([]byte("<html>"))
			}
			return pods(r)
		}, 0, "unread Pod: cannot list pods: "},
		"no list": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if pods(r) {
				apistub.Reply(w, map[string]any{"apiVersion": "v1", "kind": "NodeList", "items": []any{}})
			}
			return pods(r)
		}, 0, `unread Pod: cannot list pods: the answer is no PodList of v1 but "NodeList" of "v1"; missing: the proxies`},
		"nothing in it": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if pods(r) {
				apistub.Reply(w, map[string]any{})
			}
			return pods(r)
		}, 0, "unread Pod: cannot list pods: "},
		"no list of Istio's": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			asked := strings.HasSuffix(r.URL.Path, "/sidecars")
			if asked {
				apistub.Reply(w, map[string]any{"message": "hello"})
			}
			return asked
		}, 3, `unread Sidecar: cannot list sidecars.networking.istio.io: the answer is no SidecarList of networking.istio.io/v1 but "" of ""; missing: scopes`},
		"same two pages again": {func(w http.ResponseWriter, r *http.Request, after int) bool {
			if pods(r) {
				apistub.Reply(w, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"continue": strconv.Itoa(1 + after%2)}, "items": []any{}})
			}
			return pods(r)
		}, 0, "unread Pod: cannot list pods: the API server gives the same page again"},
		"same page again": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if pods(r) {
				apistub.Reply(w, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"continue": "1"}, "items": []any{}})
			}
			return pods(r)
		}, 0, "unread Pod: cannot list pods: the API server gives the same page again"},
		"expired once": {func(w http.ResponseWriter, r *http.Request, after int) bool {
			if !pods(r) || after == 0 || expired {
				return false
			}
			expired = true
			return apistub.Refuse(w, 410, metav1.StatusReasonExpired, "too old")
		}, 3, ""},
		"always expired": {func(w http.ResponseWriter, r *http.Request, after int) bool {
			return pods(r) && after > 0 && apistub.Refuse(w, 410, metav1.StatusReasonExpired, "too old")
		}, 0, "unread Pod: cannot list pods: too old"},
		"kind gone": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return strings.HasSuffix(r.URL.Path, "/sidecars") && apistub.Refuse(w, 404, metav1.StatusReasonNotFound, "no such thing")
		}, 3, "unread Sidecar: cannot list sidecars.networking.istio.io: no such thing; missing: scopes"},
		"mesh config forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return strings.HasSuffix(r.URL.Path, "/configmaps/istio") && apistub.Refuse(w, 403, metav1.StatusReasonForbidden, "no")
		}, 3, "unread ConfigMap: cannot get ConfigMap istio-system/istio: forbidden: no; missing: mesh config"},
		"shared mesh config forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return strings.HasSuffix(r.URL.Path, "/configmaps/of-all") && apistub.Refuse(w, 403, metav1.StatusReasonForbidden, "no")
		}, 3, "unread ConfigMap: cannot get ConfigMap istio-system/of-all: forbidden: no; missing: the mesh config that istiod shares"},
		"discovery forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return (r.URL.Path == "/apis" || r.URL.Path == "/api") && apistub.Refuse(w, 403, metav1.StatusReasonForbidden, "no")
		}, 3, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := live(t, test.fail)
			if len(s.Pods) != test.pods {
				t.Errorf("%d pods, want %d", len(s.Pods), test.pods)
			}
			got := gaps(s)
			if test.gap == "" && len(got) > 0 || test.gap != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.gap)) {
				t.Errorf("gaps:\n%s\nwant: %s", strings.Join(got, "\n"), test.gap)
			}
			if len(s.Services) != 2 {
				t.Errorf("%d services, want the 2 that nothing is wrong with", len(s.Services))
			}
		})
	}
}

// TestLiveAnswers: what an answer for one kind does to the audit. It has what the
// file has, less one object or one kind that is named.
func TestLiveAnswers(t *testing.T) {
	sidecar := func(more string) string {
		return `{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": {"name": "mine", "namespace": "shop"}` + more + `}`
	}
	list := func(apiVersion, kind, items string) string {
		return `{"apiVersion": "` + apiVersion + `", "kind": "` + kind + `", "metadata": {}, "items": [` + items + `]}`
	}
	const networking = "networking.istio.io/v1"
	deep := strings.Repeat(`{"a":`, 1001) + "1" + strings.Repeat("}", 1001)
	tests := map[string]struct {
		resource string
		code     int
		answer   string
		after    string // of the second page; empty: there is none
		gap      string // empty: none
		sidecars int
	}{
		"the server's message": {"sidecars", 403, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "User \"eve\" cannot list sidecars"}`, "",
			`unread Sidecar: cannot list sidecars.networking.istio.io: forbidden: User "eve" cannot list sidecars; missing: scopes`, 0},
		"gone after a page": {"sidecars", 200, strings.Replace(list(networking, "SidecarList", sidecar("")), `"metadata": {}`, `"metadata": {"continue": "1"}`, 1),
			`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no more"}`,
			"unread Sidecar: cannot list sidecars.networking.istio.io: it is gone, after a part of it: no more; missing: scopes", 0},
		"unmodelled kind gone": {"httproutes", 404, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "no such thing"}`, "",
			"unread HTTPRoute: cannot list httproutes.gateway.networking.k8s.io: no such thing; missing: whether there is anything", 1},
		"webhooks gone": {"mutatingwebhookconfigurations", 404, "nginx", "",
			"unread MutatingWebhookConfiguration: cannot list mutatingwebhookconfigurations.admissionregistration.k8s.io: the server could not find the requested resource (get mutatingwebhookconfigurations); missing", 1},
		"another version of Kubernetes": {"ingresses", 200, list("extensions/v1beta1", "IngressList", ""), "",
			`unread Ingress: cannot list ingresses.networking.k8s.io: the answer is no IngressList of networking.k8s.io/v1 but "IngressList" of "extensions/v1beta1"`, 1},
		"another version of Istio": {"sidecars", 200, list("foo/v9", "SidecarList", ""), "",
			`unread Sidecar: cannot list sidecars.networking.istio.io: the answer is no SidecarList of networking.istio.io/v1 but "SidecarList" of "foo/v9"`, 0},
		"another list of what is not modelled": {"httproutes", 200, list("v1", "NodeList", `{"metadata": {"name": "n"}}`), "",
			`unread HTTPRoute: cannot list httproutes.gateway.networking.k8s.io: the answer is no HTTPRouteList of gateway.networking.k8s.io/v1beta1 but "NodeList" of "v1"`, 1},
		"null":              {"sidecars", 200, list(networking, "SidecarList", "null,"+sidecar("")), "", "unread Sidecar: cannot read it, as if it were not there: it has no name", 1},
		"null service":      {"ingresses", 200, list("networking.k8s.io/v1", "IngressList", "null"), "", "unread Ingress: cannot read it, as if it were not there: it has no name", 1},
		"another kind":      {"sidecars", 200, list(networking, "SidecarList", strings.Replace(sidecar(""), `"Sidecar"`, `"VirtualService"`, 1)), "", "unread Sidecar: cannot read it, as if it were not there: it stands in a list of Sidecar but is a VirtualService", 0},
		"no namespace":      {"sidecars", 200, list(networking, "SidecarList", `{"metadata": {"name": "a"}}`), "", "unread Sidecar: cannot read it, as if it were not there: it has no namespace", 0},
		"a strange status":  {"sidecars", 200, list(networking, "SidecarList", sidecar(`, "status": {"conditions": "x"}`)), "", "", 1},
		"nested deep":       {"sidecars", 200, list(networking, "SidecarList", sidecar(`, "spec": `+deep)), "", "unread Sidecar: cannot read it, as if it were not there: nested more than 1000 deep", 0},
		"not nested at all": {"sidecars", 200, list(networking, "SidecarList", sidecar(`, "spec": {"x": "`+strings.Repeat(`{[\"`, 2000)+`"}`)), "", "", 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := live(t, func(w http.ResponseWriter, r *http.Request, after int) bool {
				if !strings.HasSuffix(r.URL.Path, "/"+test.resource) {
					return false
				}
				code, text := test.code, test.answer
				if after > 0 {
					code, text = 404, test.after
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_, _ = w.Write([]byte(text))
				return true
			})
			got := gaps(s)
			if test.gap == "" && len(got) > 0 || test.gap != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.gap)) {
				t.Errorf("gaps:\n%s\nwant: %s", strings.Join(got, "\n"), test.gap)
			}
			if len(s.Sidecars) != test.sidecars {
				t.Errorf("%d Sidecars, want %d", len(s.Sidecars), test.sidecars)
			}
		})
	}
}

// An API server behind a proxy has a path in its address (Rancher's, for one).
func TestLivePath(t *testing.T) {
	server, _ := apistub.New(t, liveText(t))
	proxy := httptest.NewServer(http.StripPrefix("/k8s/clusters/c-1", server))
	defer proxy.Close()
	var stats result.APIStats
	s, err := load.Live(t.Context(), load.LiveOptions{Config: &rest.Config{Host: proxy.URL + "/k8s/clusters/c-1"}, QPS: 1000, Burst: 1000, Stats: &stats})
	if err != nil {
		t.Fatal(err)
	}
	if pods := podStats(stats); len(s.Pods) != 3 || pods.Requests != 1 || pods.Objects != 3 || pods.Bytes == 0 {
		t.Errorf("%d pods, %+v", len(s.Pods), pods)
	}
}

// What is not modelled is noted at whatever version it is served.
func TestLiveAnyVersion(t *testing.T) {
	_, config := apistub.New(t, strings.ReplaceAll(liveText(t), "gateway.networking.k8s.io/v1beta1\n", "gateway.networking.k8s.io/v7\n"))
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000})
	noted := func(m snapshot.Meta) bool { return m.Kind == "HTTPRoute.gateway.networking.k8s.io" && m.Name == "x" }
	if err != nil || !slices.ContainsFunc(s.Unmodelled, noted) {
		t.Errorf("%v %+v", err, s.Unmodelled)
	}
}

// Kinds that the cluster does not have are taken as none, and said.
func TestLiveNotInstalled(t *testing.T) {
	text := liveText(t)
	docs := strings.Split(text, "\n---\n")
	docs = slices.DeleteFunc(docs, func(d string) bool {
		return strings.Contains(d, "kind: WasmPlugin") || strings.Contains(d, "kind: HTTPRoute")
	})
	_, config := apistub.New(t, strings.Join(docs, "\n---\n"))
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"assumed WasmPlugin: WasmPlugin.extensions.istio.io is not installed in the cluster: taken as none; missing: Wasm filters"}
	if diff := cmp.Diff(want, gaps(s)); diff != "" {
		t.Error(diff)
	}
}

// An object that cannot be decoded is named and left out; the rest of its kind, of
// the pages before and after it, is read.
func TestLiveUndecodable(t *testing.T) {
	entry := func(name, resolution string) string {
		return "\n---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name + ", namespace: shop}\n" +
			"spec: {hosts: [" + name + ".example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: " + resolution + "}"
	}
	text := liveText(t)
	_, config := apistub.New(t, text)
	before, err := load.Live(t.Context(), load.LiveOptions{Config: config, PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, config = apistub.New(t, text+entry("a", "DNS")+entry("b", "OF_THE_FUTURE")+entry("c", "NONE")+entry("d", "STATIC")+entry("e", "-5"))
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, g := range s.Gaps {
		if g.Kind == result.Unread {
			told = append(told, g.Object.Kind+" "+g.Object.Namespace+"/"+g.Object.Name+": "+g.Text)
		}
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "ServiceEntry shop/b: cannot read it, as if it were not there: ") || !strings.Contains(told[0], "OF_THE_FUTURE") {
		t.Errorf("told %q", told)
	}
	if have, want := len(s.ServiceEntries), len(before.ServiceEntries)+4; have != want {
		t.Errorf("%d ServiceEntries, want %d", have, want)
	}
}

func TestLiveDeadline(t *testing.T) {
	server, config := apistub.New(t, liveText(t))
	server.Fail = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != "/api/v1/pods" {
			return false
		}
		<-r.Context().Done()
		return true
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	s, err := load.Live(ctx, load.LiveOptions{Config: config, QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if got := gaps(s); len(got) == 0 || !slices.ContainsFunc(got, func(g string) bool {
		return strings.HasPrefix(g, "unread Pod: cannot list pods: the deadline passed")
	}) {
		t.Errorf("gaps: %v", got)
	}
	if len(s.Services) != 2 || len(s.Pods) != 0 {
		t.Errorf("%d services and %d pods, want 2 and none", len(s.Services), len(s.Pods))
	}
}

func TestLiveCancelled(t *testing.T) {
	server, config := apistub.New(t, liveText(t))
	ctx, cancel := context.WithCancel(t.Context())
	server.Fail = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path == "/api/v1/pods" {
			cancel()
		}
		return false
	}
	if _, err := load.Live(ctx, load.LiveOptions{Config: config, QPS: 1000, Burst: 1000}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that it was cancelled", err)
	}
}

func TestLiveUnreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	_, err := load.Live(t.Context(), load.LiveOptions{Config: &rest.Config{Host: server.URL}})
	if err == nil || !strings.Contains(err.Error(), "cannot reach the cluster at "+server.URL) {
		t.Errorf("%v", err)
	}
}

// A credential plugin that waits for ever does not outlast the deadline.
func TestLiveCredentials(t *testing.T) {
	_, config := apistub.New(t, liveText(t))
	config.ExecProvider = &clientcmdapi.ExecConfig{
		Command: "sleep", Args: []string{"2"}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := load.Live(ctx, load.LiveOptions{Config: config})
	if err == nil || !strings.HasSuffix(err.Error(), `: the deadline passed (the kubeconfig's credential plugin "sleep" may be waiting for a login)`) {
		t.Errorf("%v", err)
	}
}

// What answers is no API server: there is an error, and no empty mesh.
func TestLiveStranger(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"not found": {http.NotFound, "the server could not find the requested resource"},
		"bad request": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Client sent an HTTP request to an HTTPS server.", http.StatusBadRequest)
		}, "the server rejected our request"},
		"a page":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>log in</html>")) }, "invalid character '<'"},
		"no kinds":  {func(w http.ResponseWriter, _ *http.Request) { apistub.Reply(w, map[string]any{}) }, "has no kinds"},
		"a timeout": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "no whole answer within --request-timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.answer)
			defer server.Close()
			s, err := load.Live(t.Context(), load.LiveOptions{Config: &rest.Config{Host: server.URL, Timeout: time.Second}})
			if s != nil || err == nil || !strings.Contains(err.Error(), "cannot reach the cluster at "+server.URL) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, want %q", err, test.says)
			}
		})
	}
}

func TestLiveOnlyNamespace(t *testing.T) {
	server, config := apistub.New(t, liveText(t))
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000, OnlyNamespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Partial != "shop" {
		t.Errorf("partial %q, want shop", s.Partial)
	}
	for _, n := range s.Namespaces {
		if n.Name != "shop" || n.Implied {
			t.Errorf("namespace %+v, want shop only, and read", n)
		}
	}
	for _, path := range server.Requests {
		if strings.Count(path, "/") > 3 && !strings.Contains(path, "/namespaces/shop") {
			t.Errorf("request for %s, outside of the namespace", path)
		}
	}
	for _, g := range s.Gaps {
		if g.Kind == result.Unread {
			t.Errorf("gap: %s", g.Text)
		}
	}
}

// Few objects over a last page come with the page before.
func TestLiveLastPage(t *testing.T) {
	for n, requests := range map[int]int{20: 2, 21: 2, 22: 3, 31: 3} {
		var docs []string
		for i := range n {
			docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s-%02d, namespace: shop}\nspec: {ports: [{port: 80}]}\n", i))
		}
		server, config := apistub.New(t, strings.Join(docs, "\n---\n"))
		s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000, PageSize: 10})
		if err != nil {
			t.Fatal(err)
		}
		lists := slices.DeleteFunc(server.Requests, func(path string) bool { return path != "/api/v1/services" })
		if len(s.Services) != n || len(lists) != requests {
			t.Errorf("%d services: %d read in %d requests, want %d", n, len(s.Services), len(lists), requests)
		}
	}
}
