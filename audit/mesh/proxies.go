package mesh

import (
	"cmp"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// proxies makes the proxies of all pods and gives each to its view.
func (m *Mesh) proxies(g *gaps) {
	workloads := map[podKey]snapshot.OwnerRef{}
	for i := range m.Snapshot.Workloads {
		if w := &m.Snapshot.Workloads[i]; w.Kind == "ReplicaSet" || w.Kind == "Job" {
			workloads[podKey{w.Namespace, w.Kind + "/" + w.Name}] = w.Owner
		}
	}
	var readers []*proxyReader
	var group sync.WaitGroup
	for _, pods := range chunks(m.Snapshot.Pods) {
		r := m.proxyReader(workloads)
		readers = append(readers, r)
		group.Go(func() { r.read(pods) })
	}
	group.Wait()
	for _, r := range readers {
		g.absorb(r.gaps)
	}
	for i, view := range m.Views {
		for _, r := range readers {
			view.Proxies = append(view.Proxies, r.proxies[i]...)
		}
		slices.SortStableFunc(view.Proxies, func(a, b *Proxy) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
		view.serviceTargets(m.Snapshot)
	}
}

// leastPods is how many pods are worth a processor of their own.
var leastPods = 10_000

// chunks cuts pods into one part for each processor.
func chunks(pods []snapshot.Pod) [][]snapshot.Pod {
	n := min(runtime.GOMAXPROCS(0), len(pods)/leastPods)
	return slices.Collect(slices.Chunk(pods, max(1, len(pods)/max(1, n)+1)))
}

// proxyReader makes the proxies of some pods. Several may read at the same time.
type proxyReader struct {
	assignment
	mesh      *Mesh
	workloads map[podKey]snapshot.OwnerRef
	proxies   [][]*Proxy        // of each view
	env       map[string]string // of the pod that is being read
}

func (m *Mesh) proxyReader(workloads map[podKey]snapshot.OwnerRef) *proxyReader {
	r := &proxyReader{mesh: m, workloads: workloads, proxies: make([][]*Proxy, len(m.Views)), env: map[string]string{}}
	r.namespaces, r.gaps = m.Views[0].Namespaces, newGaps()
	if m.Views[0].Istiod == nil {
		r.asked = m.Snapshot.Overrides.Revision
	}
	for _, view := range m.Views {
		own := *view
		work := *view.work
		work.proxyConfigs, work.places = map[string]*meshconfig.ProxyConfig{}, map[place]*topology{}
		own.work = &work
		r.views = append(r.views, &own)
	}
	return r
}

func (r *proxyReader) read(pods []snapshot.Pod) {
	for i := range pods {
		if pod := &pods[i]; pod.Proxy != nil && pod.Phase != "Failed" && pod.Phase != "Succeeded" {
			r.proxy(pod)
		}
	}
}

// proxy reads a pod's proxy, or notes why there is none.
func (r *proxyReader) proxy(pod *snapshot.Pod) {
	unmodelled := func(text string) {
		r.gaps.add(result.Gap{Kind: result.Unmodelled, Object: pod.Ref(), Proxies: []string{pod.Namespace + "/" + pod.Name}, Text: text})
	}
	if len(pod.IPs) == 0 {
		unmodelled("the pod has no address yet: its proxy is not counted")
		return
	}
	kind, modelled := proxyKind(pod.Proxy.Args)
	if !modelled {
		unmodelled("proxies of kind " + kind + " are not modelled")
		return
	}
	agentEnvironment(r.env, pod)
	view := r.viewFor(pod, r.env)
	if view == nil {
		return
	}
	p := view.newProxy(pod, r.env)
	if kind == result.Router {
		p.Kind = RouterProxy
	}
	p.Workload = workloadText(pod, r.workloads)
	view.readMetadata(p, r.env, r.gaps)
	i := slices.Index(r.views, view)
	p.View = r.mesh.Views[i]
	r.proxies[i] = append(r.proxies[i], p)
}

// proxyKind reads "proxy KIND" from the agent's arguments; a sidecar if it does
// not say.
func proxyKind(args []string) (kind string, modelled bool) {
	for i, arg := range args {
		if arg == "proxy" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			kind = args[i+1]
			return kind, kind == result.Sidecar || kind == result.Router
		}
	}
	return result.Sidecar, true
}

// newProxy fills what the pod itself tells (Istio pkg/bootstrap/config.go,
// pilot/pkg/model/context.go).
func (v *View) newProxy(pod *snapshot.Pod, env map[string]string) *Proxy {
	p := &Proxy{
		View: v, Pod: pod, Namespace: pod.Namespace, Name: pod.Name, ServiceAccount: pod.ServiceAccount,
		IPs:    proxyAddresses(pod, env),
		Domain: firstNonEmpty(expanded(argument(pod.Proxy.Args, "--domain"), env), pod.Namespace+".svc."+v.Domain),
	}
	for _, ip := range p.IPs {
		if address, err := netip.ParseAddr(ip); err == nil {
			p.IPv4 = p.IPv4 || address.Is4()
			p.IPv6 = p.IPv6 || address.Is6()
		}
	}
	for _, candidate := range []string{env["ISTIO_META_ISTIO_VERSION"], imageTag(pod.Proxy.Image)} {
		if version, ok := ParseVersion(candidate); ok {
			p.Version = version
			break
		}
	}
	if p.Version.IsZero() {
		p.Version = v.Version
	}
	return p
}

// proxyAddresses are the addresses that the agent reports, that of its
// environment first, each once.
func proxyAddresses(pod *snapshot.Pod, env map[string]string) []string {
	if own := env["INSTANCE_IP"]; len(pod.IPs) == 1 && (own == "" || own == pod.IPs[0]) && isCanonical(pod.IPs[0]) {
		return pod.IPs
	}
	var out []string
	for _, text := range append([]string{env["INSTANCE_IP"]}, pod.IPs...) {
		if address, err := netip.ParseAddr(text); err == nil && !slices.Contains(out, address.String()) {
			out = append(out, address.String())
		}
	}
	if len(out) == 0 {
		return pod.IPs
	}
	return out
}

// isCanonical reports that an address is written as it is printed.
func isCanonical(text string) bool {
	address, err := netip.ParseAddr(text)
	var buf [64]byte
	return err == nil && string(address.AppendTo(buf[:0])) == text
}

// workloadText is the pod's workload for people, "kind/name"; "" for a bare pod.
func workloadText(pod *snapshot.Pod, owners map[podKey]snapshot.OwnerRef) string {
	if pod.Owner.Kind == "" || pod.Owner.Kind == "Node" {
		return ""
	}
	if owner := owners[podKey{pod.Namespace, pod.Owner.Kind + "/" + pod.Owner.Name}]; owner.Kind != "" {
		return strings.ToLower(owner.Kind) + "/" + owner.Name
	}
	generated := *pod
	generated.Generated = true
	kind, name := WorkloadOf(&generated)
	return strings.ToLower(kind) + "/" + name
}
