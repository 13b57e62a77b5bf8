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
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// apiServer answers discovery and paged lists of the objects that it was given,
// in JSON.
type apiServer struct {
	objects map[schema.GroupVersionResource][]map[string]any
	// fail, if set, may answer a request itself.
	fail func(w http.ResponseWriter, r *http.Request, page int) bool

	mu       sync.Mutex
	requests []string
	agents   map[string]bool
}

var testResources = map[string]struct {
	resource   string
	namespaced bool
}{
	"Namespace": {"namespaces", false}, "Node": {"nodes", false}, "Service": {"services", true}, "Pod": {"pods", true}, "ConfigMap": {"configmaps", true},
	"Secret": {"secrets", true}, "EndpointSlice": {"endpointslices", true}, "Deployment": {"deployments", true}, "StatefulSet": {"statefulsets", true},
	"DaemonSet": {"daemonsets", true}, "ReplicaSet": {"replicasets", true}, "Job": {"jobs", true}, "CronJob": {"cronjobs", true},
	"MutatingWebhookConfiguration": {"mutatingwebhookconfigurations", false}, "Ingress": {"ingresses", true}, "IngressClass": {"ingressclasses", false},
	"ServiceEntry": {"serviceentries", true}, "WorkloadEntry": {"workloadentries", true}, "WorkloadGroup": {"workloadgroups", true},
	"DestinationRule": {"destinationrules", true}, "VirtualService": {"virtualservices", true}, "Gateway": {"gateways", true}, "Sidecar": {"sidecars", true},
	"EnvoyFilter": {"envoyfilters", true}, "ProxyConfig": {"proxyconfigs", true}, "PeerAuthentication": {"peerauthentications", true},
	"RequestAuthentication": {"requestauthentications", true}, "AuthorizationPolicy": {"authorizationpolicies", true}, "Telemetry": {"telemetries", true},
	"WasmPlugin": {"wasmplugins", true}, "HTTPRoute": {"httproutes", true},
}

// newAPIServer serves the objects of a YAML stream, and every kind of Istio and
// Kubernetes that testdata/live.yaml has an object of.
func newAPIServer(t *testing.T, text string) (*apiServer, *rest.Config) {
	t.Helper()
	s := &apiServer{objects: map[schema.GroupVersionResource][]map[string]any{}, agents: map[string]bool{}}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		gvk := schema.FromAPIVersionAndKind(o["apiVersion"].(string), o["kind"].(string))
		gvr := gvk.GroupVersion().WithResource(testResources[gvk.Kind].resource)
		if gvr.Resource == "" {
			t.Fatalf("unknown kind %s", gvk.Kind)
		}
		s.objects[gvr] = append(s.objects[gvr], o)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL}
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.URL.Path)
	s.agents[r.UserAgent()] = true
	s.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Concat([]string{"apis", ""}, parts[1:])
	}
	page, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if s.fail != nil && s.fail(w, r, page) {
		return
	}
	switch {
	case len(parts) <= 2:
		s.groups(w, r.URL.Path)
	case len(parts) == 3:
		s.resources(w, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		s.list(w, r, parts, page)
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	return true
}

func (s *apiServer) groups(w http.ResponseWriter, path string) {
	if path == "/api" {
		reply(w, metav1.APIVersions{Versions: []string{"v1"}})
		return
	}
	versions := map[string][]metav1.GroupVersionForDiscovery{}
	seen := map[schema.GroupVersion]bool{{Version: "v1"}: true}
	for gvr := range s.objects {
		if gv := gvr.GroupVersion(); !seen[gv] {
			seen[gv] = true
			versions[gv.Group] = append(versions[gv.Group], metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
		}
	}
	var list metav1.APIGroupList
	for group, v := range versions {
		list.Groups = append(list.Groups, metav1.APIGroup{Name: group, Versions: v, PreferredVersion: v[0]})
	}
	reply(w, list)
}

func (s *apiServer) resources(w http.ResponseWriter, gv schema.GroupVersion) {
	list := metav1.APIResourceList{GroupVersion: gv.String()}
	for gvr := range s.objects {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: gvr.Resource, Verbs: metav1.Verbs{"list", "get"}})
		}
	}
	reply(w, list)
}

