package load

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

var (
	// errTooLarge ends the reading of an answer that would fill the memory.
	errTooLarge = errors.New("the answer is too large")
	// errBrokeOff is that the server did not send an answer to its end.
	errBrokeOff = errors.New("the answer broke off")
)

// Headers in which the API server tells what served or rejected a request
// (k8s.io/api/flowcontrol/v1).
const (
	flowSchemaHeader    = "X-Kubernetes-PF-FlowSchema-UID"
	priorityLevelHeader = "X-Kubernetes-PF-PriorityLevel-UID"
)

// flow is what the API server sorted a request into, by UIDs.
type flow struct{ level, schema string }

// meter stands between the clients and the API server. It counts what is asked
// for, and bounds what one answer may weigh.
type meter struct {
	root  string // path of the API server's address, of one behind a proxy
	most  int64  // bytes of one answer
	begun time.Time

	mu       sync.Mutex
	kinds    map[string]*result.APIKind
	seen     map[string]bool // URLs asked for
	served   map[flow]int
	rejected map[flow]int
	last     map[string]flow // by resource: what rejected it last
}

func newMeter(host string, most int64) *meter {
	root := ""
	if address, err := url.Parse(host); err == nil {
		root = strings.TrimSuffix(address.Path, "/")
	}
	return &meter{
		root: root, most: most, begun: time.Now(), kinds: map[string]*result.APIKind{}, seen: map[string]bool{},
		served: map[flow]int{}, rejected: map[flow]int{}, last: map[string]flow{},
	}
}

// wrap puts the meter before a transport.
func (m *meter) wrap(next http.RoundTripper) http.RoundTripper {
	return &metered{m, next}
}

// metered is a transport with a meter before it.
type metered struct {
	*meter
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (m *metered) RoundTrip(r *http.Request) (*http.Response, error) {
	resource := resourceOf(strings.TrimPrefix(r.URL.Path, m.root))
	m.ask(resource, r.URL.String())
	response, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	m.answered(resource, response)
	response.Body = &body{ReadCloser: response.Body, meter: m.meter, resource: resource, left: m.most}
	return response, nil
}

// WrappedRoundTripper implements the interface by which client-go finds the
// transport that it cancels requests of.
func (m *metered) WrappedRoundTripper() http.RoundTripper { return m.next }

// resourceOf reads resource.group from the path of a request; "" for discovery.
func resourceOf(path string) string {
	words := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	switch {
	case len(words) > 2 && words[0] == "api":
		words = words[2:]
	case len(words) > 3 && words[0] == "apis":
		group, words = words[1], words[3:]
	default:
		return ""
	}
	if words[0] == "namespaces" && len(words) > 2 {
		words = words[2:]
	}
	return liveResource(words[0], group)
}

func (m *meter) kind(resource string) *result.APIKind {
	k := m.kinds[resource]
	if k == nil {
		k = &result.APIKind{Resource: resource}
		m.kinds[resource] = k
	}
	return k
}

func (m *meter) ask(resource, url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kind(resource)
	k.Requests++
	if m.seen[url] {
		k.Retries++
	}
	m.seen[url] = true
}

func (m *meter) answered(resource string, response *http.Response) {
	f := flow{response.Header.Get(priorityLevelHeader), response.Header.Get(flowSchemaHeader)}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case response.StatusCode == http.StatusTooManyRequests:
		m.kind(resource).Rejected++
		m.rejected[f]++
		m.last[resource] = f
	case f != flow{}:
		m.served[f]++
	}
}

// page counts a page that came whole.
func (m *meter) page(resource string, objects int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kind(resource)
	k.Pages++
	k.Objects += objects
}

// rejectedBy tells what rejected a resource last; false if nothing did.
func (m *meter) rejectedBy(resource string) (flow, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.last[resource]
	return f, ok
}

// stats is the count so far, with the names of the levels; looking these up is
// counted too.
func (m *meter) stats(names func(flow) (level, schema string)) result.APIStats {
	m.mu.Lock()
	served, rejected := maps.Clone(m.served), maps.Clone(m.rejected)
	m.mu.Unlock()
	out := result.APIStats{Kinds: []result.APIKind{}}
	all := maps.Clone(served)
	maps.Copy(all, rejected)
	for f := range all {
		l := result.APILevel{Requests: served[f], Rejected: rejected[f]}
		l.PriorityLevel, l.FlowSchema = names(f)
		out.Levels = append(out.Levels, l)
	}
	slices.SortFunc(out.Levels, func(x, y result.APILevel) int {
		return strings.Compare(x.PriorityLevel+"\x00"+x.FlowSchema, y.PriorityLevel+"\x00"+y.FlowSchema)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, resource := range slices.Sorted(maps.Keys(m.kinds)) {
		out.Kinds = append(out.Kinds, *m.kinds[resource])
	}
	out.Milliseconds = time.Since(m.begun).Milliseconds()
	return out
}

// body counts and bounds an answer.
type body struct {
	io.ReadCloser
	meter    *meter
	resource string
	left     int64
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.meter.mu.Lock()
	b.meter.kind(b.resource).Bytes += int64(n)
	b.meter.mu.Unlock()
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("%w: more than %d MB", errTooLarge, b.meter.most/1_000_000)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errBrokeOff, err)
	}
	return n, err
}
