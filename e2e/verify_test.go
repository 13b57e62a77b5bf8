package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// istiod is a running pilot-discovery.
type istiod struct {
	xds  string // HOST:PORT of its plaintext ADS
	http string // of its HTTP interface
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// startIstiod runs istiod on the cluster until the test ends, and waits until
// it has read it all.
func startIstiod(t testing.TB, c *cluster, env ...string) *istiod {
	t.Helper()
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }
	i := &istiod{xds: address(), http: address()}
	cmd := exec.Command(bin("pilot-discovery"), "discovery", "--kubeconfig", c.kubeconfig,
		"--httpAddr", i.http, "--grpcAddr", i.xds, "--secureGRPCAddr", address(), "--httpsAddr", address(),
		"--monitoringAddr", address(), "--ctrlz_port", "0", "--log_output_level", "default:warn")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "POD_NAMESPACE=istio-system", "POD_NAME=istiod-0", "PILOT_CERT_PROVIDER=istiod", "ENABLE_CA_SERVER=true",
		"INJECTION_WEBHOOK_CONFIG_NAME=", "VALIDATION_WEBHOOK_CONFIG_NAME=", "CLUSTER_ID=Kubernetes")
	cmd.Env = append(cmd.Env, env...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	for begun := time.Now(); time.Since(begun) < 3*time.Minute; time.Sleep(200 * time.Millisecond) {
		select {
		case <-done:
			t.Fatalf("istiod ended:\n%s", said.String())
		default:
		}
		response, err := http.Get("http://" + i.http + "/ready")
		if err != nil {
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusOK {
			time.Sleep(2 * time.Second) // its debounced first pushes
			return i
		}
	}
	t.Fatalf("istiod does not get ready:\n%s", said.String())
	return nil
}

// verified is what of verify -o json the tests look at.
type verified struct {
	Totals struct {
		Proxies int `json:"proxies"`
		Equal   int `json:"equal"`
	} `json:"totals"`
	Proxies []struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Kind      string `json:"kind"`
		Actual    string `json:"actual"`
		Equal     bool   `json:"equal"`
		Unread    string `json:"unread"`
		Types     []struct {
			Type      string            `json:"type"`
			Actual    int               `json:"actual"`
			Missing   []string          `json:"missing"`
			Extra     []string          `json:"extra"`
			Differing []json.RawMessage `json:"differing"`
			Resized   []json.RawMessage `json:"resized"`
		} `json:"types"`
		Bytes struct {
			Predicted int64 `json:"predicted"`
			Actual    int64 `json:"actual"`
			Within    bool  `json:"within"`
		} `json:"bytes"`
	} `json:"proxies"`
}

func verify(t testing.TB, c *cluster, i *istiod, args ...string) (*verified, outcome) {
	t.Helper()
	o := audit(t, c.kubeconfig, append([]string{"verify", "--xds", i.xds, "-o", "json"}, args...)...)
	v := &verified{}
	if err := json.Unmarshal([]byte(o.stdout), v); err != nil {
		t.Fatalf("exit status %d: %v\n%s%s", o.status, err, o.stderr, o.stdout)
	}
	return v, o
}

// allEqual checks that every proxy is as predicted, its bytes too.
func allEqual(t testing.TB, v *verified, o outcome) {
	t.Helper()
	if o.status != 0 || v.Totals.Proxies < 20 || v.Totals.Equal != v.Totals.Proxies {
		t.Errorf("exit status %d, %d of %d proxies equal\n%s", o.status, v.Totals.Equal, v.Totals.Proxies, o.stderr)
	}
	exact, routers := 0, 0
	for _, p := range v.Proxies {
		if p.Kind == "router" {
			routers++
		}
		if p.Bytes.Predicted == p.Bytes.Actual && p.Bytes.Actual > 0 {
			exact++
		}
		if p.Equal {
			continue
		}
		text, _ := json.MarshalIndent(p, "", " ")
		t.Errorf("%s", text[:min(len(text), 4000)])
	}
	if routers == 0 {
		t.Error("no gateway is among them")
	}
	t.Logf("%d proxies in %s, bytes exact on %d", v.Totals.Proxies, o.took.Round(time.Millisecond), exact)
}

