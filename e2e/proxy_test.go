package e2e

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// fault may answer a request itself; it then returns true. n counts the
// requests for the same path from 0.
type fault func(w http.ResponseWriter, r *http.Request, n int) bool

// request is what a proxy saw.
type request struct{ method, path, query, agent string }

// proxy stands between the plugin and the API server, as a cluster of its own
// kubeconfig. It counts what passes and injects a fault.
type proxy struct {
	kubeconfig string

	mu    sync.Mutex
	saw   []request
	times map[string]int
}

func startProxy(t testing.TB, c *cluster, f fault) *proxy {
	t.Helper()
	p := &proxy{times: map[string]int{}}
	through := passThrough(t, c)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := p.note(r)
		if f == nil || !f(w, r, n) {
			through.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	p.kubeconfig = writeKubeconfig(t, server.URL)
	return p
}

// passThrough sends requests on to the API server as its administrator.
func passThrough(t testing.TB, c *cluster) http.Handler {
	t.Helper()
	target, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	if target.Scheme == "" {
		target, _ = url.Parse("https://" + c.config.Host)
	}
	transport, err := rest.TransportFor(c.config)
	if err != nil {
		t.Fatal(err)
	}
	out := httputil.NewSingleHostReverseProxy(target)
	out.Transport = transport
	return out
}

func writeKubeconfig(t testing.TB, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server}}, CurrentContext: "c",
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
	}
	text, err := clientcmd.Write(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *proxy) note(r *http.Request) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saw = append(p.saw, request{r.Method, r.URL.Path, r.URL.RawQuery, r.UserAgent()})
	n := p.times[r.URL.Path]
	p.times[r.URL.Path]++
	return n
}

func (p *proxy) requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]request{}, p.saw...)
}

// of counts the requests for paths with the ending.
func (p *proxy) of(ending string) int {
	n := 0
	for _, r := range p.requests() {
		if strings.HasSuffix(r.path, ending) {
			n++
		}
	}
	return n
}
