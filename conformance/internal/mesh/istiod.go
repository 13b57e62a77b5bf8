package mesh

import (
	"encoding/json"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"istio.io/api/label"
)

const (
	systemNamespace = "istio-system"
	defaultRevision = "default"
	tagLabel        = "istio.io/tag"
)

// Istiod is one control plane of the input.
type Istiod struct {
	// Revision is what istiod reads from REVISION; "" if it has none.
	Revision string `json:"revision"`
	// Namespace is where it runs.
	Namespace string `json:"namespace"`
	// Env is the environment of its container.
	Env map[string]string `json:"env"`
}

// Istiods finds the control planes of the input; without any, one with
// default settings is assumed.
func Istiods(objs []Object) []Istiod {
	byRevision := map[string]Istiod{}
	for _, o := range objs {
		if o.Kind != "Deployment" {
			continue
		}
		if d, ok := istiodOf(o); ok {
			byRevision[d.Revision] = d
		}
	}
	if len(byRevision) == 0 {
		d := assumedIstiod(objs)
		byRevision[d.Revision] = d
	}
	var out []Istiod
	for _, d := range byRevision {
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].before(out[j]) })
	return out
}

// before puts the default control plane first.
func (d Istiod) before(e Istiod) bool {
	if d.isDefault() != e.isDefault() {
		return d.isDefault()
	}
	return d.Revision < e.Revision
}

// isDefault is whether d has no revision of its own.
func (d Istiod) isDefault() bool {
	return d.Revision == "" || d.Revision == defaultRevision
}

// istiodOf reads a Deployment as a control plane if it is one.
func istiodOf(o Object) (Istiod, bool) {
	var dep appsv1.Deployment
	if json.Unmarshal(o.JSON, &dep) != nil {
		return Istiod{}, false
	}
	for _, c := range dep.Spec.Template.Spec.Containers {
		if c.Name != "discovery" && !(dep.Labels["app"] == "istiod" && contains(c.Args, "discovery")) {
			continue
		}
		pod := &corev1.Pod{ObjectMeta: dep.Spec.Template.ObjectMeta, Spec: dep.Spec.Template.Spec}
		pod.Name, pod.Namespace = dep.Name+"-0", o.Namespace
		d := Istiod{Namespace: o.Namespace, Env: map[string]string{}}
		for _, e := range ContainerEnv(pod, &c) {
			d.Env[e.Name] = e.Value
		}
		d.Revision = d.Env["REVISION"]
		if _, set := d.Env["REVISION"]; !set {
			d.Revision = dep.Labels[label.IoIstioRev.Name]
			d.Env["REVISION"] = d.Revision
		}
		return d, true
	}
	return Istiod{}, false
}

// assumedIstiod is the control plane of an input that does not hold one. Its
// revision is that of the mesh ConfigMap if there is only one.
func assumedIstiod(objs []Object) Istiod {
	d := Istiod{Namespace: systemNamespace, Env: map[string]string{}}
	var named []Object
	for _, o := range objs {
		if o.Kind != "ConfigMap" || !hasMeshKey(o) {
			continue
		}
		if o.Name == "istio" {
			d.Namespace = o.Namespace
			return d
		}
		if strings.HasPrefix(o.Name, "istio-") {
			named = append(named, o)
		}
	}
	if len(named) == 1 {
		d.Namespace = named[0].Namespace
		d.Revision = strings.TrimPrefix(named[0].Name, "istio-")
		d.Env["REVISION"] = d.Revision
	}
	return d
}

// hasMeshKey is whether a ConfigMap holds a mesh configuration.
func hasMeshKey(o Object) bool {
	var cm corev1.ConfigMap
	return json.Unmarshal(o.JSON, &cm) == nil && cm.Data["mesh"] != ""
}

// contains is whether list holds value.
func contains(list []string, value string) bool {
	for _, v := range list {
		if v == value {
			return true
		}
	}
	return false
}

// Tags maps revision tags to the revisions that they stand for.
func Tags(objs []Object) map[string]string {
	out := map[string]string{}
	for _, o := range objs {
		if o.Kind == "MutatingWebhookConfiguration" && o.Labels[tagLabel] != "" {
			out[o.Labels[tagLabel]] = o.Labels[label.IoIstioRev.Name]
		}
	}
	return out
}
