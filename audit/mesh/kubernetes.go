package mesh

import (
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// unspecified is the address of a service without one.
const unspecified = "0.0.0.0"

const (
	exportToAnnotation            = "networking.istio.io/exportTo"
	trafficDistributionAnnotation = "networking.istio.io/traffic-distribution"
	canonicalAccountsAnnotation   = "alpha.istio.io/canonical-serviceaccounts"
	kubernetesAccountsAnnotation  = "alpha.istio.io/kubernetes-serviceaccounts"
	connectStrategyAnnotation     = "istio.io/connect-strategy"
)

// KubernetesHost is the host name of a Kubernetes Service (REG-1).
func (v *View) KubernetesHost(name, namespace string) string {
	return name + "." + namespace + ".svc." + v.Domain
}

// kubernetesServices converts the Services that the view sees, sorted by host
// name (REG-1 to REG-12; Istio pilot/pkg/serviceregistry/kube/conversion.go).
func (v *View) kubernetesServices(snap *snapshot.Snapshot) []*Service {
	var out []*Service
	for i := range snap.Services {
		if written := &snap.Services[i]; written.Spec != nil && v.Selected(written.Namespace) {
			s := v.kubernetesService(written)
			s.Balancers = snap.Balancers[written.Namespace+"/"+written.Name]
			out = append(out, s)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Host < out[j].Host })
	return out
}

func (v *View) kubernetesService(written *snapshot.Config[*corev1.ServiceSpec]) *Service {
	spec := written.Spec
	s := &Service{
		Ref: written.Ref(), Kubernetes: true, Spec: spec, ObjectName: written.Name,
		Host: v.KubernetesHost(written.Name, written.Namespace), Namespace: written.Namespace, Name: written.Name,
		Created: written.Created, Labels: written.Labels, Annotations: written.Annotations, Selector: spec.Selector,
		Address: unspecified, Type: string(spec.Type), PublishNotReady: spec.PublishNotReadyAddresses,
		ExportTo: exportToList(written.Annotations[exportToAnnotation]),
		Accounts: v.annotatedAccounts(written),
	}
	if spec.Type == corev1.ServiceTypeExternalName && spec.ExternalName != "" {
		s.ExternalName, s.External, s.Resolution = spec.ExternalName, true, Alias
	}
	if policy := spec.InternalTrafficPolicy; policy != nil && *policy == corev1.ServiceInternalTrafficPolicyLocal {
		s.NodeLocal = true
	}
	switch spec.ClusterIP {
	case corev1.ClusterIPNone:
		s.Resolution = Passthrough
	case "":
	default:
		s.Address, s.VIPs = spec.ClusterIP, []string{spec.ClusterIP}
		if len(spec.ClusterIPs) > 1 {
			s.Address, s.VIPs = spec.ClusterIPs[0], spec.ClusterIPs
		}
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		s.Ports = append(s.Ports, Port{Name: port.Name, Number: int(port.Port), Protocol: kubernetesProtocol(port)})
	}
	s.TrafficDistribution = v.trafficDistribution(spec.TrafficDistribution, &written.Meta)
	return s
}

// exportToList splits the annotation; nil: unset.
func exportToList(annotation string) []string {
	if annotation == "" {
		return nil
	}
	out := strings.Split(annotation, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

// annotatedAccounts are the identities that a Service names itself, sorted (REG-7).
func (v *View) annotatedAccounts(written *snapshot.Config[*corev1.ServiceSpec]) []string {
	var out []string
	if names := written.Annotations[canonicalAccountsAnnotation]; names != "" {
		out = append(out, strings.Split(names, ",")...)
	}
	if names := written.Annotations[kubernetesAccountsAnnotation]; names != "" {
		for _, name := range strings.Split(names, ",") {
			out = append(out, v.Identity(written.Namespace, name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The values of Service.TrafficDistribution.
const (
	PreferSameZone = "PreferSameZone" // also PreferClose
	PreferSameNode = "PreferSameNode"
)

// trafficDistribution is the first of spec, annotation and the Namespace's
// annotation that is set; "" is any (REG-9; Istio pilot/pkg/model/service.go).
func (v *View) trafficDistribution(field *string, m *snapshot.Meta) string {
	if !v.Behaviours.TrafficDistribution {
		return ""
	}
	if field != nil {
		if value := v.distributionValue(strings.ToLower(*field)); value != "" && slices.Contains(distributionNames, *field) {
			return value
		}
	}
	if text := m.Annotations[trafficDistributionAnnotation]; text != "" {
		return v.distributionValue(strings.ToLower(text))
	}
	ns := v.Namespaces[m.Namespace]
	if ns == nil || !v.Behaviours.NamespaceTrafficDistribution {
		return ""
	}
	return v.distributionValue(strings.ToLower(ns.Annotations[trafficDistributionAnnotation]))
}

var distributionNames = []string{
	corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
	corev1.ServiceTrafficDistributionPreferSameNode,
}

func (v *View) distributionValue(lower string) string {
	switch {
	case lower == "preferclose":
		return PreferSameZone
	case lower == "prefersamezone" && v.Behaviours.SameZoneTrafficDistribution:
		return PreferSameZone
	case lower == "prefersamenode" && v.Behaviours.SameZoneTrafficDistribution:
		return PreferSameNode
	}
	return ""
}
