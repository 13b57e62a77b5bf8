package scope

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/mesh"
)

// keyMetadata are the node metadata values that change outbound config and
// have no field of their own in mesh.Metadata (FLAG-95).
var keyMetadata = []string{
	"CREDENTIAL", "CREDENTIAL_FILE", "DISABLE_HBONE_SEND", "DNS_PROXY_ADDR", "ENABLE_DNS_SERVER", "ENABLE_HBONE", "OUTBOUND_LISTENER_EXACT_BALANCE",
	"TLS_CLIENT_CERT_CHAIN", "TLS_CLIENT_KEY", "TLS_CLIENT_ROOT_CERT",
	"TLS_SERVER_CERT_CHAIN", "TLS_SERVER_KEY", "TLS_SERVER_ROOT_CERT",
}

// key is what decides a proxy's outbound sets and their bytes.
func (s *Scoper) key(p *mesh.Proxy, cfg *sidecarConfig, gateways *MergedGateway, in *imports) Key {
	k := Key{
		Revision: s.view.Revision, Kind: p.Kind, Namespace: p.Namespace, Labels: s.keys.labels(p), Gateways: gateways.Key(),
		Version: p.Version, Domain: p.Domain, Families: families(p), Network: p.Network, Cluster: p.Cluster,
		Features: s.features(p, in),
	}
	if cfg != nil {
		k.Sidecar = cfg.Namespace + "/" + cfg.Name
	}
	if s.keys.locality || in.localityDependent {
		k.Locality = p.Locality
	}
	return k
}

func families(p *mesh.Proxy) string {
	out := ""
	if p.IPv4 {
		out = "4"
	}
	if p.IPv6 {
		out += "6"
	}
	return out
}

