package plugin_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mesh-audit/mesh-audit/internal/apistub"
	"github.com/mesh-audit/mesh-audit/plugin"
)

// onCluster runs the command against a stub of an API server that serves the
// completed demo mesh.
func onCluster(t *testing.T, fail func(http.ResponseWriter, *http.Request, int) bool, args ...string) (status int, stdout, stderr string, server *apistub.Server) {
	t.Helper()
	objects := strings.TrimPrefix(demoYAML(t), "---\n")
	server, config := apistub.New(t, strings.TrimSuffix(objects, "\n"))
	server.Fail = fail
	kubeconfig := filepath.Join(t.TempDir(), "config")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c"}},
		CurrentContext: "c",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	status, stdout, stderr = run(t, args...)
	return status, stdout, stderr, server
}

func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errs}
	status = plugin.Main(t.Context(), args, streams)
	return status, out.String(), errs.String()
}

// What cannot be written is status 3, whichever command writes it.
func TestFullDisk(t *testing.T) {
	for _, args := range []string{"scope --demo", "scope --demo -o json", "scope --demo -o yaml", "complete --demo", "snapshot --demo -o -", "version", "completion bash"} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: full, ErrOut: io.Discard}
		if status := plugin.Main(t.Context(), strings.Fields(args), streams); status != plugin.ExitUnread {
			t.Errorf("%s: exit status %d", args, status)
		}
		_ = full.Close()
	}
}

func demoYAML(t *testing.T) string {
	t.Helper()
	status, text, errs := run(t, "complete", "--demo")
	if status != plugin.ExitOK {
		t.Fatal(errs)
	}
	return text
}

// TestLiveEqualsFiles: the live mesh and its export give the same answer,
// sources and what is assumed apart.
func TestLiveEqualsFiles(t *testing.T) {
	status, live, errs, server := onCluster(t, nil, "scope")
	if status != plugin.ExitOK {
		t.Fatalf("exit status %d\n%s%s", status, live, errs)
	}
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	if err := os.WriteFile(file, []byte(demoYAML(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, files, _ := run(t, "scope", "-f", file)
	table := func(s string) string { text, _, _ := strings.Cut(s, "\nGAPS"); return text }
	if diff := cmp.Diff(table(files), table(live)); diff != "" {
		t.Errorf("-files +live:\n%s", diff)
	}
	for agent := range server.Agents {
		if !strings.HasPrefix(agent, "kubectl-mesh_audit/") {
			t.Errorf("user agent %q does not name the plugin", agent)
		}
	}
	for _, path := range server.Requests {
		if strings.Contains(path, "/secrets") {
			t.Errorf("asked for %s", path)
		}
	}
}

// TestLivePageFails: a list of which the second page fails counts as not read,
// never as shorter; the rest is reported, and the status is 3.
func TestLivePageFails(t *testing.T) {
	fail := func(w http.ResponseWriter, r *http.Request, after int) bool {
		if !strings.HasSuffix(r.URL.Path, "/services") {
			return false
		}
		if after == 0 {
			apistub.Reply(w, map[string]any{"apiVersion": "v1", "kind": "ServiceList", "metadata": map[string]any{"resourceVersion": "1", "continue": "1"}, "items": []any{}})
			return true
		}
		return apistub.Refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is gone")
	}
	status, out, _, _ := onCluster(t, fail, "scope")
	if status != plugin.ExitUnread {
		t.Errorf("exit status %d, want %d", status, plugin.ExitUnread)
	}
	for _, want := range []string{"unread", "Service", "etcd is gone", "PROXIES"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
}

// TestLiveForbidden: a kind that may not be listed is a gap, in JSON too.
func TestLiveForbidden(t *testing.T) {
	fail := func(w http.ResponseWriter, r *http.Request, _ int) bool {
		return strings.HasSuffix(r.URL.Path, "/sidecars") && apistub.Refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
	}
	status, out, _, _ := onCluster(t, fail, "scope", "-o", "json")
	if status != plugin.ExitUnread || !strings.Contains(out, `"kind": "unread"`) {
		t.Errorf("exit status %d\n%s", status, out)
	}
}

// TestLivePartial: --only-namespace is labelled.
func TestLivePartial(t *testing.T) {
	status, out, errs, server := onCluster(t, nil, "scope", "--only-namespace", "shop")
	if !strings.Contains(out, "PARTIAL: only namespace shop was read") {
		t.Errorf("exit status %d\n%s%s", status, out, errs)
	}
	for _, path := range server.Requests {
		if strings.HasSuffix(path, "/pods") && !strings.Contains(path, "/namespaces/shop/") {
			t.Errorf("asked for %s", path)
		}
	}
}

// TestLiveCompletion: pods and namespaces complete from the cluster, contexts from
// the kubeconfig.
func TestLiveCompletion(t *testing.T) {
	_, pods, _, _ := onCluster(t, nil, "__complete", "scope", "-n", "shop", "cart")
	if !strings.HasPrefix(pods, "cart-v1-") || strings.Contains(pods, "web-v1-") {
		t.Errorf("pods:\n%s", pods)
	}
	for _, flag := range []string{"-n", "--only-namespace"} {
		_, namespaces, _, _ := onCluster(t, nil, "__complete", "scope", flag, "")
		if !strings.Contains(namespaces, "billing\n") || !strings.Contains(namespaces, "shop\n") {
			t.Errorf("%s: namespaces:\n%s", flag, namespaces)
		}
	}
	for _, flag := range []string{"--context", "--cluster"} {
		if _, names, _, _ := onCluster(t, nil, "__complete", "diff", flag, ""); !strings.HasPrefix(names, "c\n:4") {
			t.Errorf("%s: %s", flag, names)
		}
	}
}
