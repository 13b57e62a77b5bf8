package mesh

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const (
	injectionStatusAnnotation = "sidecar.istio.io/status"
	injectionLabel            = "istio-injection"
)

// assignment finds the istiod that a proxy connects to.
type assignment struct {
	views      []*View
	namespaces map[string]*snapshot.Namespace
	gaps       *gaps
	asked      string // the revision that the user asked for, where no istiod was read; empty: none
}

// viewFor is the view of the istiod that a pod's proxy connects to: the sole
// one, else the one that injection's marks, the proxy's discovery address, or
// the labels that chose the injector lead to, by revision or tag. nil if the
// user asked for an assumed istiod's revision and the proxy is of another.
func (a *assignment) viewFor(pod *snapshot.Pod, env map[string]string) *View {
	if len(a.views) == 1 && a.asked == "" {
		return a.views[0]
	}
	var namespaceLabels map[string]string
	if ns := a.namespaces[pod.Namespace]; ns != nil {
		namespaceLabels = ns.Labels
	}
	candidates := []string{
		pod.Annotations[revisionLabel], injectedRevision(pod), pod.Labels[revisionLabel],
		discoveryRevision(env["PROXY_CONFIG"]), namespaceLabels[revisionLabel],
	}
	if namespaceLabels[injectionLabel] == "enabled" {
		candidates = append(candidates, DefaultRevision)
	}
	for _, name := range candidates {
		if view := a.find(name); view != nil {
			return view
		}
	}
	if len(a.views) == 1 {
		return nil
	}
	view := a.find(DefaultRevision)
	if view == nil {
		view = a.views[0]
	}
	a.gaps.add(result.Gap{
		Kind: result.Assumed, Object: pod.Ref(), Proxies: []string{pod.Namespace + "/" + pod.Name},
		Text: "nothing tells which istiod the proxy connects to: revision " + view.Revision + " is assumed",
	})
	return view
}

// find looks a revision up by its name, else by a tag.
func (a *assignment) find(name string) *View {
	if name == "" {
		return nil
	}
	for _, view := range a.views {
		if view.Revision == name {
			return view
		}
	}
	for _, view := range a.views {
		if slices.Contains(view.Tags, name) {
			return view
		}
	}
	return nil
}

// injectedRevision is the revision that injection wrote into the pod's status
// annotation.
func injectedRevision(pod *snapshot.Pod) string {
	var status struct {
		Revision string `json:"revision"`
	}
	_ = json.Unmarshal([]byte(pod.Annotations[injectionStatusAnnotation]), &status)
	return status.Revision
}

// discoveryRevision reads the revision or tag from the name of istiod's Service
// in an injected ProxyConfig: "istiod", "istiod-<revision>",
// "istiod-revision-tag-<tag>".
func discoveryRevision(proxyConfig string) string {
	var cfg struct {
		DiscoveryAddress string `json:"discoveryAddress"`
	}
	_ = json.Unmarshal([]byte(proxyConfig), &cfg)
	service, _, _ := strings.Cut(cfg.DiscoveryAddress, ".")
	if tag, found := strings.CutPrefix(service, "istiod-revision-tag-"); found {
		return tag
	}
	if revision, found := strings.CutPrefix(service, "istiod-"); found {
		return revision
	}
	return ""
}