// list answers a list, in pages that the continue token numbers, or a get.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request, parts []string, page int) {
	gv, rest, namespace := schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	objects, ok := s.objects[gv.WithResource(rest[0])]
	if !ok {
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	var matching []map[string]any
	for _, o := range objects {
		m := o["metadata"].(map[string]any)
		if namespace != "" && m["namespace"] != namespace || len(rest) > 1 && m["name"] != rest[1] {
			continue
		}
		matching = append(matching, o)
	}
	if len(rest) > 1 {
		if len(matching) == 0 {
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
			return
		}
		reply(w, matching[0])
		return
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	start := min(page*limit, len(matching))
	end := min(start+limit, len(matching))
	meta := map[string]any{"resourceVersion": "7"}
	if end < len(matching) {
		meta["continue"] = strconv.Itoa(page + 1)
	}
	kind := objects[0]["kind"].(string) + "List"
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		gv, kind = metav1.SchemeGroupVersion, "PartialObjectMetadataList"
	}
	reply(w, map[string]any{"apiVersion": gv.String(), "kind": kind, "metadata": meta, "items": matching[start:end]})
}

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
	server, config := newAPIServer(t, text)
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
	if diff := cmp.Diff(summary(r.Snapshot()), summary(got)); diff != "" {
		t.Error(diff)
	}
	if counts["pods"] != 3 {
		t.Errorf("progress: %v, want 3 pods", counts)
	}
	for _, path := range server.requests {
		if strings.Contains(path, "secrets") || strings.HasSuffix(path, "/configmaps") {
			t.Errorf("request for %s", path)
		}
	}
	if len(server.agents) != 1 || !server.agents["kubectl-mesh_audit/test"] {
		t.Errorf("user agents: %v", server.agents)
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
	server, config := newAPIServer(t, liveText(t))
	server.fail = fail
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
		"page 2": {func(w http.ResponseWriter, r *http.Request, page int) bool {
			return pods(r) && page == 1 && refuse(w, 500, metav1.StatusReasonInternalError, "etcd is away")
		}, 0, "unread Pod: cannot list pods: etcd is away; missing: the proxies"},
		"forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return pods(r) && refuse(w, 403, metav1.StatusReasonForbidden, `User "eve" cannot list pods`)
		}, 0, `unread Pod: cannot list pods: forbidden: User "eve" cannot list pods; missing: the proxies`},
		"not JSON": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if pods(r) {
				_, _ = w.Write([]byte("<html>"))
			}
			return pods(r)
		}, 0, "unread Pod: cannot list pods: "},
		"same page again": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			if pods(r) {
				reply(w, map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{"continue": "1"}, "items": []any{}})
			}
			return pods(r)
		}, 0, "unread Pod: cannot list pods: the API server gives the same page again"},
		"expired once": {func(w http.ResponseWriter, r *http.Request, page int) bool {
			if !pods(r) || page != 1 || expired {
				return false
			}
			expired = true
			return refuse(w, 410, metav1.StatusReasonExpired, "too old")
		}, 3, ""},
		"always expired": {func(w http.ResponseWriter, r *http.Request, page int) bool {
			return pods(r) && page == 1 && refuse(w, 410, metav1.StatusReasonExpired, "too old")
		}, 0, "unread Pod: cannot list pods: too old"},
		"kind gone": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return strings.HasSuffix(r.URL.Path, "/sidecars") && refuse(w, 404, metav1.StatusReasonNotFound, "no such thing")
		}, 3, "assumed Sidecar: Sidecar.networking.istio.io is not installed in the cluster: taken as none; missing: scopes"},
		"mesh config forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return strings.Contains(r.URL.Path, "/configmaps/") && refuse(w, 403, metav1.StatusReasonForbidden, "no")
		}, 3, "unread ConfigMap: cannot get ConfigMap istio-system/istio: forbidden: no; missing: mesh config"},
		"discovery forbidden": {func(w http.ResponseWriter, r *http.Request, _ int) bool {
			return (r.URL.Path == "/apis" || r.URL.Path == "/api") && refuse(w, 403, metav1.StatusReasonForbidden, "no")
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

// Kinds that the cluster does not have are taken as none, and said.
func TestLiveNotInstalled(t *testing.T) {
	text := liveText(t)
	docs := strings.Split(text, "\n---\n")
	docs = slices.DeleteFunc(docs, func(d string) bool {
		return strings.Contains(d, "kind: WasmPlugin") || strings.Contains(d, "kind: HTTPRoute")
	})
	_, config := newAPIServer(t, strings.Join(docs, "\n---\n"))
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"assumed WasmPlugin: WasmPlugin.extensions.istio.io is not installed in the cluster: taken as none; missing: Wasm filters"}
	if diff := cmp.Diff(want, gaps(s)); diff != "" {
		t.Error(diff)
	}
}

func TestLiveDeadline(t *testing.T) {
	server, config := newAPIServer(t, liveText(t))
	server.fail = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
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
	server, config := newAPIServer(t, liveText(t))
	ctx, cancel := context.WithCancel(t.Context())
	server.fail = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
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

func TestLiveOnlyNamespace(t *testing.T) {
	server, config := newAPIServer(t, liveText(t))
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
	for _, path := range server.requests {
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
