package saved

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// mesh describes the whole file.
func (c *coder) mesh(m *Mesh) {
	s := m.Snapshot
	overrides(c, &s.Overrides)
	c.word(&s.Partial)
	list(c, &s.Gaps, gap)
	list(c, &m.Diagnostics, diagnostic)
	list(c, &s.Namespaces, func(c *coder, v *snapshot.Namespace) { meta(c, &v.Meta); c.bool(&v.Implied) })
	list(c, &s.Nodes, func(c *coder, v *snapshot.Node) { meta(c, &v.Meta) })
	list(c, &s.Services, func(c *coder, v *snapshot.Config[*corev1.ServiceSpec]) {
		meta(c, &v.Meta)
		optional(c, &v.Spec, func(c *coder, spec *corev1.ServiceSpec) { c.kubernetes(spec) })
	})
	balancers(c, &s.Balancers)
	list(c, &s.Slices, slice)
	list(c, &s.Pods, pod)
	list(c, &s.Workloads, workload)
	list(c, &s.ConfigMaps, func(c *coder, v *snapshot.ConfigMap) {
		meta(c, &v.Meta)
		c.set(&v.Data)
		if c.format >= 2 {
			c.int(&v.MeshLine)
			c.int(&v.NetworksLine)
		}
	})
	list(c, &s.Istiods, istiod)
	list(c, &s.Webhooks, webhook)
	list(c, &s.ServiceEntries, serviceEntry)
	list(c, &s.EnvoyFilters, func(c *coder, v *snapshot.EnvoyFilter) { config(c, &v.Config) })
	configs(c, &s.WorkloadEntries)
	configs(c, &s.WorkloadGroups)
	configs(c, &s.DestinationRules)
	configs(c, &s.VirtualServices)
	configs(c, &s.Gateways)
	configs(c, &s.Sidecars)
	configs(c, &s.ProxyConfigs)
	configs(c, &s.PeerAuthentications)
	configs(c, &s.RequestAuthentications)
	configs(c, &s.AuthorizationPolicies)
	configs(c, &s.Telemetries)
	configs(c, &s.WasmPlugins)
	truths(c, &s.Unhealthy)
	list(c, &s.Unmodelled, meta)
}

func meta(c *coder, m *snapshot.Meta) {
	c.word(&m.Kind)
	c.word(&m.Namespace)
	c.text(&m.Name)
	c.set(&m.Labels)
	c.set(&m.Annotations)
	c.int64(&m.Created)
	c.text(&m.ResourceVersion)
	source(c, &m.Source)
}

func source(c *coder, s *result.Source) {
	c.word(&s.File)
	c.int(&s.Line)
}

func ref(c *coder, r *result.Ref) {
	c.word(&r.Kind)
	c.word(&r.Namespace)
	c.text(&r.Name)
	source(c, &r.Source)
}

func gap(c *coder, g *result.Gap) {
	kind := string(g.Kind)
	c.word(&kind)
	g.Kind = result.GapKind(kind)
	ref(c, &g.Object)
	list(c, &g.Proxies, (*coder).text)
	c.bool(&g.All)
	c.text(&g.Text)
	if c.format >= 2 {
		c.bool(&g.Counted)
		c.text(&g.Side)
	}
}

func diagnostic(c *coder, d *result.Diagnostic) {
	source(c, &d.Source)
	ref(c, &d.Object)
	c.text(&d.Text)
	c.bool(&d.Kept)
	if c.format >= 2 {
		c.text(&d.Side)
	}
}

func overrides(c *coder, o *snapshot.Overrides) {
	c.word(&o.IstioVersion)
	c.text(&o.MeshConfigYAML)
	c.set(&o.Env)
	c.word(&o.Revision)
	c.int(&o.KeySetBytes)
	if c.format >= 2 {
		source(c, &o.MeshConfigFrom)
	}
}

// configs codes a list of one of Istio's kinds.
func configs[M any, S interface {
	*M
	proto.Message
}](c *coder, v *[]snapshot.Config[S]) {
	list(c, v, config[M, S])
}

func config[M any, S interface {
	*M
	proto.Message
}](c *coder, v *snapshot.Config[S]) {
	meta(c, &v.Meta)
	spec := (*M)(v.Spec)
	optional(c, &spec, func(c *coder, m *M) { c.proto(S(m)) })
	v.Spec = S(spec)
}

func serviceEntry(c *coder, v *snapshot.ServiceEntry) {
	config[networking.ServiceEntry](c, &v.Config)
	list(c, &v.Allocated, func(c *coder, a *snapshot.AllocatedAddress) { c.word(&a.Host); c.text(&a.Address) })
}

