package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const pods = "/api/v1/pods"

// refuse answers with a Status of the API server.
func refuse(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}

// tooMany answers 429 as API Priority and Fairness does.
func tooMany(w http.ResponseWriter, level, schema string) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("X-Kubernetes-PF-PriorityLevel-UID", level)
	w.Header().Set("X-Kubernetes-PF-FlowSchema-UID", schema)
	refuse(w, http.StatusTooManyRequests, "TooManyRequests", "too many requests, please try again later")
}

// cutOff answers with the first half of what the API server says.
func cutOff(t testing.TB, w http.ResponseWriter, r *http.Request) {
	t.Helper()
	whole, plain := httptest.NewRecorder(), r.Clone(r.Context())
	plain.Header.Del("Accept-Encoding")
	passThrough(t, small).ServeHTTP(whole, plain)
	body := whole.Body.Bytes()
	w.Header().Set("Content-Type", whole.Header().Get("Content-Type"))
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body[:len(body)/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// TestFaults injects what goes wrong between the plugin and the API server.
// Where the answer can be had by asking again it is whole; else the kind is a
// gap that says why, all else is reported, and the status is 3.
func TestFaults(t *testing.T) {
	whole := mustAudit(t, small.kubeconfig, "scope", "-o", "json")
	proxies := decode(t, whole).Mesh.Proxies
	level, schema := aLevel(t, small)
	first := func(times int) func(*http.Request, int) bool {
		return func(_ *http.Request, n int) bool { return n < times }
	}
	reject := func(w http.ResponseWriter, _ *http.Request) { tooMany(w, level.uid, schema.uid) }
	expire := func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusGone, "Expired", "The provided continue parameter is too old")
	}
	cut := func(w http.ResponseWriter, r *http.Request) { cutOff(t, w, r) }
	for name, test := range map[string]struct {
		at     []string                          // paths of the requests; nil: the list of Pods
		answer http.HandlerFunc                  // to such a request, in place of the API server's
		when   func(r *http.Request, n int) bool // n counts these requests from 0; nil: always
		args   []string
		most   int    // requests for Pods
		gap    string // "": the answer is whole
	}{
		"429, then served": {answer: reject, when: first(2), most: 3},
		"429 for ever": {
			answer: reject, most: 11,
			gap: fmt.Sprintf("cannot list pods: rejected by the API server's priority level %s (FlowSchema %s), again and again; missing: the proxies", level.name, schema.name),
		},
		"the list expires once": {
			answer: expire, when: func(_ *http.Request, n int) bool { return n == 1 }, args: []string{"--chunk-size", "10"}, most: 5,
		},
		"the list expires again and again": {
			answer: expire, when: func(r *http.Request, _ int) bool { return r.URL.Query().Get("continue") != "" }, args: []string{"--chunk-size", "10"}, most: 4,
			gap: "cannot list pods: The provided continue parameter is too old; missing: the proxies",
		},
		"half an answer, once": {answer: cut, when: first(1), most: 2},
		"half an answer, always": {
			answer: cut, most: 2,
			gap: "cannot list pods: the answer broke off, twice; missing: the proxies",
		},
		"the connection is closed": {
			answer: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, most: 22,
			gap: "cannot list pods: ",
		},
		"the same page again and again": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"1"},"items":[]}`)
			}, most: 2,
			gap: "cannot list pods: the API server gives the same page again; missing: the proxies",
		},
		"discovery is forbidden": {
			at: []string{"/api", "/apis"}, most: 1,
			answer: func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, http.StatusForbidden, "Forbidden", "no")
			},
		},
		"an internal error": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, http.StatusInternalServerError, "InternalError", "etcdserver: request timed out")
			}, most: 1,
			gap: "cannot list pods: etcdserver: request timed out; missing: the proxies",
		},
		"a page of a portal": {
			answer: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte("<html>please log in</html>"))
			}, most: 2,
			gap: "cannot list pods: ",
		},
		"slow: --request-timeout": {
			answer: dribble, args: []string{"--request-timeout", "4s"}, most: 2,
			gap: "cannot list pods: no whole answer within --request-timeout; missing: the proxies",
		},
		"slow: --timeout": {
			answer: dribble, args: []string{"--timeout", "8s"}, most: 1,
			gap: "cannot list pods: the deadline passed; missing: the proxies",
		},
		"huge": {
			answer: flood, most: 1,
			gap: "cannot list pods: the answer is too large (more than 512 MB for a page of 500 objects; --chunk-size asks for smaller pages); missing: the proxies",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of them wait
			at := test.at
			if at == nil {
				at = []string{pods}
			}
			p := startProxy(t, small, func(w http.ResponseWriter, r *http.Request, n int) bool {
				if !slices.Contains(at, r.URL.Path) || test.when != nil && !test.when(r, n) {
					return false
				}
				test.answer(w, r)
				return true
			})
			o := audit(t, p.kubeconfig, append([]string{"scope", "-o", "json", "--api-stats"}, test.args...)...)
			r := decode(t, o)
			unread := r.unread()
			switch {
			case test.gap == "":
				if o.status != 0 || len(unread) > 0 || o.stdout != whole.stdout {
					t.Errorf("exit status %d, unread %q; the answer:\n%s", o.status, unread, firstDifference(whole.stdout, o.stdout))
				}
			case o.status != 3 || len(unread) == 0 || !containsPrefix(unread, test.gap):
				t.Errorf("exit status %d, unread %q, want %q", o.status, unread, test.gap)
			case r.Mesh.Services < 15:
				t.Errorf("%d services are left", r.Mesh.Services)
			}
			if got := p.of("/pods"); got > test.most {
				t.Errorf("%d requests for pods, want %d at the most", got, test.most)
			}
			if test.gap == "" && r.Mesh.Proxies != proxies {
				t.Errorf("%d proxies, want %d", r.Mesh.Proxies, proxies)
			}
			t.Logf("%s: %q", o.took.Round(time.Millisecond), unread)
		})
	}
}

func containsPrefix(list []string, prefix string) bool {
	for _, s := range list {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// dribble answers byte by byte for as long as the client waits.
func dribble(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	for {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
	}
}

// flood answers with more than any list has.
func flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	block := []byte(strings.Repeat(" ", 1<<20))
	for range 4096 {
		if _, err := w.Write(block); err != nil || r.Context().Err() != nil {
			return
		}
	}
}

// TestInterrupt: Ctrl-C ends the plugin at once, with nothing that could pass
// for an answer.
func TestInterrupt(t *testing.T) {
	asked := make(chan struct{}, 8)
	p := startProxy(t, small, func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		if r.URL.Path != pods {
			return false
		}
		asked <- struct{}{}
		<-r.Context().Done()
		return true
	})
	cmd := command(t, p.kubeconfig, "mesh-audit", "scope", "-o", "json")
	go func() {
		<-asked
		time.Sleep(200 * time.Millisecond)
		_ = cmd.Process.Signal(os.Signal(syscall.SIGINT))
	}()
	o := finish(t, cmd)
	if o.status != 3 || o.stdout != "" || !strings.Contains(o.stderr, "context canceled") {
		t.Errorf("exit status %d\nstdout: %s\nstderr: %s", o.status, o.stdout, o.stderr)
	}
	if o.took > 20*time.Second {
		t.Errorf("it took %s", o.took)
	}
}

// TestNoServer: nobody listens, or it is not an API server.
func TestNoServer(t *testing.T) {
	o := audit(t, writeKubeconfig(t, "http://127.0.0.1:1"), "scope")
	if o.status != 3 || !strings.Contains(o.stderr, "cannot reach the cluster at http://127.0.0.1:1") {
		t.Errorf("exit status %d: %s", o.status, o.stderr)
	}
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	o = audit(t, writeKubeconfig(t, stranger.URL), "scope")
	if o.status != 3 || o.stdout != "" || !strings.Contains(o.stderr, "cannot reach the cluster at "+stranger.URL) {
		t.Errorf("exit status %d: %s%s", o.status, o.stdout, o.stderr)
	}
}
