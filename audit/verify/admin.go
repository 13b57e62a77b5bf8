package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// adminPort is that of Envoy's admin interface, which listens on localhost only.
const adminPort = 15000

// question is one request to Envoy's admin interface. Secrets are never asked for.
type question struct{ xdsType, query string }

var questions = []question{
	{"lds", "config_dump?resource=dynamic_listeners"},
	{"rds", "config_dump?resource=dynamic_route_configs"},
	{"cds", "config_dump?resource=dynamic_warming_clusters"},
	{"cds", "config_dump?resource=dynamic_active_clusters"},
	{"eds", "config_dump?include_eds&resource=dynamic_endpoint_configs"},
}

// Admin reads the config of running proxies from their Envoys, through the API
// server: by port-forward, or where that is not allowed by exec.
type Admin struct {
	config *rest.Config
	client rest.Interface
}

// NewAdmin makes the clients.
func NewAdmin(config *rest.Config) (*Admin, error) {
	core := rest.CopyConfig(config)
	core.APIPath, core.GroupVersion, core.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(core)
	if err != nil {
		return nil, fmt.Errorf("client for Kubernetes: %w", err)
	}
	return &Admin{config: config, client: client}, nil
}

// pod begins a request to a subresource of a pod.
func (a *Admin) pod(namespace, name, subresource string) *rest.Request {
	return a.client.Post().Resource("pods").Namespace(namespace).Name(name).SubResource(subresource)
}

// Read returns what the Envoy of a pod has. The error tells why neither way worked.
func (a *Admin) Read(ctx context.Context, namespace, pod string) (*Actual, error) {
	actual, forwarded := a.forward(ctx, namespace, pod)
	if forwarded == nil {
		return actual, nil
	}
	if ctx.Err() != nil {
		return nil, forwarded
	}
	actual, executed := a.exec(ctx, namespace, pod)
	if executed == nil {
		actual.note("read by exec, since port-forward failed: %s", oneLine(forwarded))
		return actual, nil
	}
	return nil, fmt.Errorf("port-forward to port %d of pod %s/%s: %s; exec: %s", adminPort, namespace, pod, oneLine(forwarded), oneLine(executed))
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// ask collects the answers to all questions.
func ask(from string, get func(query string) ([]byte, error)) (*Actual, error) {
	dump := NewDump(from)
	dump.parts = true
	dump.actual.NotTold["ecds"] = "extension configurations are not asked for"
	for _, q := range questions {
		text, err := get(q.query)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", q.query, err)
		}
		dump.actual.add(q.xdsType, nil)
		if err := dump.Add(text); err != nil {
			return nil, fmt.Errorf("%s: %w", q.query, err)
		}
	}
	dump.clusters = true
	return dump.Actual(), nil
}

// forward asks through a port-forward.
func (a *Admin) forward(ctx context.Context, namespace, pod string) (*Actual, error) {
	dialer, err := a.dialer(namespace, pod)
	if err != nil {
		return nil, err
	}
	ready, failed := make(chan struct{}), make(chan error, 1)
	refused := &lastError{}
	forwarding, stop := context.WithCancel(logr.NewContext(ctx, logr.New(refused)))
	defer stop()
	f, err := portforward.NewOnAddressesWithContext(forwarding, dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", adminPort)}, ready, io.Discard, io.Discard)
	if err != nil {
		return nil, err
	}
	go func() { failed <- f.ForwardPorts() }()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case err := <-failed:
		if err == nil {
			err = errors.New("the connection was closed")
		}
		return nil, err
	case <-ready:
	}
	ports, err := f.GetPorts()
	if err != nil {
		return nil, err
	}
	actual, err := ask(fmt.Sprintf("Envoy of %s/%s", namespace, pod), func(query string) ([]byte, error) {
		return get(ctx, fmt.Sprintf("http://127.0.0.1:%d/%s", ports[0].Local, query))
	})
	if err != nil {
		return nil, cmp.Or(refused.get(), err)
	}
	return actual, nil
}

// lastError keeps the last error that is logged: client-go only logs what the
// other end of a port-forward says.
type lastError struct {
	mu  sync.Mutex
	err error
}

func (l *lastError) get() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Error implements logr.LogSink, and so do the others.
func (l *lastError) Error(err error, _ string, _ ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (*lastError) Init(logr.RuntimeInfo)            {}
func (*lastError) Enabled(int) bool                 { return false }
func (*lastError) Info(int, string, ...any)         {}
func (l *lastError) WithValues(...any) logr.LogSink { return l }
func (l *lastError) WithName(string) logr.LogSink   { return l }

// dialer opens the connection by WebSocket, or by SPDY with older API servers.
func (a *Admin) dialer(namespace, pod string) (httpstream.Dialer, error) {
	url := a.pod(namespace, pod, "portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(a.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	socket, err := portforward.NewSPDYOverWebsocketDialer(url, a.config)
	if err != nil {
		return nil, err
	}
	return portforward.NewFallbackDialer(socket, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the proxy answers %s: %s", response.Status, bytes.TrimSpace(text[:min(len(text), 200)]))
	}
	return text, nil
}

// exec asks through the agent in the proxy's container.
func (a *Admin) exec(ctx context.Context, namespace, pod string) (*Actual, error) {
	return ask(fmt.Sprintf("Envoy of %s/%s by exec", namespace, pod), func(query string) ([]byte, error) {
		options := &corev1.PodExecOptions{Container: "istio-proxy", Command: []string{"pilot-agent", "request", "GET", query}, Stdout: true, Stderr: true}
		url := a.pod(namespace, pod, "exec").VersionedParams(options, scheme.ParameterCodec).URL()
		old, err := remotecommand.NewSPDYExecutor(a.config, http.MethodPost, url)
		if err != nil {
			return nil, err
		}
		socket, err := remotecommand.NewWebSocketExecutor(a.config, http.MethodGet, url.String())
		if err != nil {
			return nil, err
		}
		executor, err := remotecommand.NewFallbackExecutor(socket, old, func(err error) bool {
			return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
		})
		if err != nil {
			return nil, err
		}
		var out, said bytes.Buffer
		if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &said}); err != nil {
			return nil, fmt.Errorf("%w %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return out.Bytes(), nil
	})
}