func truths(c *coder, v *map[string]bool) {
	var set map[string]string
	if *v != nil {
		set = map[string]string{}
	}
	for key := range *v {
		set[key] = ""
	}
	c.set(&set)
	if !c.reading() || set == nil {
		return
	}
	*v = map[string]bool{}
	for key := range set {
		(*v)[key] = true
	}
}

func balancers(c *coder, v *map[string][]string) {
	type entry struct {
		service   string
		addresses []string
	}
	var entries []entry
	if *v != nil {
		entries = []entry{}
	}
	for _, key := range slices.Sorted(maps.Keys(*v)) {
		entries = append(entries, entry{key, (*v)[key]})
	}
	list(c, &entries, func(c *coder, e *entry) {
		c.text(&e.service)
		list(c, &e.addresses, (*coder).text)
	})
	if !c.reading() || entries == nil {
		return
	}
	*v = map[string][]string{}
	for _, e := range entries {
		(*v)[e.service] = e.addresses
	}
}

func owner(c *coder, o *snapshot.OwnerRef) {
	c.word(&o.Kind)
	c.word(&o.Name)
}

func workload(c *coder, w *snapshot.Workload) {
	meta(c, &w.Meta)
	owner(c, &w.Owner)
	c.int(&w.Replicas)
	c.set(&w.PodLabels)
	optional(c, &w.Template, pod)
}

func variable(c *coder, e *snapshot.EnvVar) {
	c.word(&e.Name)
	c.word(&e.Value)
	c.word(&e.From)
}

func istiod(c *coder, i *snapshot.Istiod) {
	meta(c, &i.Meta)
	c.set(&i.PodLabels)
	c.word(&i.Image)
	list(c, &i.Args, (*coder).word)
	list(c, &i.Env, variable)
	c.int(&i.Replicas)
	c.kubernetes(&i.Resources)
}

func webhook(c *coder, w *snapshot.Webhook) {
	meta(c, &w.Meta)
	list(c, &w.Webhooks, func(c *coder, r *snapshot.WebhookRule) {
		c.text(&r.Name)
		optional(c, &r.NamespaceSelector, func(c *coder, s *metav1.LabelSelector) { c.kubernetes(s) })
		optional(c, &r.ObjectSelector, func(c *coder, s *metav1.LabelSelector) { c.kubernetes(s) })
		c.word(&r.ServiceNamespace)
		c.word(&r.ServiceName)
	})
}

func pod(c *coder, p *snapshot.Pod) {
	meta(c, &p.Meta)
	owner(c, &p.Owner)
	c.bool(&p.Generated)
	c.word(&p.Node)
	c.word(&p.ServiceAccount)
	list(c, &p.IPs, (*coder).text)
	c.word(&p.Phase)
	c.bool(&p.Ready)
	c.bool(&p.Terminating)
	c.bool(&p.HostNetwork)
	c.text(&p.Hostname)
	c.word(&p.Subdomain)
	shared(c, &p.Ports, func() []byte { return portsKey(p.Ports) }, ports)
	shared(c, &p.Proxy, func() []byte { return proxyKey(p.Proxy) }, func(c *coder, v **snapshot.ProxyContainer) { optional(c, v, proxy) })
	c.bool(&p.Assumed)
}

func ports(c *coder, v *[]snapshot.ContainerPort) {
	list(c, v, func(c *coder, p *snapshot.ContainerPort) {
		c.word(&p.Name)
		c.int(&p.Port)
		c.word(&p.Protocol)
		c.word(&p.Container)
	})
}

func proxy(c *coder, p *snapshot.ProxyContainer) {
	c.word(&p.Image)
	list(c, &p.Args, (*coder).word)
	list(c, &p.Env, variable)
	c.bool(&p.Native)
}

func slice(c *coder, s *snapshot.EndpointSlice) {
	meta(c, &s.Meta)
	c.word(&s.Service)
	c.word(&s.AddressType)
	c.bool(&s.Assumed)
	list(c, &s.Ports, func(c *coder, p *snapshot.SlicePort) {
		c.word(&p.Name)
		c.word(&p.Protocol)
		c.word(&p.AppProtocol)
		c.int(&p.Port)
	})
	list(c, &s.Endpoints, func(c *coder, e *snapshot.SliceEndpoint) {
		list(c, &e.Addresses, (*coder).text)
		c.flag(&e.Ready)
		c.flag(&e.Serving)
		c.flag(&e.Terminating)
		c.text(&e.Hostname)
		c.word(&e.Node)
		c.word(&e.Zone)
		c.word(&e.TargetKind)
		c.word(&e.TargetNamespace)
		c.text(&e.TargetName)
	})
}
