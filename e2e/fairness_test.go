package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

type named struct{ uid, name string }

// aLevel is a priority level of the API server, and one of its FlowSchemas.
func aLevel(t testing.TB, c *cluster) (level, schema named) {
	t.Helper()
	s, err := c.kube.FlowcontrolV1().FlowSchemas().Get(context.Background(), "service-accounts", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.kube.FlowcontrolV1().PriorityLevelConfigurations().Get(context.Background(), s.Spec.PriorityLevelConfiguration.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return named{string(l.UID), l.Name}, named{string(s.UID), s.Name}
}

// TestFairness: an API server that rejects in earnest, since the user's
// priority level has one seat and 20 others sit on it. What is rejected is
// asked for again; what is not served in the end is a gap that names the level.
func TestFairness(t *testing.T) {
	ctx := context.Background()
	kinds, config := shipped(t)
	rules := append(kinds.Rules, kinds.Rules[0])
	rules[len(rules)-1].APIGroups = []string{"flowcontrol.apiserver.k8s.io"}
	rules[len(rules)-1].Resources = []string{"flowschemas", "prioritylevelconfigurations"}
	kubeconfig := grant(t, small, "squeezed", rules, config.Rules, "")
	zero, one := int32(0), int32(1)
	level := &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mesh-audit-tiny"},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: &one, LendablePercent: &zero, BorrowingLimitPercent: &zero,
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}
	schema := &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: "mesh-audit-squeezed"},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: level.Name}, MatchingPrecedence: 2,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects:      []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "squeezed"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}}},
			}},
		},
	}
	if _, err := small.kube.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx, level, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := small.kube.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = small.kube.FlowcontrolV1().FlowSchemas().Delete(ctx, schema.Name, metav1.DeleteOptions{})
		_ = small.kube.FlowcontrolV1().PriorityLevelConfigurations().Delete(ctx, level.Name, metav1.DeleteOptions{})
	})
	stop := crowd(t, kubeconfig)
	time.AfterFunc(4*time.Second, stop)
	o := audit(t, kubeconfig, "scope", "-o", "json", "--api-stats")
	rejected := 0
	for _, m := range regexp.MustCompile(`priority level mesh-audit-tiny \(FlowSchema mesh-audit-squeezed\): served \d+, rejected (\d+)`).FindAllStringSubmatch(o.stderr, -1) {
		n, _ := strconv.Atoi(m[1])
		rejected += n
	}
	if rejected == 0 {
		t.Errorf("nothing was rejected, or not said:\n%s", o.stderr)
	}
	whole := mustAudit(t, small.kubeconfig, "scope", "-o", "json")
	unread := decode(t, o).unread()
	for _, text := range unread {
		if !strings.Contains(text, "priority level mesh-audit-tiny (FlowSchema mesh-audit-squeezed)") {
			t.Errorf("unread: %q", text)
		}
	}
	switch {
	case len(unread) == 0 && (o.status != 0 || o.stdout != whole.stdout):
		t.Errorf("exit status %d; the answer:\n%s", o.status, firstDifference(whole.stdout, o.stdout))
	case len(unread) > 0 && o.status != 3:
		t.Errorf("exit status %d with %d kinds unread", o.status, len(unread))
	}
	t.Logf("%d rejections, %d kinds unread, %s", rejected, len(unread), o.took)
}

// crowd lists Services as the user, 20 at a time, until it is stopped.
func crowd(t testing.TB, kubeconfig string) (stop func()) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = client.CoreV1().RESTClient().Get().Resource("pods").MaxRetries(0).Do(ctx).Raw()
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// TestAPIStats: --api-stats counts what a proxy beside it counts.
func TestAPIStats(t *testing.T) {
	p := startProxy(t, small, nil)
	o := mustAudit(t, p.kubeconfig, "scope", "-o", "json", "--api-stats", "--chunk-size", "10")
	if !json.Valid([]byte(o.stdout)) {
		t.Error("the statistics are in the report")
	}
	m := regexp.MustCompile(`(?m)^all +(\d+) `).FindStringSubmatch(o.stderr)
	if m == nil || m[1] != strconv.Itoa(len(p.requests())) {
		t.Errorf("the proxy counts %d requests:\n%s", len(p.requests()), o.stderr)
	}
	if got := regexp.MustCompile(`(?m)^pods +(\d+) +(\d+) +(\d+) `).FindStringSubmatch(o.stderr); got == nil || got[1] != strconv.Itoa(p.of("/pods")) || got[2] != got[1] {
		t.Errorf("pods: %q, the proxy counts %d:\n%s", got, p.of("/pods"), o.stderr)
	}
	if !strings.Contains(o.stderr, "priority level exempt (FlowSchema exempt): served ") {
		t.Errorf("no level is named:\n%s", o.stderr)
	}
}
