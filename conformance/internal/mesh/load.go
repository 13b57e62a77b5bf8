package mesh

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"istio.io/api/label"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pkg/config"
	"istio.io/istio/pkg/config/mesh/labelselector"
	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/config/schema/resource"
	"istio.io/istio/pkg/kube"
)

// domain is the cluster's DNS suffix.
const domain = "cluster.local"

// Mesh is what one istiod reads of the input.
type Mesh struct {
	Istiod   Istiod
	Config   *meshconfig.MeshConfig
	Networks *meshconfig.MeshNetworks
	// Kube holds the objects that istiod reads with the Kubernetes client.
	Kube []runtime.Object
	// Configs holds the Istio configuration of its revision, of the
	// namespaces that it discovers.
	Configs []config.Config
	// Pods are all pods whose proxies connect to this istiod.
	Pods []*corev1.Pod
	// Warnings name objects that were left out or are doubtful.
	Warnings []string
}

// Options say how to load a mesh.
type Options struct {
	// Lenient takes configuration that istiod's webhook would refuse.
	Lenient bool
}

// Load reads what istiod d sees of the input.
func Load(objs []Object, d Istiod, opts Options) (*Mesh, error) {
	m := &Mesh{Istiod: d}
	var err error
	if m.Config, err = Config(objs, d); err != nil {
		return nil, err
	}
	if m.Networks, err = Networks(objs, d); err != nil {
		return nil, err
	}
	selected, err := selectedNamespaces(objs, m.Config)
	if err != nil {
		return nil, err
	}
	tags := Tags(objs)
	for _, o := range objs {
		if schema, ok := istioSchema(o); ok {
			if !selected(o.Namespace) || !config.LabelsInRevision(o.Labels, d.Revision) {
				continue
			}
			if err := m.addConfig(o, schema, opts); err != nil {
				return nil, err
			}
			continue
		}
		if err := m.addKube(o, tags); err != nil {
			return nil, err
		}
	}
	m.emulate(objs)
	m.selectPods(objs, tags)
	return m, nil
}

// istioSchema finds the schema of an object of Istio's own configuration.
func istioSchema(o Object) (resource.Schema, bool) {
	if !strings.HasSuffix(o.GVK().Group, "istio.io") {
		return nil, false
	}
	gvk := o.GVK()
	return collections.Pilot.FindByGroupVersionAliasesKind(resource.FromKubernetesGVK(&gvk))
}

// selectedNamespaces says which namespaces the discoverySelectors take. A
// namespace that is not in the input is not taken.
func selectedNamespaces(objs []Object, mc *meshconfig.MeshConfig) (func(string) bool, error) {
	if len(mc.DiscoverySelectors) == 0 {
		return func(string) bool { return true }, nil
	}
	taken := map[string]bool{}
	for _, s := range mc.DiscoverySelectors {
		sel, err := labelselector.LabelSelectorAsSelector(s)
		if err != nil {
			return nil, fmt.Errorf("discoverySelectors: %w", err)
		}
		for _, o := range objs {
			if o.Kind == "Namespace" && sel.Matches(labels.Set(o.Labels)) {
				taken[o.Name] = true
			}
		}
	}
	return func(ns string) bool { return taken[ns] }, nil
}

// assumedVersion is the resourceVersion of configuration that has none, as the
// project's completion assumes it: istiod sends that of a WasmPlugin.
const assumedVersion = "10000000"

// addConfig converts an object of Istio's configuration.
func (m *Mesh) addConfig(o Object, schema resource.Schema, opts Options) error {
	kind := &crd.IstioKind{}
	if err := json.Unmarshal(o.JSON, kind); err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	cfg, err := crd.ConvertObject(schema, kind, domain)
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	warning, err := schema.ValidateConfig(*cfg)
	if err != nil && !opts.Lenient {
		return fmt.Errorf("%s: refused by Istio's validation: %w", o, err)
	}
	for _, w := range []error{warning, err} {
		if w != nil {
			m.Warnings = append(m.Warnings, fmt.Sprintf("%s: %v", o, w))
		}
	}
	if cfg.ResourceVersion == "" {
		cfg.ResourceVersion = assumedVersion
	}
	m.Configs = append(m.Configs, *cfg)
	return nil
}

// addKube decodes an object for the Kubernetes client, if istiod reads its
// kind.
func (m *Mesh) addKube(o Object, tags map[string]string) error {
	if strings.HasSuffix(o.GVK().Group, "istio.io") || !kube.IstioScheme.Recognizes(o.GVK()) {
		m.Warnings = append(m.Warnings, fmt.Sprintf("%s: not read by istiod", o))
		return nil
	}
	raw := o.JSON
	if o.Kind == "Ingress" && m.Config.IngressControllerMode == meshconfig.MeshConfig_OFF {
		return nil
	}
	if o.GVK().Group == "gateway.networking.k8s.io" {
		if !m.inRevision(o, tags) {
			return nil
		}
		var err error
		if raw, err = editMeta(raw, dropRevision); err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	obj, _, err := kube.IstioCodec.UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	m.Kube = append(m.Kube, obj)
	return nil
}

// inRevision is whether istiod reads an object of the Gateway API: Gateways
// may name a tag of its revision, routes only the revision.
func (m *Mesh) inRevision(o Object, tags map[string]string) bool {
	lbls := o.Labels
	if tag := tags[lbls[label.IoIstioRev.Name]]; o.Kind == "Gateway" && tag != "" {
		lbls = map[string]string{label.IoIstioRev.Name: tag}
	}
	return config.LabelsInRevision(lbls, m.Istiod.Revision)
}

// dropRevision takes the revision label away: the server that the judge
// drives has no revision, what is not in it has been left out before.
func dropRevision(meta map[string]any) {
	if lbls, ok := meta["labels"].(map[string]any); ok {
		delete(lbls, label.IoIstioRev.Name)
	}
}

// selectPods finds the pods with proxies that connect to this istiod.
func (m *Mesh) selectPods(objs []Object, tags map[string]string) {
	all := Istiods(objs)
	namespaces := map[string]map[string]string{}
	for _, o := range objs {
		if o.Kind == "Namespace" {
			namespaces[o.Name] = o.Labels
		}
	}
	for _, obj := range m.Kube {
		pod, ok := obj.(*corev1.Pod)
		if !ok || ProxyContainer(pod) == nil || !connected(pod) {
			continue
		}
		if owner(pod, namespaces[pod.Namespace], all, tags) == m.Istiod.Revision {
			m.Pods = append(m.Pods, pod)
		}
	}
	sort.Slice(m.Pods, func(i, j int) bool {
		a, b := m.Pods[i], m.Pods[j]
		return a.Namespace+"/"+a.Name < b.Namespace+"/"+b.Name
	})
}

// connected is whether a pod can run a proxy that connects.
func connected(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// ProxyContainer finds the pod's Istio proxy.
func ProxyContainer(pod *corev1.Pod) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == "istio-proxy" {
				return &list[i]
			}
		}
	}
	return nil
}
