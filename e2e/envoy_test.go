package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
)

const typeURL = "type.googleapis.com/envoy."

const (
	clusterType  = typeURL + "config.cluster.v3.Cluster"
	endpointType = typeURL + "config.endpoint.v3.ClusterLoadAssignment"
	listenerType = typeURL + "config.listener.v3.Listener"
	routeType    = typeURL + "config.route.v3.RouteConfiguration"
)

// envoy stands in for a pod's proxy: it is connected to istiod as its agent
// would be, and its admin interface answers /config_dump?resource= with what
// istiod has sent to it. (Envoy source/server/admin/config_dump_handler.cc)
type envoy struct {
	istiod *istiod
	id     string // "cart-0.shop", as istiod's debug interface has it
	server *httptest.Server
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

	mu      sync.Mutex
	names   map[string][]string // that are subscribed to, by type
	answers map[string]int      // of istiod, by type
	asked   []string            // of the admin interface
}

// startEnvoy connects to istiod as the proxy of a pod until the test ends.
func startEnvoy(t testing.TB, i *istiod, pod *corev1.Pod) *envoy {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+i.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	e := &envoy{istiod: i, id: pod.Name + "." + pod.Namespace, names: map[string][]string{}, answers: map[string]int{}}
	if e.stream, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context()); err != nil {
		t.Fatal(err)
	}
	go e.receive()
	e.subscribe(t, clusterType, agent(t, pod))
	e.subscribe(t, listenerType, nil)
	dump := e.dump(t)
	for xdsType, names := range map[string][]string{endpointType: loadAssignments(dump), routeType: routeNames(dump)} {
		if len(names) > 0 {
			e.subscribe(t, xdsType, nil, names...)
		}
	}
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { e.admin(t, w, r) }))
	t.Cleanup(e.server.Close)
	return e
}

// agent is what the pod's agent tells istiod of the proxy (Istio pkg/bootstrap/config.go).
func agent(t testing.TB, pod *corev1.Pod) *corev3.Node {
	t.Helper()
	at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "istio-proxy" })
	if at < 0 {
		t.Fatalf("%s has no proxy", pod.Name)
	}
	proxy := &pod.Spec.Containers[at]
	labels := map[string]any{}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	about := map[string]any{
		"NAME": pod.Name, "NAMESPACE": pod.Namespace, "SERVICE_ACCOUNT": pod.Spec.ServiceAccountName,
		"INSTANCE_IPS": pod.Status.PodIP, "ISTIO_VERSION": "1.31.0", "LABELS": labels,
	}
	for _, v := range proxy.Env {
		if name, found := strings.CutPrefix(v.Name, "ISTIO_META_"); found {
			about[name] = v.Value
		}
	}
	metadata, err := structpb.NewStruct(about)
	if err != nil {
		t.Fatal(err)
	}
	id := []string{proxy.Args[1], pod.Status.PodIP, pod.Name + "." + pod.Namespace, pod.Namespace + ".svc.cluster.local"}
	return &corev3.Node{Id: strings.Join(id, "~"), Metadata: metadata}
}

// subscribe asks istiod for the names of a type, all if there are none, and
// waits for the answer.
func (e *envoy) subscribe(t testing.TB, xdsType string, node *corev3.Node, names ...string) {
	t.Helper()
	e.mu.Lock()
	e.names[xdsType] = names
	err := e.stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: xdsType, Node: node, ResourceNames: names})
	e.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "istiod's answer for "+xdsType, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.answers[xdsType] > 0
	})
}

// receive acknowledges what istiod sends, until the stream ends.
func (e *envoy) receive() {
	for {
		response, err := e.stream.Recv()
		if err != nil {
			return
		}
		e.mu.Lock()
		e.answers[response.GetTypeUrl()]++
		_ = e.stream.Send(&discoveryv3.DiscoveryRequest{
			TypeUrl: response.GetTypeUrl(), ResourceNames: e.names[response.GetTypeUrl()], VersionInfo: response.GetVersionInfo(), ResponseNonce: response.GetNonce(),
		})
		e.mu.Unlock()
	}
}

// configDump is istiod's account of what a proxy has, in the form of Envoy's /config_dump.
type configDump struct {
	Configs []map[string]json.RawMessage `json:"configs"`
}

// list is a field of the dump's entry of a type.
func (d *configDump) list(ofType, field string) (out []map[string]any) {
	for _, c := range d.Configs {
		if strings.Contains(string(c["@type"]), "."+ofType+`"`) && c[field] != nil {
			_ = json.Unmarshal(c[field], &out)
		}
	}
	return out
}

func (e *envoy) dump(t testing.TB) *configDump {
	response, err := http.Get("http://" + e.istiod.http + "/debug/config_dump?include_eds&proxyID=" + url.QueryEscape(e.id))
	if err != nil {
		t.Error(err)
		return &configDump{}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	out := &configDump{}
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("istiod's dump of %s: %s, %v\n%.300s", e.id, response.Status, err, text)
	}
	return out
}

// loadAssignments are the names that the clusters of a dump ask for.
func loadAssignments(d *configDump) (names []string) {
	for _, c := range d.list("ClustersConfigDump", "dynamicActiveClusters") {
		cluster, _ := c["cluster"].(map[string]any)
		if cluster["type"] != "EDS" {
			continue
		}
		eds, _ := cluster["edsClusterConfig"].(map[string]any)
		name, _ := eds["serviceName"].(string)
		if name == "" {
			name, _ = cluster["name"].(string)
		}
		names = append(names, name)
	}
	return names
}

// routeNames are the names that the listeners of a dump ask for.
func routeNames(d *configDump) (names []string) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if rds, ok := v["rds"].(map[string]any); ok {
				name, _ := rds["routeConfigName"].(string)
				names = append(names, name)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	for _, l := range d.list("ListenersConfigDump", "dynamicListeners") {
		walk(l)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// dumped are the fields of a config dump that may be asked for by ?resource=:
// the type of the entry, and of what the field has.
var dumped = map[string]struct{ entry, field, of string }{
	"dynamic_listeners":        {"ListenersConfigDump", "dynamicListeners", "DynamicListener"},
	"dynamic_route_configs":    {"RoutesConfigDump", "dynamicRouteConfigs", "DynamicRouteConfig"},
	"dynamic_active_clusters":  {"ClustersConfigDump", "dynamicActiveClusters", "DynamicCluster"},
	"dynamic_warming_clusters": {"ClustersConfigDump", "dynamicWarmingClusters", "DynamicCluster"},
	"dynamic_endpoint_configs": {"EndpointsConfigDump", "dynamicEndpointConfigs", "DynamicEndpointConfig"},
}

// admin answers a request to the admin interface.
func (e *envoy) admin(t testing.TB, w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.asked = append(e.asked, r.Method+" "+r.URL.String())
	e.mu.Unlock()
	name := r.URL.Query().Get("resource")
	what, known := dumped[name]
	if r.URL.Path != "/config_dump" || !known || what.entry == "EndpointsConfigDump" && !r.URL.Query().Has("include_eds") {
		http.Error(w, name+" not found in config dump", http.StatusNotFound)
		return
	}
	out := map[string]any{}
	if list := e.dump(t).list(what.entry, what.field); len(list) > 0 {
		for _, l := range list {
			l["@type"] = typeURL + "admin.v3." + what.entry + "." + what.of
		}
		out["configs"] = list
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// questions returns what the admin interface was asked since it was last called.
func (e *envoy) questions() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.asked
	e.asked = nil
	return out
}

// eventually waits until it is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	for begun := time.Now(); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal(fmt.Sprintf("waiting for %s", what))
		}
	}
}
