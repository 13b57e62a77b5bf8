package load_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/internal/apistub"
)

// tooMany answers as API Priority and Fairness does.
func tooMany(w http.ResponseWriter, retryAfter string) bool {
	w.Header().Set("Retry-After", retryAfter)
	w.Header().Set("X-Kubernetes-PF-PriorityLevel-UID", "uid-level")
	w.Header().Set("X-Kubernetes-PF-FlowSchema-UID", "uid-schema")
	return apistub.Refuse(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")
}

// flowNames answers for the names of priority levels and FlowSchemas.
func flowNames(w http.ResponseWriter, r *http.Request) bool {
	list := func(kind, name, uid string) bool {
		apistub.Reply(w, map[string]any{
			"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind + "List", "metadata": map[string]any{},
			"items": []any{map[string]any{"metadata": map[string]any{"name": name, "uid": uid}}},
		})
		return true
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/flowschemas"):
		return list("FlowSchema", "from-people", "uid-schema")
	case strings.HasSuffix(r.URL.Path, "/prioritylevelconfigurations"):
		return list("PriorityLevelConfiguration", "tiny", "uid-level")
	}
	return false
}

// faulty reads the cluster through a fault, and returns what was asked of it.
func faulty(t *testing.T, o load.LiveOptions, fail func(http.ResponseWriter, *http.Request, int) bool) (*snapshot.Snapshot, result.APIStats) {
	t.Helper()
	server, config := apistub.New(t, liveText(t))
	server.Fail = fail
	var stats result.APIStats
	o.Config, o.QPS, o.Burst, o.PageSize, o.Stats = config, 1000, 1000, 2, &stats
	s, err := load.Live(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, k := range stats.Kinds {
		asked += k.Requests
	}
	if n := len(server.Requests); asked != n {
		t.Errorf("%d requests counted, the server had %d", asked, n)
	}
	return s, stats
}

func podStats(stats result.APIStats) result.APIKind {
	for _, k := range stats.Kinds {
		if k.Resource == "pods" {
			return k
		}
	}
	return result.APIKind{}
}

// TestLiveRejected: a 429 is waited out as told and asked again; a server that
// rejects for ever is left alone after ten times, and named.
func TestLiveRejected(t *testing.T) {
	n := 0
	s, stats := faulty(t, load.LiveOptions{}, func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != "/api/v1/pods" {
			return flowNames(w, r)
		}
		n++
		return n <= 2 && tooMany(w, "0")
	})
	if got := gaps(s); len(s.Pods) != 3 || len(got) > 0 {
		t.Errorf("%d pods, gaps %q", len(s.Pods), got)
	}
	pods := podStats(stats)
	if pods.Requests != 4 || pods.Retries != 2 || pods.Rejected != 2 || pods.Pages != 2 || pods.Objects != 3 || pods.Bytes == 0 {
		t.Errorf("%+v, want 4 requests for 2 pages of 3 objects, 2 of them retries of what was rejected", pods)
	}
	if len(stats.Levels) != 1 || stats.Levels[0] != (result.APILevel{PriorityLevel: "tiny", FlowSchema: "from-people", Rejected: 2}) {
		t.Errorf("levels %+v", stats.Levels)
	}
}

func TestLiveRejectedForEver(t *testing.T) {
	for name, test := range map[string]struct {
		names bool
		gap   string
	}{
		"names":          {true, "unread Pod: cannot list pods: rejected by the API server's priority level tiny (FlowSchema from-people), again and again; missing: the proxies"},
		"names withheld": {false, "unread Pod: cannot list pods: rejected by the API server's priority level UID uid-level (FlowSchema UID uid-schema), again and again; missing: the proxies"},
	} {
		t.Run(name, func(t *testing.T) {
			s, stats := faulty(t, load.LiveOptions{}, func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if r.URL.Path == "/api/v1/pods" {
					return tooMany(w, "0")
				}
				if !test.names && strings.Contains(r.URL.Path, "flowcontrol") {
					return apistub.Refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, "no")
				}
				return flowNames(w, r)
			})
			got := gaps(s)
			if len(got) != 1 || !strings.HasPrefix(got[0], test.gap) {
				t.Errorf("gaps %q, want %q", got, test.gap)
			}
			if pods := podStats(stats); pods.Requests != 11 || pods.Pages != 0 {
				t.Errorf("%+v, want the first request and 10 more", pods)
			}
		})
	}
}

// TestLiveBroken: an answer that ends half way is asked for once more, and is
// never taken for a whole one.
func TestLiveBroken(t *testing.T) {
	for name, test := range map[string]struct {
		times, pods int
		gap         string
	}{
		"once":   {1, 3, ""},
		"always": {99, 0, "unread Pod: cannot list pods: the answer broke off, twice; missing: the proxies"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			s, stats := faulty(t, load.LiveOptions{}, func(w http.ResponseWriter, r *http.Request, after int) bool {
				if r.URL.Path != "/api/v1/pods" || after == 0 {
					return false
				}
				if n++; n > test.times {
					return false
				}
				w.Header().Set("Content-Length", "5000")
				_, _ = w.Write([]byte(`{"apiVersion": "v1", "kind": "PodList", "items": [`))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			got := gaps(s)
			if len(s.Pods) != test.pods || test.gap == "" && len(got) > 0 || test.gap != "" && (len(got) != 1 || !strings.HasPrefix(got[0], test.gap)) {
				t.Errorf("%d pods, gaps %q", len(s.Pods), got)
			}
			if pods := podStats(stats); pods.Requests != 3 || pods.Retries != 1 {
				t.Errorf("%+v, want 3 requests, one of them again", pods)
			}
		})
	}
}

// TestLiveHuge: an answer that would fill the memory is given up, at once.
func TestLiveHuge(t *testing.T) {
	s, stats := faulty(t, load.LiveOptions{MaxAnswer: 3_000_000}, func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != "/api/v1/pods" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		block := []byte(strings.Repeat(" ", 1<<20))
		for range 64 {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		return true
	})
	got := gaps(s)
	if len(got) != 1 || !strings.HasPrefix(got[0], "unread Pod: cannot list pods: the answer is too large (more than 3 MB for a page of 2 objects; --chunk-size asks for smaller pages)") {
		t.Errorf("gaps %q", got)
	}
	if pods := podStats(stats); pods.Requests != 1 || pods.Bytes > 4_000_000 {
		t.Errorf("%+v, want one request and little more than 3 MB", pods)
	}
}

// TestLiveRequestTimeout: one slow answer costs its kind, after --request-timeout.
func TestLiveRequestTimeout(t *testing.T) {
	server, config := apistub.New(t, liveText(t))
	server.Fail = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != "/api/v1/pods" {
			return false
		}
		<-r.Context().Done()
		return true
	}
	config.Timeout = time.Second
	s, err := load.Live(t.Context(), load.LiveOptions{Config: config, QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if got := gaps(s); len(got) != 1 || !strings.HasPrefix(got[0], "unread Pod: cannot list pods: no whole answer within --request-timeout; missing") {
		t.Errorf("gaps %q", got)
	}
}
