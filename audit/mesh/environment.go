package mesh

import (
	"regexp"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// agentEnvironment puts the variables of a pod's proxy container into env, which
// it empties first, with the pod's own fields filled in; what comes from elsewhere
// is left out.
func agentEnvironment(env map[string]string, pod *snapshot.Pod) {
	clear(env)
	for _, e := range pod.Proxy.Env {
		if e.From == "" {
			env[e.Name] = expanded(e.Value, env)
			continue
		}
		if value, known := podField(pod, strings.TrimPrefix(e.From, "fieldRef ")); known {
			env[e.Name] = value
		}
	}
	for _, own := range [...][2]string{
		{"POD_NAME", pod.Name}, {"POD_NAMESPACE", pod.Namespace}, {"SERVICE_ACCOUNT", pod.ServiceAccount},
	} {
		if env[own[0]] == "" {
			env[own[0]] = own[1]
		}
	}
}

var keyedField = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.*)'\]$`)

// podField is a field of the pod that the downward API gives.
func podField(pod *snapshot.Pod, path string) (value string, known bool) {
	if match := keyedField.FindStringSubmatch(path); match != nil {
		if match[1] == "labels" {
			return pod.Labels[match[2]], true
		}
		return pod.Annotations[match[2]], true
	}
	switch path {
	case "metadata.name":
		return pod.Name, true
	case "metadata.namespace":
		return pod.Namespace, true
	case "spec.nodeName":
		return pod.Node, true
	case "spec.serviceAccountName":
		return pod.ServiceAccount, true
	case "status.podIP":
		if len(pod.IPs) > 0 {
			return pod.IPs[0], true
		}
	case "status.podIPs":
		return strings.Join(pod.IPs, ","), true
	}
	return "", false
}

var reference = regexp.MustCompile(`\$\$|\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)`)

// expanded replaces $(NAME) by known variables, as Kubernetes does.
func expanded(text string, known map[string]string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		if ref == "$$" {
			return "$"
		}
		if value, found := known[ref[2:len(ref)-1]]; found {
			return value
		}
		return ref
	})
}
