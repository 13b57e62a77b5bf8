package mesh

import (
	"maps"
	"strconv"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
	"github.com/mesh-audit/mesh-audit/audit/validation"
)

const (
	proxyConfigAnnotation  = "proxy.istio.io/config"
	interceptionAnnotation = "sidecar.istio.io/interceptionMode"
	discoveryAnnotation    = "sidecar.istio.io/discoveryAddress"
	statusPortAnnotation   = "status.sidecar.istio.io/port"
	metaPrefix             = "ISTIO_META_"
)

// readMetadata fills a proxy's ProxyConfig, node metadata and place, as its
// agent reports them and istiod completes them.
func (v *View) readMetadata(p *Proxy, env map[string]string, g *gaps) {
	p.Config = v.effectiveProxyConfig(p.Pod, env, g)
	raw := make(map[string]string, 8)
	for name, value := range p.Config.GetProxyMetadata() {
		if key, found := strings.CutPrefix(name, metaPrefix); found {
			raw[key] = value
		}
	}
	for name, value := range env {
		if key, found := strings.CutPrefix(name, metaPrefix); found {
			raw[key] = value
		}
	}
	p.Metadata = Metadata{
		DNSCapture: isTrue(raw["DNS_CAPTURE"]), DNSAutoAllocate: isTrue(raw["DNS_AUTO_ALLOCATE"]),
		Interception: v.interception(p, raw["INTERCEPTION_MODE"]), HTTPProxyPort: raw["HTTP_PROXY_PORT"],
		HTTP10: raw["HTTP10"] == "1", IdleTimeout: raw["IDLE_TIMEOUT"], Unprivileged: isTrue(raw["UNPRIVILEGED_POD"]),
		Raw: raw,
	}
	if views := raw["REQUESTED_NETWORK_VIEW"]; views != "" {
		p.Metadata.NetworkView = strings.Split(views, ",")
	}
	p.Network, p.Cluster, p.Node = raw["NETWORK"], firstNonEmpty(raw["CLUSTER_ID"], v.Cluster), raw["NODE_NAME"]
	p.MeshID = raw["MESH_ID"]
	p.WorkloadName = raw["WORKLOAD_NAME"]
	p.TrustDomain = firstNonEmpty(env["TRUST_DOMAIN"], v.Config.GetTrustDomain())
	v.place(p)
	p.CanonicalName, p.CanonicalRevision = CanonicalService(p.Labels, p.WorkloadName)
}

func isTrue(text string) bool {
	if text == "" {
		return false
	}
	b, err := strconv.ParseBool(text)
	return err == nil && b
}

// interception is the traffic interception mode; istiod takes what it does not
// know for REDIRECT.
func (v *View) interception(p *Proxy, written string) string {
	mode := written
	if mode == "" && p.Kind == SidecarProxy {
		mode = p.Pod.Annotations[interceptionAnnotation]
		if mode == "" {
			mode = p.Config.GetInterceptionMode().String()
		}
	}
	if mode == "NONE" || mode == "TPROXY" {
		return mode
	}
	return "REDIRECT"
}

// place sets labels and locality: those of the registry if istiod sees the pod,
// else those that the agent reports (Istio pilot/pkg/xds/ads.go setTopologyLabels).
func (v *View) place(p *Proxy) {
	var labels Labels
	if v.pods.byKey[podKey{p.Namespace, p.Name}] != nil {
		locality := v.podLocality(p.Pod)
		pod := v.podLabels(p.Pod, locality)
		network := pod.Get(networkLabel)
		if p.Node == p.Pod.Node && p.Cluster == v.Cluster && (p.Network == "" || network != "") {
			p.Labels, p.Locality = pod, v.localityOf(pod)
			return
		}
		labels = v.at(LabelsOf(p.Pod.Labels), place{v.Cluster, locality, p.Node, network})
	} else {
		own := maps.Clone(p.Pod.Labels)
		delete(own, "pod-template-hash")
		labels = LabelsOf(own)
	}
	p.Locality = v.localityOf(labels)
	p.Labels = v.at(labels, place{p.Cluster, p.Locality, p.Node, p.Network})
}

