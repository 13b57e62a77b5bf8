package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var record = flag.String("record", "", "file to write a proxy's config dump to, after a change behind the prediction's back")

// questions are all that a proxy's admin interface may be asked: never for
// secrets, and never for a dump as a whole, which has them.
var questions = []string{
	"GET /config_dump?include_eds&resource=dynamic_endpoint_configs",
	"GET /config_dump?resource=dynamic_active_clusters",
	"GET /config_dump?resource=dynamic_listeners",
	"GET /config_dump?resource=dynamic_route_configs",
	"GET /config_dump?resource=dynamic_warming_clusters",
}

// verifyRules are the rules of deploy/rbac-verify.yaml.
func verifyRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "rbac-verify.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	role := rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(text, &role); err != nil {
		t.Fatal(err)
	}
	return role.Rules
}

// aPod is the first pod of a namespace with the label.
func aPod(t testing.TB, namespace, label string) *corev1.Pod {
	t.Helper()
	pods, err := small.kube.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: label})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("no pod %s in %s: %v", label, namespace, err)
	}
	return &pods.Items[0]
}

// TestVerifyLive asks Envoys through the real API server, as a user with no
// more rights than deploy/ gives.
func TestVerifyLive(t *testing.T) {
	i := startIstiod(t, small)
	kinds, config := shipped(t)
	sidecar, router := aPod(t, "shop", "app=cart"), aPod(t, "edge", "istio=egress")
	envoys := map[*corev1.Pod]*envoy{}
	for _, pod := range []*corev1.Pod{sidecar, router} {
		envoys[pod] = startEnvoy(t, i, pod)
		node.run(pod.Namespace+"/"+pod.Name, envoys[pod])
		t.Cleanup(func() { node.run(pod.Namespace+"/"+pod.Name, nil) })
	}
	// live verifies one proxy, and returns how it was asked too.
	live := func(t *testing.T, kubeconfig string, pod *corev1.Pod, args ...string) (*verified, outcome, []string) {
		t.Helper()
		node.opened()
		envoys[pod].questions()
		args = append([]string{"verify", "--live", "-o", "json", "-n", pod.Namespace, pod.Name}, args...)
		o := audit(t, kubeconfig, args...)
		v := &verified{}
		if err := json.Unmarshal([]byte(o.stdout), v); err != nil || len(v.Proxies) != 1 {
			t.Fatalf("exit status %d: %v\n%s%s", o.status, err, o.stderr, o.stdout)
		}
		asked := envoys[pod].questions()
		slices.Sort(asked)
		if v.Proxies[0].Unread == "" && !slices.Equal(asked, questions) {
			t.Errorf("the proxy was asked %q", asked)
		}
		return v, o, node.opened()
	}
	equal := func(t *testing.T, v *verified, o outcome) {
		t.Helper()
		if o.status != 0 || v.Totals.Equal != 1 {
			t.Errorf("exit status %d\n%s%s", o.status, o.stderr, o.stdout)
		}
	}
	forward, exec := "portForward shop/"+sidecar.Name, "exec shop/"+sidecar.Name
	user := func(t *testing.T, name string, rules []rbacv1.PolicyRule) string {
		return grant(t, small, name, append(slices.Clone(kinds.Rules), rules...), config.Rules, "")
	}

	t.Run("a sidecar and a gateway", func(t *testing.T) {
		kubeconfig := user(t, "verifier", verifyRules(t))
		for _, pod := range []*corev1.Pod{sidecar, router} {
			v, o, streams := live(t, kubeconfig, pod)
			equal(t, v, o)
			if want := []string{"portForward " + pod.Namespace + "/" + pod.Name}; !slices.Equal(streams, want) {
				t.Errorf("streams %q, want %q", streams, want)
			}
			for _, c := range v.Proxies[0].Types {
				t.Logf("%s: %s %d resources", pod.Name, c.Type, c.Actual)
			}
		}
	})
	for name, rules := range map[string][]rbacv1.PolicyRule{
		"get alone": onlyVerb(verifyRules(t), "get"), "create alone": onlyVerb(verifyRules(t), "create"), "neither right": nil,
	} {
		t.Run(name, func(t *testing.T) { // so each is needed
			v, o, streams := live(t, user(t, strings.ReplaceAll(name, " ", "-"), rules), sidecar)
			unread := v.Proxies[0].Unread
			if o.status != 3 || !strings.Contains(unread, "port-forward to port 15000 of pod shop/"+sidecar.Name) ||
				strings.Count(unread, "is forbidden:") != 2 || len(streams) > 0 {
				t.Errorf("exit status %d, unread %q, streams %q", o.status, unread, streams)
			}
		})
	}
	execRules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/exec"}, Verbs: []string{"get", "create"}}}
	t.Run("exec", func(t *testing.T) {
		v, o, streams := live(t, user(t, "executor", execRules), sidecar)
		equal(t, v, o)
		if !slices.Equal(slices.Compact(streams), []string{exec}) || !strings.Contains(v.Proxies[0].Actual, "by exec") {
			t.Errorf("streams %q, against %q", streams, v.Proxies[0].Actual)
		}
	})
	t.Run("exec where nobody listens", func(t *testing.T) {
		node.refuse(true)
		defer node.refuse(false)
		v, o, streams := live(t, user(t, "both", append(verifyRules(t), execRules...)), sidecar)
		equal(t, v, o)
		if !slices.Contains(streams, forward) || !slices.Contains(streams, exec) {
			t.Errorf("streams %q", streams)
		}
	})
	t.Run("changed behind its back", func(t *testing.T) {
		before := write(t, export(t, small.kubeconfig))
		change(t, small, behind)
		if *record != "" {
			text, err := json.MarshalIndent(envoys[sidecar].dump(t), "", "")
			if err == nil {
				err = os.WriteFile(*record, bytes.ReplaceAll(append(text, '\n'), []byte("10.97.0."), []byte("10.96.0.")), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		v, o, _ := live(t, small.kubeconfig, sidecar, "-f", before)
		if o.status != 1 {
			t.Errorf("exit status %d, want 1", o.status)
		}
		extra := 0
		for _, c := range v.Proxies[0].Types {
			if len(c.Missing)+len(c.Differing) > 0 {
				t.Errorf("%s: missing %q, differing %s", c.Type, c.Missing, c.Differing)
			}
			for _, name := range c.Extra {
				extra++
				if !strings.Contains(name, "7777") {
					t.Errorf("%s %s is extra", c.Type, name)
				}
			}
		}
		if extra == 0 {
			t.Error("nothing is extra")
		}
	})
	t.Run("no proxy", func(t *testing.T) { // a pod whose Envoy does not answer
		node.run("shop/"+sidecar.Name, nil)
		defer node.run("shop/"+sidecar.Name, envoys[sidecar])
		o := audit(t, small.kubeconfig, "verify", "--live", "-n", "shop", sidecar.Name)
		if o.status != 3 || !strings.Contains(o.stdout, "not read: port-forward to port 15000 of pod shop/"+sidecar.Name) ||
			!strings.Contains(o.stdout, "connection refused") || o.stderr != "" {
			t.Errorf("exit status %d\n%s%s", o.status, o.stdout, o.stderr)
		}
	})
}

// onlyVerb returns the rules with one verb.
func onlyVerb(rules []rbacv1.PolicyRule, verb string) (out []rbacv1.PolicyRule) {
	for _, r := range rules {
		if slices.Contains(r.Verbs, verb) {
			r.Verbs = []string{verb}
			out = append(out, r)
		}
	}
	return out
}
