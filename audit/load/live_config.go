package load

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// meshConfigName is a ConfigMap that an istiod reads its mesh config from, its
// own or the one that SHARED_MESH_CONFIG names.
type meshConfigName struct {
	namespace, name string
	shared          bool
}

// readMeshConfigs gets the mesh ConfigMaps of each istiod by their names.
// ConfigMaps are never listed: what else they hold is nobody's business.
func (l *live) readMeshConfigs(ctx context.Context) {
	for _, c := range meshConfigNames(l.builder.Istiods(), l.builder.Webhooks()) {
		cm := &corev1.ConfigMap{}
		err := l.get(ctx, "configmaps", c.namespace, c.name, cm)
		ref := result.Ref{Kind: "ConfigMap", Namespace: c.namespace, Name: c.name}
		switch {
		case err == nil:
			l.builder.Add(cm, result.Source{})
		case apierrors.IsNotFound(err) && c.shared: // the model tells what is missing
		case apierrors.IsNotFound(err):
			l.gap(result.Assumed, ref, "there is no ConfigMap %s/%s: taken as Istio's default mesh config", c.namespace, c.name)
		default:
			missing := "mesh config and meshNetworks, taken as Istio's defaults"
			if c.shared {
				missing = "the mesh config that istiod shares (SHARED_MESH_CONFIG)"
			}
			l.gap(result.Unread, ref, "cannot get ConfigMap %s/%s: %s; missing: %s", c.namespace, c.name, l.reason(ctx, "configmaps", err), missing)
		}
	}
}

// meshConfigNames lists the ConfigMaps of the control planes that were found,
// of their webhooks where the Deployment is not there, or of a plain
// installation where nothing is.
func meshConfigNames(istiods []snapshot.Istiod, webhooks []snapshot.Webhook) []meshConfigName {
	var names []meshConfigName
	add := func(namespace, revision string) {
		name := "istio"
		if revision != "" && revision != "default" {
			name += "-" + revision
		}
		names = append(names, meshConfigName{namespace: namespace, name: name})
	}
	for i := range istiods {
		add(istiods[i].Namespace, istioRevision(&istiods[i]))
		if name := istiods[i].SharedMeshConfig(); name != "" {
			names = append(names, meshConfigName{istiods[i].Namespace, name, true})
		}
	}
	for i := range webhooks {
		for _, rule := range webhooks[i].Webhooks {
			if rule.ServiceNamespace != "" {
				add(rule.ServiceNamespace, webhooks[i].Labels["istio.io/rev"])
			}
		}
	}
	if len(names) == 0 {
		add("istio-system", "")
	}
	slices.SortFunc(names, func(a, b meshConfigName) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	return slices.CompactFunc(names, func(a, b meshConfigName) bool { return a.namespace == b.namespace && a.name == b.name })
}

func istioRevision(i *snapshot.Istiod) string {
	for _, e := range i.Env {
		if e.Name == "REVISION" {
			return e.Value
		}
	}
	return i.Labels["istio.io/rev"]
}

// readNamespace gets the one namespace that is read.
func (l *live) readNamespace(ctx context.Context) {
	name := l.options.OnlyNamespace
	ref := result.Ref{Kind: "Namespace", Name: name}
	l.gap(result.Assumed, ref, "only namespace %s was read: what other namespaces, nodes and the control plane hold is taken as absent", name)
	ns := &corev1.Namespace{}
	if err := l.get(ctx, "namespaces", "", name, ns); err != nil {
		l.gap(result.Unread, ref, "cannot get namespace %s: %s; missing: its labels, which choose the revision and injection", name, l.reason(ctx, "namespaces", err))
		return
	}
	l.builder.Add(ns, result.Source{})
}