// localityOf is "region/zone/subzone" of topology labels, else of a locality
// label, without empty ends.
func (v *View) localityOf(labels Labels) string {
	region, zone, subzone := labels.Get(regionLabel), labels.Get(zoneLabel), labels.Get(subzoneLabel)
	if region == "" && zone == "" && subzone == "" {
		region, zone, subzone = splitLocality(v.labelledLocality(labels))
	}
	switch {
	case region == "" && zone == "" && subzone == "":
		return ""
	case zone == "" && subzone == "":
		return region
	case subzone == "":
		return region + "/" + zone
	}
	return region + "/" + zone + "/" + subzone
}

// effectiveProxyConfig is the ProxyConfig that the agent reports: what injection
// wrote, else the mesh default under the ProxyConfig resources; then the pod's
// annotations (Istio pilot/cmd/pilot-agent/config, pilot/pkg/model/proxy_config.go).
func (v *View) effectiveProxyConfig(pod *snapshot.Pod, env map[string]string, g *gaps) *meshconfig.ProxyConfig {
	text, annotation := env["PROXY_CONFIG"], pod.Annotations[proxyConfigAnnotation]
	key := strings.Join([]string{text, annotation, pod.Annotations[discoveryAnnotation], pod.Annotations[statusPortAnnotation]}, "\x00")
	if cfg := v.work.proxyConfigs[key]; cfg != nil {
		return cfg
	}
	var cfg *meshconfig.ProxyConfig
	shared := text != "" || len(v.Policies.ProxyConfigs) == 0
	apply := func(what, text string) {
		merged, refused := withProxyConfig(cfg, text, v.Version)
		if len(refused) == 0 {
			cfg = merged
			return
		}
		shared = false
		for _, p := range refused {
			g.forProxy(result.Gap{Kind: result.Unread, Object: pod.Ref(), Text: what + ": " + p.String() +
				"; the pod is not injected, or its agent does not start: predicted without"}, pod.Namespace+"/"+pod.Name)
		}
	}
	if text != "" {
		cfg = DefaultProxyConfig()
		apply("PROXY_CONFIG", text)
		apply("annotation "+proxyConfigAnnotation, annotation)
	} else {
		cfg = proto.CloneOf(v.Config.GetDefaultConfig())
		v.overlay(cfg, v.RootNamespace, nil)
		if pod.Namespace != v.RootNamespace {
			v.overlay(cfg, pod.Namespace, nil)
		}
		apply("annotation "+proxyConfigAnnotation, annotation)
		v.overlay(cfg, pod.Namespace, pod.Labels)
	}
	cfg = known(v.Version, cfg)
	if address := pod.Annotations[discoveryAnnotation]; address != "" {
		cfg.DiscoveryAddress = address
	}
	if port, err := strconv.ParseInt(pod.Annotations[statusPortAnnotation], 10, 32); err == nil {
		cfg.StatusPort = int32(port)
	}
	if shared {
		v.work.proxyConfigs[key] = cfg
	}
	return cfg
}

// withProxyConfig is base with a ProxyConfig's text on top, and what of it the
// injector and the agent refuse (Istio pkg/kube/inject/validate.go).
func withProxyConfig(base *meshconfig.ProxyConfig, text string, version Version) (*meshconfig.ProxyConfig, []validation.Problem) {
	raw, refused := yamlObject(text)
	if len(raw) == 0 {
		return base, refused
	}
	cfg := proto.CloneOf(base)
	if _, refused = mergeProxyConfig(raw, cfg, ""); len(refused) > 0 {
		return nil, refused
	}
	return cfg, validation.ProxyConfig(known(version, cfg))
}

// overlay applies the oldest ProxyConfig resource of a namespace that has no
// selector, or, given labels, whose selector matches them.
func (v *View) overlay(cfg *meshconfig.ProxyConfig, namespace string, labels map[string]string) {
	for _, written := range v.Policies.ProxyConfigs {
		if written.Namespace != namespace {
			continue
		}
		selector := written.Spec.GetSelector()
		if labels == nil && selector != nil ||
			labels != nil && !selects(selector.GetMatchLabels(), labels) {
			continue
		}
		if written.Spec.GetConcurrency() != nil {
			cfg.Concurrency = wrapperspb.Int32(written.Spec.GetConcurrency().GetValue())
		}
		if variables := written.Spec.GetEnvironmentVariables(); variables != nil {
			cfg.ProxyMetadata = joined(cfg.GetProxyMetadata(), variables)
		}
		if written.Spec.GetImage() != nil {
			cfg.Image = proto.CloneOf(written.Spec.GetImage())
		}
		return
	}
}
