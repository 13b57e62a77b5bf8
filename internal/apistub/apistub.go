// Package apistub is an API server for tests: it serves the objects of a YAML
// stream as lists in pages, and lets a test answer any request itself.
package apistub

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// Server answers discovery and paged lists of the objects that it was given,
// in JSON.
type Server struct {
	objects map[schema.GroupVersionResource][]map[string]any
	// Fail, if set, may answer a request itself; it then returns true. after
	// is how many objects of a list the pages before had.
	Fail func(w http.ResponseWriter, r *http.Request, after int) bool

	mu       sync.Mutex
	Requests []string        // paths, in order of arrival
	Agents   map[string]bool // user agents seen
}

var resources = map[string]struct {
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

// builtin are the kinds that every API server has, whether there are objects or not.
var builtin = map[schema.GroupVersionResource]string{
	{Version: "v1", Resource: "namespaces"}:                                                           "Namespace",
	{Version: "v1", Resource: "nodes"}:                                                                "Node",
	{Version: "v1", Resource: "services"}:                                                             "Service",
	{Version: "v1", Resource: "pods"}:                                                                 "Pod",
	{Version: "v1", Resource: "endpoints"}:                                                            "Endpoints",
	{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}:                            "EndpointSlice",
	{Group: "apps", Version: "v1", Resource: "deployments"}:                                           "Deployment",
	{Group: "apps", Version: "v1", Resource: "statefulsets"}:                                          "StatefulSet",
	{Group: "apps", Version: "v1", Resource: "daemonsets"}:                                            "DaemonSet",
	{Group: "apps", Version: "v1", Resource: "replicasets"}:                                           "ReplicaSet",
	{Group: "batch", Version: "v1", Resource: "jobs"}:                                                 "Job",
	{Group: "batch", Version: "v1", Resource: "cronjobs"}:                                             "CronJob",
	{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}: "MutatingWebhookConfiguration",
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}:                                "Ingress",
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses"}:                           "IngressClass",
}

// New serves the objects of a YAML stream, and every kind of Istio and
// Kubernetes that testdata/live.yaml has an object of.
func New(t testing.TB, text string) (*Server, *rest.Config) {
	t.Helper()
	s := &Server{objects: map[schema.GroupVersionResource][]map[string]any{}, Agents: map[string]bool{}}
	for gvr := range builtin {
		s.objects[gvr] = nil
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		gvk := schema.FromAPIVersionAndKind(o["apiVersion"].(string), o["kind"].(string))
		gvr := gvk.GroupVersion().WithResource(resources[gvk.Kind].resource)
		if gvr.Resource == "" {
			t.Fatalf("unknown kind %s", gvk.Kind)
		}
		s.objects[gvr] = append(s.objects[gvr], o)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, &rest.Config{Host: server.URL}
}

// ServeHTTP answers discovery, lists and gets.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.Requests = append(s.Requests, r.URL.Path)
	s.Agents[r.UserAgent()] = true
	s.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = slices.Concat([]string{"apis", ""}, parts[1:])
	}
	after, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	if s.Fail != nil && s.Fail(w, r, after) {
		return
	}
	switch {
	case len(parts) <= 2:
		s.groups(w, r.URL.Path)
	case len(parts) == 3:
		s.versions(w, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	default:
		s.list(w, r, parts, after)
	}
}

// Reply answers with a JSON document.
func Reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// Refuse answers with a Status, as an API server refuses.
func Refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
	return true
}

func (s *Server) groups(w http.ResponseWriter, path string) {
	if path == "/api" {
		Reply(w, metav1.APIVersions{Versions: []string{"v1"}})
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
	Reply(w, list)
}

func (s *Server) versions(w http.ResponseWriter, gv schema.GroupVersion) {
	list := metav1.APIResourceList{GroupVersion: gv.String()}
	for gvr := range s.objects {
		if gvr.GroupVersion() == gv {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: gvr.Resource, Verbs: metav1.Verbs{"list", "get"}})
		}
	}
	Reply(w, list)
}

// list answers a list, the page after as many objects as the continue token says, or a get.
func (s *Server) list(w http.ResponseWriter, r *http.Request, parts []string, after int) {
	gv, rest, namespace := schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:], ""
	if rest[0] == "namespaces" && len(rest) > 2 {
		namespace, rest = rest[1], rest[2:]
	}
	objects, ok := s.objects[gv.WithResource(rest[0])]
	if !ok {
		Refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
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
			Refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
			return
		}
		Reply(w, matching[0])
		return
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	start := min(after, len(matching))
	end := min(start+limit, len(matching))
	meta := map[string]any{"resourceVersion": "7"}
	if end < len(matching) {
		meta["continue"], meta["remainingItemCount"] = strconv.Itoa(end), len(matching)-end
	}
	kind := builtin[gv.WithResource(rest[0])] + "List"
	if len(objects) > 0 {
		kind = objects[0]["kind"].(string) + "List"
	}
	if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") {
		gv, kind = metav1.SchemeGroupVersion, "PartialObjectMetadataList"
	}
	Reply(w, map[string]any{"apiVersion": gv.String(), "kind": kind, "metadata": meta, "items": append([]map[string]any{}, matching[start:end]...)})
}
