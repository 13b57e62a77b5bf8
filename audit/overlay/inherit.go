package overlay

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	meta "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// inherit gives the objects of the files what the API server and istiod keep or
// set when they are applied.
func (l *laying) inherit() {
	for _, o := range l.files.Objects {
		k := keyOf(o)
		m, ok := o.Obj.(metav1.Object)
		if !ok {
			continue
		}
		before := l.find(k)
		if created := m.GetCreationTimestamp(); created.IsZero() {
			switch {
			case before == nil:
				m.SetCreationTimestamp(metav1.Unix(l.young, 0))
			case before.Created != 0:
				m.SetCreationTimestamp(metav1.Unix(before.Created, 0))
			}
		}
		if before != nil {
			l.inheritFields(k, o.Obj)
		}
	}
	for i := range l.files.Unmodelled {
		m := &l.files.Unmodelled[i]
		if m.Created != 0 {
			continue
		}
		m.Created = l.young
		if before := l.find(metaKey(m)); before != nil {
			m.Created = before.Created
		}
	}
}

func (l *laying) inheritFields(k Key, obj any) {
	switch o := obj.(type) {
	case *corev1.Service:
		if before := serviceRows(l.base).row(k); before != nil {
			inheritService(&o.Spec, before.Spec)
		}
	case *networkingv1.ServiceEntry:
		if before := entryRows(l.base).row(k); before != nil {
			inheritAddresses(o, before.Allocated)
		}
	case *networkingv1.WorkloadEntry:
		l.inheritHealth(k, o)
	case *corev1.Pod:
		before := l.pod(k)
		if o.Status.PodIP == "" && len(o.Status.PodIPs) == 0 {
			o.Status = restoreStatus(before)
		}
		o.Spec.NodeName = cmp.Or(o.Spec.NodeName, before.Node)
		o.Spec.ServiceAccountName = cmp.Or(o.Spec.ServiceAccountName, before.ServiceAccount)
	}
}

func serviceRows(s *snapshot.Snapshot) rows[snapshot.Config[*corev1.ServiceSpec]] {
	return configs(&s.Services).(rows[snapshot.Config[*corev1.ServiceSpec]])
}

func entryRows(s *snapshot.Snapshot) rows[snapshot.ServiceEntry] {
	return rows[snapshot.ServiceEntry]{&s.ServiceEntries, func(r *snapshot.ServiceEntry) *snapshot.Meta { return &r.Meta }}
}

// inheritService does what the API server does to an update that leaves out
// what it had allocated or defaulted (Kubernetes
// pkg/registry/core/service/storage, patchAllocatedValues and defaultOnReadService).
func inheritService(now, before *corev1.ServiceSpec) {
	now.Type = cmp.Or(now.Type, corev1.ServiceTypeClusterIP)
	now.SessionAffinity = cmp.Or(now.SessionAffinity, before.SessionAffinity)
	if now.SessionAffinity == before.SessionAffinity && now.SessionAffinityConfig == nil {
		now.SessionAffinityConfig = before.SessionAffinityConfig
	}
	clustered := func(s *corev1.ServiceSpec) bool { return s.Type != corev1.ServiceTypeExternalName }
	if clustered(now) && clustered(before) {
		if now.ClusterIP == "" && len(now.ClusterIPs) == 0 {
			now.ClusterIP, now.ClusterIPs = before.ClusterIP, slices.Clone(before.ClusterIPs)
		}
		if len(now.IPFamilies) == 0 {
			now.IPFamilies = slices.Clone(before.IPFamilies)
		}
		now.IPFamilyPolicy = cmp.Or(now.IPFamilyPolicy, before.IPFamilyPolicy)
		now.InternalTrafficPolicy = cmp.Or(now.InternalTrafficPolicy, before.InternalTrafficPolicy)
	}
	noded := func(s *corev1.ServiceSpec) bool {
		return s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeLoadBalancer
	}
	if noded(now) && noded(before) {
		now.ExternalTrafficPolicy = cmp.Or(now.ExternalTrafficPolicy, before.ExternalTrafficPolicy)
		now.HealthCheckNodePort = cmp.Or(now.HealthCheckNodePort, before.HealthCheckNodePort)
	}
	if now.Type == corev1.ServiceTypeLoadBalancer && before.Type == now.Type {
		now.AllocateLoadBalancerNodePorts = cmp.Or(now.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts)
	}
	for i := range now.Ports {
		p := &now.Ports[i]
		p.Protocol = cmp.Or(p.Protocol, corev1.ProtocolTCP)
		if p.TargetPort == (intstr.IntOrString{}) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		for _, old := range before.Ports {
			if p.NodePort == 0 && noded(now) && noded(before) && old.Port == p.Port && cmp.Or(old.Protocol, corev1.ProtocolTCP) == p.Protocol {
				p.NodePort = old.NodePort
			}
		}
	}
}

// inheritAddresses keeps what istiod's allocator wrote for the hosts that are
// still there; new hosts get theirs by completion (Istio
// pilot/pkg/controllers/ipallocate).
func inheritAddresses(now *networkingv1.ServiceEntry, before []snapshot.AllocatedAddress) {
	if len(now.Status.Addresses) > 0 || len(now.Spec.Addresses) > 0 || now.Spec.Resolution == networking.ServiceEntry_NONE ||
		strings.EqualFold(now.Labels["networking.istio.io/enable-autoallocate-ip"], "false") {
		return
	}
	for _, a := range before {
		if a.Host == "" || slices.Contains(now.Spec.Hosts, a.Host) {
			now.Status.Addresses = append(now.Status.Addresses, &networking.ServiceEntryAddress{Host: a.Host, Value: a.Address})
		}
	}
}

// inheritHealth keeps the health that istiod wrote of a checked WorkloadEntry.
func (l *laying) inheritHealth(k Key, now *networkingv1.WorkloadEntry) {
	checked, _ := strconv.ParseBool(now.Annotations["proxy.istio.io/health-checks-enabled"])
	if !checked || len(now.Status.GetConditions()) > 0 || l.base.Unhealthy[k.Namespace+"/"+k.Name] {
		return
	}
	now.Status.Conditions = []*meta.IstioCondition{{Type: "Healthy", Status: string(corev1.ConditionTrue)}}
}
