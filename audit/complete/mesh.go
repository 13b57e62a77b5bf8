package complete

import (
	"cmp"
	"maps"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// DefaultVersion is the Istio version that is assumed when nothing tells it.
const DefaultVersion = "1.31.0"

// meshFacts are the few facts of the mesh that completion needs.
type meshFacts struct {
	version      string            // of the first istiod, or given
	versions     map[string]string // by revision, where several istiods tell them
	root         string
	trustDomain  string
	id           string
	cluster      string // of istiod, which injection writes into its proxies
	autoAllocate bool
	defaults     map[string]any    // meshConfig.defaultConfig
	tags         map[string]string // tag → revision
}

// findMesh reads them from the istiod Deployments, the mesh ConfigMaps and the
// webhooks. With several revisions the first by name decides what is shared.
func findMesh(r *load.Result, o snapshot.Overrides) meshFacts {
	f := meshFacts{version: o.IstioVersion, versions: map[string]string{}, tags: map[string]string{}}
	var istiod *appsv1.Deployment
	var config *corev1.ConfigMap
	for _, obj := range r.Objects {
		switch d := obj.Obj.(type) {
		case *appsv1.Deployment:
			pilot := snapshot.DiscoveryContainer(d)
			if pilot == nil {
				continue
			}
			rev := cmp.Or(environment(pilot)["REVISION"], d.Spec.Template.Labels[labelRevision], d.Labels[labelRevision], "default")
			if version := pilotVersion(pilot); o.IstioVersion == "" && version != "" {
				f.versions[rev] = version
			}
			if istiod == nil || d.Name < istiod.Name {
				istiod = d
			}
		case *corev1.ConfigMap:
			if (d.Name == "istio" || strings.HasPrefix(d.Name, "istio-")) && d.Data["mesh"] != "" && (config == nil || d.Name < config.Name) {
				config = d
			}
		case *admissionv1.MutatingWebhookConfiguration:
			if tag, rev := d.Labels["istio.io/tag"], d.Labels[labelRevision]; tag != "" && rev != "" {
				f.tags[tag] = rev
			}
		}
	}
	env := map[string]string{}
	if istiod != nil {
		pilot := snapshot.DiscoveryContainer(istiod)
		env = environment(pilot)
		f.version = cmp.Or(f.version, pilotVersion(pilot))
	}
	for k, v := range o.Env {
		env[k] = v
	}
	f.version = cmp.Or(f.version, DefaultVersion)
	f.cluster = cmp.Or(env["CLUSTER_ID"], "Kubernetes")
	f.autoAllocate = autoAllocates(f.version, env["PILOT_ENABLE_IP_AUTOALLOCATE"])
	text := o.MeshConfigYAML
	if config != nil && text == "" {
		text = config.Data["mesh"]
	}
	if istiod != nil {
		f.readConfig(sharedConfig(r, istiod.Namespace, env["SHARED_MESH_CONFIG"]))
	}
	f.readConfig(text)
	f.root = cmp.Or(f.root, "istio-system")
	f.trustDomain = cmp.Or(f.trustDomain, "cluster.local")
	return f
}

// sharedConfig is the mesh config that an istiod of the namespace shares with
// others, in a ConfigMap of that name; empty: none.
func sharedConfig(r *load.Result, namespace, name string) string {
	text := ""
	for _, obj := range r.Objects {
		if cm, ok := obj.Obj.(*corev1.ConfigMap); ok && name != "" && cm.Namespace == namespace && cm.Name == name {
			text = cm.Data["mesh"]
		}
	}
	return text
}

// environment is what a container's variables are set to.
func environment(k *corev1.Container) map[string]string {
	env := map[string]string{}
	for _, e := range k.Env {
		env[e.Name] = e.Value
	}
	return env
}

// pilotVersion is the version that the tag of an istiod's image tells; empty if none.
func pilotVersion(pilot *corev1.Container) string {
	image, _, _ := strings.Cut(pilot.Image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	return strings.TrimSuffix(strings.TrimSuffix(tag, "-distroless"), "-debug")
}

// versionOf is the version of the revision's istiod.
func (f *meshFacts) versionOf(revision string) string {
	return cmp.Or(f.versions[revision], f.version)
}

// autoAllocates: the allocating controller is on by default from 1.25 (FLAG-7).
func autoAllocates(version, flag string) bool {
	switch flag {
	case "true":
		return true
	case "false":
		return false
	}
	return !strings.HasPrefix(version, "1.24.") && version != "1.24"
}

// readConfig takes what it needs of a mesh config, over those read before. What
// is wrong with the text is told where the model reads it.
func (f *meshFacts) readConfig(text string) {
	var config struct {
		RootNamespace string         `json:"rootNamespace"`
		TrustDomain   string         `json:"trustDomain"`
		DefaultConfig map[string]any `json:"defaultConfig"`
	}
	_ = yaml.Unmarshal([]byte(text), &config)
	f.root = cmp.Or(config.RootNamespace, f.root)
	f.trustDomain = cmp.Or(config.TrustDomain, f.trustDomain)
	f.defaults = mergeProxyConfig(f.defaults, config.DefaultConfig)
	f.id, _ = f.defaults["meshId"].(string)
}

// resolve turns a tag into its revision.
func (f *meshFacts) resolve(revision string) string {
	return cmp.Or(f.tags[revision], revision)
}

// proxyConfig is the pod's ProxyConfig as injection writes it: the mesh's
// default with the annotation on top.
func (f *meshFacts) proxyConfig(annotation string) map[string]any {
	var own map[string]any
	_ = yaml.Unmarshal([]byte(annotation), &own)
	return mergeProxyConfig(f.defaults, own)
}

// mergeProxyConfig puts a ProxyConfig on top of another, field by field, and
// what these two fields hold key by key (Istio pkg/config/mesh/mesh.go).
func mergeProxyConfig(base, top map[string]any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, base)
	maps.Copy(out, top)
	for _, field := range []string{"proxyMetadata", "proxyHeaders"} {
		below, _ := base[field].(map[string]any)
		above, _ := top[field].(map[string]any)
		if len(below) > 0 && len(above) > 0 {
			merged := maps.Clone(below)
			maps.Copy(merged, above)
			out[field] = merged
		}
	}
	return out
}
