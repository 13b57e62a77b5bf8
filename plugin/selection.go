package plugin

import (
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/mesh-audit/mesh-audit/audit"
)

var workloadTypes = map[string]string{
	"pod": "pod", "pods": "pod", "po": "pod",
	"deploy": "deployment", "deployment": "deployment", "deployments": "deployment",
	"sts": "statefulset", "statefulset": "statefulset", "statefulsets": "statefulset",
	"ds": "daemonset", "daemonset": "daemonset", "daemonsets": "daemonset",
	"rs": "replicaset", "replicaset": "replicaset", "replicasets": "replicaset",
	"job": "job", "jobs": "job", "cj": "cronjob", "cronjob": "cronjob", "cronjobs": "cronjob",
}

// selectionOf says which proxies -n, -A, -l and the one argument ask for.
func selectionOf(g *global, args []string, selector string, allNamespaces bool) (audit.Selection, error) {
	s := audit.Selection{Namespace: g.namespace()}
	if allNamespaces {
		s.Namespace = ""
	}
	if selector != "" {
		parsed, err := labels.Parse(selector)
		if err != nil {
			return s, usageError("-l %q: %w", selector, err)
		}
		s.Labels = func(l map[string]string) bool { return parsed.Matches(labels.Set(l)) }
	}
	if len(args) == 1 {
		return s, setTarget(&s, args[0])
	}
	return s, nil
}

// setTarget reads POD, NAMESPACE/POD's usual kubectl form pod/POD, or TYPE/NAME.
func setTarget(s *audit.Selection, arg string) error {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		s.Pod = arg
		return nil
	}
	known := workloadTypes[strings.ToLower(kind)]
	if known == "" || name == "" {
		return usageError("%q: use a pod's name or TYPE/NAME with TYPE one of deploy, sts, ds, rs, job, cronjob, pod (a namespace is given with -n: %s -n %s)", arg, name, kind)
	}
	if known == "pod" {
		s.Pod = name
		return nil
	}
	s.Workload = known + "/" + name
	return nil
}
