package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// shipped are the role for the kinds and the role for the mesh ConfigMap of
// deploy/rbac.yaml.
func shipped(t testing.TB) (kinds rbacv1.ClusterRole, config rbacv1.Role) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Split(string(text), "\n---\n")
	if err := yaml.UnmarshalStrict([]byte(docs[0]), &kinds); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(docs[1]), &config); err != nil {
		t.Fatal(err)
	}
	return kinds, config
}

// grant makes a user with the rules, in a namespace or (in is "") everywhere,
// and with those for the mesh ConfigMap, and returns its kubeconfig. Its rights
// go when the test ends.
func grant(t testing.TB, c *cluster, name string, kinds, config []rbacv1.PolicyRule, in string) string {
	t.Helper()
	kubeconfig, err := c.addUser(name)
	if err != nil {
		t.Fatal(err)
	}
	bind(t, c, name, name, kinds, in)
	if len(config) > 0 {
		bind(t, c, name, name+"-config", config, "istio-system")
	}
	return kubeconfig
}

// bind gives the rules to the user by a role of that name, until the test ends.
func bind(t testing.TB, c *cluster, user, name string, rules []rbacv1.PolicyRule, in string) {
	t.Helper()
	ctx := context.Background()
	about := metav1.ObjectMeta{Name: name}
	subjects := []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	_, err := c.kube.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: about, Rules: rules}, metav1.CreateOptions{})
	if err == nil && in != "" {
		_, err = c.kube.RbacV1().RoleBindings(in).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: about, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
	} else if err == nil {
		_, err = c.kube.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: about, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if in != "" {
			_ = c.kube.RbacV1().RoleBindings(in).Delete(ctx, name, metav1.DeleteOptions{})
		} else {
			_ = c.kube.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})
		}
		_ = c.kube.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})
	})
}

// TestRights: with deploy/rbac.yaml the plugin knows all that an administrator's does.
func TestRights(t *testing.T) {
	kinds, config := shipped(t)
	kubeconfig := grant(t, small, "just-enough", kinds.Rules, config.Rules, "")
	got := mustAudit(t, kubeconfig, "scope", "-o", "json", "--details")
	if unread := decode(t, got).unread(); len(unread) > 0 {
		t.Errorf("unread: %q", unread)
	}
	all := mustAudit(t, small.kubeconfig, "scope", "-o", "json", "--details")
	if got.stdout != all.stdout {
		t.Errorf("administrator against deploy/rbac.yaml:\n%s", firstDifference(all.stdout, got.stdout))
	}
}

// without returns the rules less one resource of one API group.
func without(rules []rbacv1.PolicyRule, group, resource string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		r := *r.DeepCopy()
		if slices.Contains(r.APIGroups, group) {
			r.Resources = slices.DeleteFunc(r.Resources, func(s string) bool { return s == resource })
		}
		if len(r.Resources) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// TestRightsTakenAway: without any one of its rights the plugin says what it
// does not know for it, reports the rest, and ends with status 3. So each right
// is needed, but for kinds that this cluster does not have.
func TestRightsTakenAway(t *testing.T) {
	kinds, config := shipped(t)
	served := servedResources(t, small)
	n := 0
	for _, rule := range kinds.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				n++
				name := strings.TrimSuffix(resource+"."+group, ".")
				if !served[name] {
					t.Logf("%s: not in this cluster", name)
					continue
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					kubeconfig := grant(t, small, "less-"+strings.ReplaceAll(name, ".", "-"), without(kinds.Rules, group, resource), config.Rules, "")
					o := audit(t, kubeconfig, "scope", "-o", "json")
					if o.status != 3 {
						t.Errorf("exit status %d, want 3\n%s", o.status, o.stderr)
					}
					r := decode(t, o)
					unread := r.unread()
					if len(unread) != 1 || !strings.HasPrefix(unread[0], "cannot list "+name+": forbidden: ") || !strings.Contains(unread[0], "; missing: ") {
						t.Errorf("unread: %q, want one gap that names %s and what is missing", unread, name)
					}
					if !strings.Contains(o.stderr, "cannot list "+name) {
						t.Errorf("stderr does not tell: %s", o.stderr)
					}
					if resource != "pods" && resource != "nodes" && r.Mesh.Proxies == 0 {
						t.Error("nothing is left of the answer")
					}
				})
			}
		}
	}
	if n < 30 {
		t.Errorf("%d rights: deploy/rbac.yaml was not read", n)
	}
	t.Run("mesh config", func(t *testing.T) {
		o := audit(t, grant(t, small, "no-config", kinds.Rules, nil, ""), "scope", "-o", "json")
		unread := decode(t, o).unread()
		if o.status != 3 || len(unread) != 1 || !strings.HasPrefix(unread[0], "cannot get ConfigMap istio-system/istio: forbidden: ") {
			t.Errorf("exit status %d, unread: %q", o.status, unread)
		}
	})
}

// servedResources are resource.group of all that the API server has.
func servedResources(t testing.TB, c *cluster) map[string]bool {
	t.Helper()
	lists, err := c.kube.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = ""
		}
		for _, r := range list.APIResources {
			out[strings.TrimSuffix(r.Name+"."+group, ".")] = true
		}
	}
	return out
}

// TestRightsInOneNamespace: who may read one namespace only gets an audit of
// it that is labelled partial.
func TestRightsInOneNamespace(t *testing.T) {
	kinds, _ := shipped(t)
	kubeconfig := grant(t, small, "shop-only", kinds.Rules, nil, "shop")
	o := mustAudit(t, kubeconfig, "scope", "-o", "json", "--only-namespace", "shop")
	r := decode(t, o)
	if r.Mesh.Partial != "shop" || r.Mesh.Proxies == 0 {
		t.Errorf("partial %q, %d proxies", r.Mesh.Partial, r.Mesh.Proxies)
	}
	if unread := r.unread(); len(unread) > 0 {
		t.Errorf("unread: %q", unread)
	}
	// Asking for the whole mesh shows a gap for each kind, and status 3.
	whole := audit(t, kubeconfig, "scope", "-o", "json")
	if unread := decode(t, whole).unread(); whole.status != 3 || len(unread) < 20 {
		t.Errorf("exit status %d, %d kinds unread", whole.status, len(unread))
	}
}
