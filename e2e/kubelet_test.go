package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// standInNode is the node that all pods are on.
const standInNode = "stand-in"

// kubelet stands in for a node's: it has no pods, and connects the streams that
// the API server opens for port-forward and exec to the Envoys that are given.
type kubelet struct {
	server *httptest.Server

	mu      sync.Mutex
	envoys  map[string]*envoy // by namespace/pod
	refuses bool              // connections to ports, as if nobody listened there
	streams []string          // that were opened: "portForward shop/cart-0"
}

func startKubelet() *kubelet {
	k := &kubelet{envoys: map[string]*envoy{}}
	routes := http.NewServeMux()
	routes.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		pod := k.note("portForward", r)
		portforward.ServePortForward(w, r, k, pod, "", nil, time.Minute, time.Minute, portforward.SupportedProtocols)
	})
	routes.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		pod := k.note("exec", r)
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, k, pod, "", r.PathValue("container"), r.URL.Query()["command"], options,
			time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	})
	k.server = httptest.NewTLSServer(routes)
	return k
}

func (k *kubelet) note(what string, r *http.Request) (pod string) {
	pod = r.PathValue("namespace") + "/" + r.PathValue("pod")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.streams = append(k.streams, what+" "+pod)
	return pod
}

// opened returns the streams that were opened since it was last called.
func (k *kubelet) opened() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := k.streams
	k.streams = nil
	return out
}

// run puts an Envoy into a pod; nil takes it out.
func (k *kubelet) run(pod string, e *envoy) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.envoys[pod] = e
}

// refuse makes port-forwards fail, or work again.
func (k *kubelet) refuse(yes bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refuses = yes
}

func (k *kubelet) in(pod string) (e *envoy, refuses bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.envoys[pod], k.refuses
}

// PortForward connects a stream to the port of a pod, as the container runtime
// does from within the pod.
func (k *kubelet) PortForward(ctx context.Context, pod, _ string, port int32, stream io.ReadWriteCloser) error {
	defer func() { _ = stream.Close() }()
	e, refuses := k.in(pod)
	if e == nil || refuses || port != 15000 {
		return fmt.Errorf("failed to connect to localhost:%d inside namespace of %s: connection refused", port, pod)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", e.server.Listener.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	done := make(chan error, 2)
	go func() { _, err := io.Copy(conn, stream); done <- err }()
	go func() { _, err := io.Copy(stream, conn); done <- err }()
	<-done
	return nil
}

// ExecInContainer does what pilot-agent request does in a proxy's container.
func (k *kubelet) ExecInContainer(ctx context.Context, pod, _, container string, command []string, _ io.Reader, out, errs io.WriteCloser,
	_ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	e, _ := k.in(pod)
	if e == nil || container != "istio-proxy" {
		return errors.New("no such container")
	}
	if len(command) != 4 || !slices.Equal(command[:3], []string{"pilot-agent", "request", "GET"}) {
		return fmt.Errorf("%q: no such file", command)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.server.URL+"/"+strings.TrimPrefix(command[3], "/"), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		fmt.Fprintln(errs, "received", response.Status)
		return errors.New("exit status 1")
	}
	_, err = io.Copy(out, response.Body)
	return err
}

// join makes the kubelet's node, which the API server reaches it by.
func (k *kubelet) join(ctx context.Context, c *cluster) error {
	nodes := c.kube.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: standInNode}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	at := k.server.Listener.Addr().(*net.TCPAddr)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.IP.String()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(at.Port)
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}
