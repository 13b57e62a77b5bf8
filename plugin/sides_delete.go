package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/mesh-audit/mesh-audit/audit/load"
	"github.com/mesh-audit/mesh-audit/audit/overlay"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// deletions are the objects of --delete and --prune.
func (c *comparison) deletions(base *snapshot.Snapshot, files *load.Result) ([]overlay.Key, error) {
	given := map[overlay.Key]bool{}
	for _, k := range overlay.KeysOf(files) {
		given[k] = true
	}
	var out []overlay.Key
	if len(c.deleted) > 0 {
		all := overlay.Keys(base, func(*snapshot.Meta) bool { return true })
		for _, text := range c.deleted {
			k, err := findKey(all, text, c.g.namespace())
			if err != nil {
				return nil, err
			}
			if given[k] {
				return nil, usageError("--delete %s: it is also among the files", text)
			}
			out = append(out, k)
		}
	}
	if c.prune {
		pruned, err := c.prunedFrom(base, given)
		if err != nil {
			return nil, err
		}
		out = append(out, pruned...)
	}
	return out, nil
}

// prunedFrom are the objects of base that have the labels of --prune and are not
// given, where kubectl apply --prune looks for them: in the namespaces that the
// files name, and among the cluster-scoped ones unless -n is given
// (kubectl pkg/cmd/apply/prune.go).
func (c *comparison) prunedFrom(base *snapshot.Snapshot, given map[overlay.Key]bool) ([]overlay.Key, error) {
	selector, err := labels.Parse(c.pruned)
	if err != nil {
		return nil, usageError("-l %q: %w", c.pruned, err)
	}
	only := c.g.namespace()
	visited := map[string]bool{"": only == ""}
	for k := range given {
		if k.Namespace != "" && (only == "" || k.Namespace == only) {
			visited[k.Namespace] = true
		}
	}
	return slices.DeleteFunc(overlay.Keys(base, func(m *snapshot.Meta) bool {
		return visited[m.Namespace] && selector.Matches(labels.Set(m.Labels))
	}), func(k overlay.Key) bool { return given[k] }), nil
}

// findKey finds the object that KIND/NAMESPACE/NAME, or KIND/NAME of a cluster-
// scoped one or one of the namespace of -n, names: kinds as kubectl takes them,
// in any case, as plural or short.
func findKey(all []overlay.Key, text, namespace string) (overlay.Key, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return overlay.Key{}, usageError("--delete %q: use KIND/NAMESPACE/NAME (KIND/NAME if it is cluster-scoped)", text)
	}
	namespaces := []string{"", namespace}
	if len(parts) == 3 {
		namespaces = parts[1:2]
	}
	kinds := map[string]bool{}
	known := false
	elsewhere := ""
	for _, k := range all {
		if kinds[k.Kind] = true; !isKind(k.Kind, parts[0]) {
			continue
		}
		known = true
		if k.Name == parts[len(parts)-1] && slices.Contains(namespaces, k.Namespace) {
			return k, nil
		}
		if k.Name == parts[len(parts)-1] && elsewhere == "" {
			elsewhere = fmt.Sprintf("; there is %s/%s/%s", parts[0], k.Namespace, k.Name)
		}
	}
	if !known {
		return overlay.Key{}, usageError("--delete %s: the base has nothing of kind %q, only %s", text, parts[0], strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return overlay.Key{}, usageError("--delete %s: the base has no such object%s (pods and endpoints go with what makes them)", text, elsewhere)
}

// shortKinds are the short names that kubectl knows.
var shortKinds = map[string]string{
	"ns": "Namespace", "no": "Node", "svc": "Service", "po": "Pod", "cm": "ConfigMap", "deploy": "Deployment", "sts": "StatefulSet",
	"ds": "DaemonSet", "rs": "ReplicaSet", "cj": "CronJob", "vs": "VirtualService", "dr": "DestinationRule", "se": "ServiceEntry",
	"we": "WorkloadEntry", "wg": "WorkloadGroup", "gw": "Gateway", "pa": "PeerAuthentication", "ra": "RequestAuthentication",
	"ap": "AuthorizationPolicy", "telemetry": "Telemetry", "ing": "Ingress.networking.k8s.io",
}

func isKind(kind, typed string) bool {
	typed = strings.ToLower(typed)
	if strings.EqualFold(shortKinds[typed], kind) {
		return true
	}
	kind = strings.ToLower(kind)
	short, _, _ := strings.Cut(kind, ".")
	plural := short + "s"
	switch {
	case strings.HasSuffix(short, "y") && !strings.HasSuffix(short, "ay"):
		plural = strings.TrimSuffix(short, "y") + "ies"
	case strings.HasSuffix(short, "ss"):
		plural = short + "es"
	}
	bare, group, grouped := strings.Cut(typed, ".")
	if grouped && !strings.HasPrefix(kind, short+"."+group) && !strings.HasSuffix(group, "istio.io") && strings.Contains(kind, ".") {
		return false
	}
	return bare == short || bare == plural
}
