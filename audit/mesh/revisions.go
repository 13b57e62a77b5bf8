package mesh

import (
	"sort"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// DefaultRevision is the name of the unnamed revision.
const DefaultRevision = "default"

const (
	revisionLabel = "istio.io/rev"
	tagLabel      = "istio.io/tag"
	systemDefault = "istio-system"
)

// viewsOf makes an empty view for each istiod revision, sorted by revision; one
// for an assumed istiod if the input has none.
func viewsOf(snap *snapshot.Snapshot, gaps *gaps) []*View {
	byRevision := map[string]*View{}
	for i := range snap.Istiods {
		istiod := &snap.Istiods[i]
		view := viewOf(snap, istiod)
		if first := byRevision[view.Revision]; first != nil {
			gaps.unmodelled(istiod.Ref(), "second istiod of revision "+view.Revision+": its settings are not looked at, those of "+
				first.Istiod.Namespace+"/"+first.Istiod.Name+" are")
			continue
		}
		byRevision[view.Revision] = view
	}
	if len(byRevision) == 0 {
		view := viewOf(snap, nil)
		byRevision[view.Revision] = view
		gaps.add(result.Gap{Kind: result.Assumed, All: true, Text: "no istiod Deployment in the input: Istio " +
			view.Version.String() + " with its default flags is assumed"})
	}
	views := make([]*View, 0, len(byRevision))
	for _, view := range byRevision {
		views = append(views, view)
	}
	sort.Slice(views, func(i, j int) bool { return views[i].Revision < views[j].Revision })
	setTags(snap, views)
	return views
}

// LeadsToIstiod reports a service of the view's own istiod.
func (v *View) LeadsToIstiod(s *Service) bool {
	return v.Istiod != nil && s.Kubernetes && s.Namespace == v.Istiod.Namespace && selects(s.Selector, v.Istiod.PodLabels)
}

// viewOf reads an istiod's identity: revision, version, flags, namespace.
func viewOf(snap *snapshot.Snapshot, istiod *snapshot.Istiod) *View {
	view := &View{
		Istiod: istiod, Revision: DefaultRevision, filter: DefaultRevision,
		Namespace: systemDefault, Domain: "cluster.local", Cluster: "Kubernetes",
	}
	env := map[string]string{}
	if istiod != nil {
		for _, e := range istiod.Env {
			if e.From == "" {
				env[e.Name] = e.Value
			}
		}
		view.Namespace = istiod.Namespace
		view.filter = firstNonEmpty(env["REVISION"], istiod.PodLabels[revisionLabel], istiod.Labels[revisionLabel])
		view.Revision = firstNonEmpty(view.filter, DefaultRevision)
		view.Domain = firstNonEmpty(argument(istiod.Args, "--domain"), view.Domain)
	} else if cm := anyMeshConfigMap(snap); cm != nil {
		view.Namespace = cm.Namespace
		if _, rev, tagged := strings.Cut(cm.Name, "istio-"); tagged && rev != "" {
			view.Revision, view.filter = rev, rev
		}
	}
	if rev := snap.Overrides.Revision; istiod == nil && rev != "" {
		view.Revision, view.filter = rev, rev
	}
	for name, value := range snap.Overrides.Env {
		env[name] = value
	}
	view.Cluster = firstNonEmpty(env["CLUSTER_ID"], view.Cluster)
	view.Version, view.VersionAssumed = istiodVersion(snap, istiod)
	view.Flags = FlagsOf(view.Version, env)
	view.Behaviours = BehavioursOf(view.Version)
	view.KeySetBytes = snap.Overrides.KeySetBytes
	return view
}

// anyMeshConfigMap is the mesh ConfigMap to take where no istiod tells which:
// "istio" first, else the first of another revision.
func anyMeshConfigMap(snap *snapshot.Snapshot) *snapshot.ConfigMap {
	var found *snapshot.ConfigMap
	for i := range snap.ConfigMaps {
		cm := &snap.ConfigMaps[i]
		if cm.Data["mesh"] == "" {
			continue
		}
		if cm.Name == "istio" {
			return cm
		}
		if found == nil && strings.HasPrefix(cm.Name, "istio-") {
			found = cm
		}
	}
	return found
}

// istiodVersion takes the version that the user gave, else that of the image's
// tag, else that of the labels that charts write.
func istiodVersion(snap *snapshot.Snapshot, istiod *snapshot.Istiod) (v Version, assumed bool) {
	if v, ok := ParseVersion(snap.Overrides.IstioVersion); ok {
		return v, false
	}
	if istiod != nil {
		candidates := []string{imageTag(istiod.Image)}
		for _, labels := range []map[string]string{istiod.PodLabels, istiod.Labels} {
			candidates = append(candidates, labels["operator.istio.io/version"], labels["app.kubernetes.io/version"],
				strings.TrimPrefix(labels["helm.sh/chart"], "istiod-"))
		}
		for _, candidate := range candidates {
			if v, ok := ParseVersion(candidate); ok {
				return v, false
			}
		}
	}
	return DefaultVersion, true
}

// imageTag is the tag of "registry:5000/name:tag@digest"; "" if none.
func imageTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

// argument is the value of "--name value" or "--name=value"; "" if absent.
func argument(args []string, name string) string {
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, name+"="); found {
			return value
		}
		if arg == name && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// setTags gives each view the tags that lead to it, sorted.
func setTags(snap *snapshot.Snapshot, views []*View) {
	for _, view := range views {
		tags := map[string]bool{}
		for i := range snap.Webhooks {
			labels := snap.Webhooks[i].Labels
			if tag := labels[tagLabel]; tag != "" && labels[revisionLabel] == view.Revision {
				tags[tag] = true
			}
		}
		for tag := range tags {
			view.Tags = append(view.Tags, tag)
		}
		sort.Strings(view.Tags)
	}
}

// inRevision is istiod's filter of Istio's own kinds: by the exact revision,
// never a tag; an object without the label belongs to all (Istio
// pkg/config/model.go).
func (v *View) inRevision(m *snapshot.Meta) bool {
	revision, labelled := m.Labels[revisionLabel]
	return !labelled || v.filter == "" || revision == v.filter
}

// reads reports that istiod sees an object of one of Istio's own kinds.
func (v *View) reads(m *snapshot.Meta) bool { return v.Selected(m.Namespace) && v.inRevision(m) }

func firstNonEmpty(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}
