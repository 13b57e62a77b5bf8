package mesh

import (
	"regexp"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

const (
	canonicalNameLabel     = "service.istio.io/canonical-name"
	canonicalRevisionLabel = "service.istio.io/canonical-revision"
	workloadNameLabel      = "service.istio.io/workload-name"
	networkLabel           = "topology.istio.io/network"
	clusterLabel           = "topology.istio.io/cluster"
	subzoneLabel           = "topology.istio.io/subzone"
	zoneLabel              = "topology.kubernetes.io/zone"
	regionLabel            = "topology.kubernetes.io/region"
	hostnameLabel          = "kubernetes.io/hostname"
	topologyLocalityLabel  = "topology.istio.io/locality"
	oldLocalityLabel       = "istio-locality"
	tlsModeLabel           = "security.istio.io/tlsMode"
)

// CanonicalService is the canonical name and revision that workload labels give
// (Istio pkg/kube/labels).
func CanonicalService(labels Labels, workload string) (name, revision string) {
	name, revision = workload, "latest"
	for _, key := range []string{canonicalNameLabel, "app.kubernetes.io/name", "app"} {
		if value, found := labels.Lookup(key); found {
			name = value
			break
		}
	}
	for _, key := range []string{canonicalRevisionLabel, "app.kubernetes.io/version", "version"} {
		if value, found := labels.Lookup(key); found {
			revision = value
			break
		}
	}
	return name, revision
}

// LabelsSubset reports that want is part of have; an empty want is part of all
// (Istio pkg/config/labels SubsetOf).
func LabelsSubset(want, have map[string]string) bool { return LabelsOf(have).Include(want) }

// selects is Kubernetes' selection: an empty selector selects nothing.
func selects(selector, labels map[string]string) bool {
	return LabelsOf(labels).selectedBy(selector)
}

func splitLocality(locality string) (region, zone, subzone string) {
	parts := strings.SplitN(locality, "/", 4)
	region = parts[0]
	if len(parts) > 1 {
		zone = parts[1]
	}
	if len(parts) > 2 {
		subzone = parts[2]
	}
	return region, zone, subzone
}

// labelledLocality is the locality of the locality labels, in which "." stands
// for "/" unless the label has slashes (Istio pkg/model/proxy.go).
func (v *View) labelledLocality(labels Labels) string {
	value, found := labels.Lookup(topologyLocalityLabel)
	if !found || !v.Behaviours.LocalityLabel {
		value = labels.Get(oldLocalityLabel)
	}
	if !strings.Contains(value, "/") {
		return strings.ReplaceAll(value, ".", "/")
	}
	return value
}

// podLocality is the label's locality, else that of the pod's node (Istio
// pilot/pkg/serviceregistry/kube/controller/controller.go getPodLocality).
func (v *View) podLocality(pod *snapshot.Pod) string {
	if locality := v.labelledLocality(LabelsOf(pod.Labels)); locality != "" {
		return locality
	}
	node := v.Nodes[pod.Node]
	if node == nil {
		return ""
	}
	region := firstNonEmpty(node.Labels[regionLabel], node.Labels["failure-domain.beta.kubernetes.io/region"])
	zone := firstNonEmpty(node.Labels[zoneLabel], node.Labels["failure-domain.beta.kubernetes.io/zone"])
	subzone := node.Labels[subzoneLabel]
	if region == "" && zone == "" && subzone == "" {
		return ""
	}
	return region + "/" + zone + "/" + subzone
}

var cronJobName = regexp.MustCompile(`^(.+)-\d{8,10}$`)

// WorkloadOf is the kind and name of the workload that istiod takes a pod to
// belong to (Istio pkg/kube/util.go GetDeployMetaFromPod).
func WorkloadOf(pod *snapshot.Pod) (kind, name string) {
	owner := pod.Owner
	if owner.Kind == "" || !pod.Generated {
		return "Pod", pod.Name
	}
	kind, name = owner.Kind, owner.Name
	for _, row := range [][2]string{{"pod-template-hash", "Deployment"}, {"rollouts-pod-template-hash", "Rollout"}} {
		hash := pod.Labels[row[0]]
		if kind == "ReplicaSet" && hash != "" && strings.HasSuffix(name, hash) {
			return row[1], strings.TrimSuffix(name, "-"+hash)
		}
	}
	switch kind {
	case "ReplicationController":
		if config := pod.Labels["deploymentconfig"]; config != "" {
			return "DeploymentConfig", config
		}
	case "Job":
		if match := cronJobName.FindStringSubmatch(name); match != nil {
			return "CronJob", match[1]
		}
	}
	return kind, name
}

// workloadName is the name under which istiod reports a pod's workload.
func workloadName(pod *snapshot.Pod) string {
	if name, found := pod.Labels[workloadNameLabel]; found {
		return name
	}
	_, name := WorkloadOf(pod)
	return name
}