const rootSidecar = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: istio-system}
spec:
  egress:
  - hosts: ["./*", "istio-system/*"]
`

const behind = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: behind, namespace: shop}
spec:
  hosts: [behind.example]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 7777, name: tcp, protocol: TCP}]
`

// TestVerify: what a real istiod on the same API server sends is what is
// predicted, to every sidecar and gateway, with and without Sidecars.
func TestVerify(t *testing.T) {
	i := startIstiod(t, small)
	t.Run("as it is", func(t *testing.T) {
		v, o := verify(t, small, i)
		allEqual(t, v, o)
	})
	t.Run("a table", func(t *testing.T) {
		o := mustAudit(t, small.kubeconfig, "verify", "--xds", i.xds, "deploy/cart-v1", "-n", "shop")
		if !strings.Contains(o.stdout, "2 proxies: 2 equal, 0 differ") {
			t.Errorf("%s", o.stdout)
		}
		t.Logf("\n%s", o.stdout)
	})
	t.Run("changed behind its back", func(t *testing.T) {
		before := write(t, export(t, small.kubeconfig))
		change(t, small, behind)
		v, o := verify(t, small, i, "-f", before)
		if o.status != 1 {
			t.Errorf("exit status %d, want 1", o.status)
		}
		told := 0
		for _, p := range v.Proxies {
			for _, c := range p.Types {
				if len(c.Missing)+len(c.Differing)+len(c.Resized) > 0 {
					t.Errorf("%s/%s %s: missing %q, differing %s, resized %s", p.Namespace, p.Name, c.Type, c.Missing, c.Differing, c.Resized)
				}
				for _, name := range c.Extra {
					told++
					if !strings.Contains(name, "7777") {
						t.Errorf("%s/%s: %s %s is extra", p.Namespace, p.Name, c.Type, name)
					}
				}
			}
		}
		if told < v.Totals.Proxies {
			t.Errorf("%d extra resources of %d proxies", told, v.Totals.Proxies)
		}
		v, o = verify(t, small, i)
		allEqual(t, v, o)
	})
	t.Run("a Sidecar for all", func(t *testing.T) {
		change(t, small, rootSidecar)
		v, o := verify(t, small, i)
		allEqual(t, v, o)
	})
}

// change creates an object until the test ends, and gives istiod the time to see it.
func change(t testing.TB, c *cluster, text string) {
	t.Helper()
	if err := c.create(context.Background(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubectl(t, c.kubeconfig, "delete", "--wait=false", "-f", write(t, text))
		time.Sleep(3 * time.Second)
	})
	time.Sleep(3 * time.Second)
}

// TestVerifyFlags: an istiod that sends gateways only what their VirtualServices use.
func TestVerifyFlags(t *testing.T) {
	const flag = "PILOT_FILTER_GATEWAY_CLUSTER_CONFIG=true"
	i := startIstiod(t, small, flag)
	v, o := verify(t, small, i, "--set-env", flag)
	allEqual(t, v, o)
	// Without being told, the prediction for gateways has more.
	if v, o := verify(t, small, i); o.status != 1 || v.Totals.Equal == v.Totals.Proxies {
		t.Errorf("exit status %d, %d of %d equal", o.status, v.Totals.Equal, v.Totals.Proxies)
	}
}

// TestVerifyNoIstiod: nobody listens there.
func TestVerifyNoIstiod(t *testing.T) {
	o := audit(t, small.kubeconfig, "verify", "--xds", "127.0.0.1:1", "deploy/cart-v1", "-n", "shop")
	if o.status != 3 || !strings.Contains(o.stderr, "no istiod at 127.0.0.1:1: dial tcp") || o.stdout != "" {
		t.Errorf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
	}
}