// features is the node metadata and proxy config that change outbound config,
// canonical. Routers add what their listeners' tags say of the workload.
func (s *Scoper) features(p *mesh.Proxy, in *imports) string {
	var b strings.Builder
	add := func(values ...string) {
		for _, v := range values {
			if v != "" {
				b.WriteString(strconv.Quote(v))
			}
			b.WriteByte(';')
		}
	}
	m := &p.Metadata
	add(flag(m.DNSCapture)+flag(m.DNSAutoAllocate)+flag(m.HTTP10)+flag(m.Unprivileged),
		m.Interception, m.HTTPProxyPort, m.IdleTimeout, strings.Join(m.NetworkView, ","))
	for _, name := range s.keys.metadata {
		add(m.Raw[name])
	}
	add(s.keys.config(p.Config))
	if in.nodeDependent {
		add(p.Node)
	}
	if p.Kind == mesh.RouterProxy {
		add(p.CanonicalName, p.CanonicalRevision, p.MeshID, p.WorkloadName)
		add(p.TracingNames())
	}
	return b.String()
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// keyIndex is which labels and metadata anything in a view looks at.
type keyIndex struct {
	root        string
	byNamespace map[string][]map[string]string // selectors of rules for proxies of the namespace
	routers     map[string][]map[string]string // the same, of policies that only change routers outbound
	anywhere    []map[string]string            // sourceLabels of VirtualServices
	priorities  []string                       // label names of failoverPriority, sorted
	metadata    []string                       // names, sorted
	locality    bool                           // some load balancing looks at the proxy's locality
	configs     map[*meshconfig.ProxyConfig]string
}

func indexKeys(view *mesh.View) *keyIndex {
	x := &keyIndex{
		root: view.RootNamespace, byNamespace: map[string][]map[string]string{}, routers: map[string][]map[string]string{},
		configs: map[*meshconfig.ProxyConfig]string{},
	}
	names := map[string]bool{}
	for _, name := range keyMetadata {
		names[name] = true
	}
	for _, cfg := range view.EnvoyFilters {
		x.selecting(x.byNamespace, cfg.Namespace, envoyFilter{cfg.Spec})
		for _, patch := range cfg.Spec.GetConfigPatches() {
			for name := range patch.GetMatch().GetProxy().GetMetadata() {
				names[name] = true
			}
		}
	}
	x.metadata = slices.Sorted(maps.Keys(names))
	x.indexRoutes(view)
	x.indexBalancing(view)
	if policies := view.Policies; policies != nil {
		for _, cfg := range policies.Telemetries {
			x.selecting(x.byNamespace, cfg.Namespace, cfg.Spec)
		}
		for _, cfg := range policies.WasmPlugins {
			x.selecting(x.byNamespace, cfg.Namespace, cfg.Spec)
		}
		for _, cfg := range policies.AuthorizationPolicies {
			x.selecting(x.routers, cfg.Namespace, cfg.Spec)
		}
		for _, cfg := range policies.RequestAuthentications {
			x.selecting(x.routers, cfg.Namespace, cfg.Spec)
		}
	}
	return x
}

// selecting notes the labels that a policy selects by.
func (x *keyIndex) selecting(index map[string][]map[string]string, namespace string, policy targetable) {
	if len(targetRefs(policy)) > 0 {
		return
	}
	if labels := policy.GetSelector().GetMatchLabels(); len(labels) > 0 {
		index[namespace] = append(index[namespace], labels)
	}
}

// indexRoutes notes the sourceLabels that routes match.
func (x *keyIndex) indexRoutes(view *mesh.View) {
	note := func(labels map[string]string) {
		if len(labels) > 0 && !slices.ContainsFunc(x.anywhere, func(known map[string]string) bool { return maps.Equal(known, labels) }) {
			x.anywhere = append(x.anywhere, labels)
		}
	}
	for _, vs := range view.VirtualServices {
		for _, route := range vs.Spec.GetHttp() {
			for _, m := range route.GetMatch() {
				note(m.GetSourceLabels())
			}
		}
		for _, route := range vs.Spec.GetTls() {
			for _, m := range route.GetMatch() {
				note(m.GetSourceLabels())
			}
		}
		for _, route := range vs.Spec.GetTcp() {
			for _, m := range route.GetMatch() {
				note(m.GetSourceLabels())
			}
		}
	}
}

// labels are the pairs of a pod's labels that decide: those of every selector
// that selects it, and the values that failover priorities compare. Two pods
// with the same ones are selected alike.
func (x *keyIndex) labels(p *mesh.Proxy) string {
	pairs := map[string]bool{}
	note := func(selectors []map[string]string) {
		for _, labels := range selectors {
			if !p.Labels.Include(labels) {
				continue
			}
			for k, v := range labels {
				pairs[strconv.Quote(k)+"="+strconv.Quote(v)] = true
			}
		}
	}
	namespaces := []string{p.Namespace}
	if x.root != p.Namespace {
		namespaces = append(namespaces, x.root)
	}
	for _, ns := range namespaces {
		note(x.byNamespace[ns])
		if p.Kind == mesh.RouterProxy {
			note(x.routers[ns])
		}
	}
	note(x.anywhere)
	for _, name := range append([]string{gatewayNameLabel}, x.priorities...) {
		if v, ok := p.Labels.Lookup(name); ok {
			pairs[strconv.Quote(name)+"="+strconv.Quote(v)] = true
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(pairs)), ",")
}

// config is the part of a proxy config that outbound xDS is made from,
// serialised; empty: nothing set.
func (x *keyIndex) config(c *meshconfig.ProxyConfig) string {
	if c == nil {
		return ""
	}
	text, ok := x.configs[c]
	if !ok {
		part := &meshconfig.ProxyConfig{
			Tracing: c.GetTracing(), ProxyHeaders: c.GetProxyHeaders(), GatewayTopology: c.GetGatewayTopology(),
			ConnectionSettings: c.GetConnectionSettings(), ExtraStatTags: c.GetExtraStatTags(),
		}
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(part)
		if err == nil {
			text = string(raw)
		}
		x.configs[c] = text
	}
	return text
}
