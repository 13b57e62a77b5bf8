package mesh

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

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
	a := &assignment{views: m.Views, namespaces: m.Views[0].Namespaces, gaps: g}
	if m.Views[0].Istiod == nil {
		a.asked = m.Snapshot.Overrides.Revision
	}
	for i := range m.Snapshot.Pods {
		pod := &m.Snapshot.Pods[i]
		if pod.Proxy == nil || pod.Phase == "Failed" || pod.Phase == "Succeeded" {
			continue
		}
		if len(pod.IPs) == 0 {
			g.add(result.Gap{
				Kind: result.Unmodelled, Object: pod.Ref(), Proxies: []string{pod.Namespace + "/" + pod.Name},
				Text: "the pod has no address yet: its proxy is not counted",
			})
			continue
		}
		env := agentEnvironment(pod)
		kind, modelled := proxyKind(pod.Proxy.Args)
		if !modelled {
			g.add(result.Gap{
				Kind: result.Unmodelled, Object: pod.Ref(), Proxies: []string{pod.Namespace + "/" + pod.Name},
				Text: "proxies of kind " + kind + " are not modelled",
			})
			continue
		}
		view := a.viewFor(pod, env)
		if view == nil {
			continue
		}
		p := view.newProxy(pod, env)
		p.Kind = SidecarProxy
		if kind == result.Router {
			p.Kind = RouterProxy
		}
		p.Workload = workloadText(pod, workloads)
		view.readMetadata(p, env, g)
		view.Proxies = append(view.Proxies, p)
	}
	for _, view := range m.Views {
		slices.SortStableFunc(view.Proxies, func(a, b *Proxy) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		})
		view.serviceTargets(m.Snapshot)
	}
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
