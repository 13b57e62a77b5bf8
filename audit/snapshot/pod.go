package snapshot

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// ProxyContainerName is the name that injection gives the sidecar's container.
const ProxyContainerName = "istio-proxy"

// AssumedAnnotation marks, with the value "true", an object that completion made.
const AssumedAnnotation = result.AssumedAnnotation

func (b *Builder) addPod(o *corev1.Pod, src result.Source) {
	p := b.podOf(&o.ObjectMeta, &o.Spec, src)
	p.Owner = b.owner(&o.ObjectMeta)
	p.Generated = o.GenerateName != ""
	p.IPs = podIPs(&o.Status)
	p.Phase = b.intern.string(string(o.Status.Phase))
	p.Ready = podReady(&o.Status)
	p.Terminating = o.DeletionTimestamp != nil
	p.Assumed = o.Annotations[AssumedAnnotation] == "true"
	b.snap.Pods = append(b.snap.Pods, p)
}

// podOf keeps what the model reads of a pod, or of a template of pods, before it runs.
func (b *Builder) podOf(m *metav1.ObjectMeta, spec *corev1.PodSpec, src result.Source) Pod {
	p := Pod{
		Meta:           b.metaOf("Pod", m, src),
		Node:           b.intern.string(spec.NodeName),
		ServiceAccount: b.intern.string(spec.ServiceAccountName),
		HostNetwork:    spec.HostNetwork,
		Hostname:       strings.Clone(spec.Hostname),
		Subdomain:      b.intern.string(spec.Subdomain),
		Proxy:          b.proxyOf(spec),
	}
	for i := range spec.Containers {
		p.Ports = b.appendPorts(p.Ports, &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if nativeSidecar(&spec.InitContainers[i]) {
			p.Ports = b.appendPorts(p.Ports, &spec.InitContainers[i])
		}
	}
	return p
}

// podIPs lists the pod's addresses, the primary one first.
func podIPs(s *corev1.PodStatus) []string {
	var ips []string
	if s.PodIP != "" {
		ips = append(ips, strings.Clone(s.PodIP))
	}
	for _, ip := range s.PodIPs {
		if ip.IP != "" && ip.IP != s.PodIP {
			ips = append(ips, strings.Clone(ip.IP))
		}
	}
	return ips
}

func podReady(s *corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (b *Builder) owner(m *metav1.ObjectMeta) OwnerRef {
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return OwnerRef{}
	}
	return OwnerRef{Kind: b.intern.string(ref.Kind), Name: b.intern.string(ref.Name)}
}

// appendPorts adds the ports of a container in the order of istiod's FindPort:
// containers before native sidecars (pilot/pkg/serviceregistry/kube/controller/util.go).
func (b *Builder) appendPorts(ports []ContainerPort, c *corev1.Container) []ContainerPort {
	for _, p := range c.Ports {
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		ports = append(ports, ContainerPort{
			Name:      b.intern.string(p.Name),
			Port:      int(p.ContainerPort),
			Protocol:  b.intern.string(protocol),
			Container: b.intern.string(c.Name),
		})
	}
	return ports
}

func nativeSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// FindProxyContainer returns the container that runs Istio's proxy: the one
// with injection's name, else the first one with Istio's proxy image; nil if
// there is none. Init containers count, since a native sidecar is one.
func FindProxyContainer(spec *corev1.PodSpec) (proxy *corev1.Container, native bool) {
	match := func(ok func(*corev1.Container) bool) (*corev1.Container, bool) {
		for i := range spec.Containers {
			if ok(&spec.Containers[i]) {
				return &spec.Containers[i], false
			}
		}
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; ok(c) && nativeSidecar(c) {
				return c, true
			}
		}
		return nil, false
	}
	proxy, native = match(func(c *corev1.Container) bool { return c.Name == ProxyContainerName })
	if proxy == nil {
		proxy, native = match(func(c *corev1.Container) bool { return imageName(c.Image) == "proxyv2" })
	}
	return proxy, native
}

// imageName is the last part of an image's path, without tag and digest.
func imageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, '/'); i >= 0 {
		image = image[i+1:]
	}
	image, _, _ = strings.Cut(image, ":")
	return image
}

func (b *Builder) proxyOf(spec *corev1.PodSpec) *ProxyContainer {
	c, native := FindProxyContainer(spec)
	if c == nil {
		return nil
	}
	p := &ProxyContainer{Image: b.intern.string(c.Image), Native: native, Env: b.env(agentEnvironment(c.Env))}
	for _, a := range c.Args {
		p.Args = append(p.Args, b.intern.string(a))
	}
	return p
}

func (b *Builder) env(env []corev1.EnvVar) []EnvVar {
	if len(env) == 0 {
		return nil
	}
	vars := make([]EnvVar, 0, len(env))
	for i := range env {
		value := env[i].Value
		if env[i].Name == "PROXY_CONFIG" {
			value = b.intern.config(value)
		}
		vars = append(vars, EnvVar{
			Name:  b.intern.string(env[i].Name),
			Value: b.intern.string(value),
			From:  b.intern.string(valueFrom(env[i].ValueFrom)),
		})
	}
	return vars
}

// valueFrom names the source of a variable's value.
func valueFrom(s *corev1.EnvVarSource) string {
	switch {
	case s == nil:
		return ""
	case s.FieldRef != nil:
		return "fieldRef " + s.FieldRef.FieldPath
	case s.ResourceFieldRef != nil:
		return "resourceFieldRef " + s.ResourceFieldRef.Resource
	case s.ConfigMapKeyRef != nil:
		return "configMapKeyRef " + s.ConfigMapKeyRef.Name + " " + s.ConfigMapKeyRef.Key
	case s.SecretKeyRef != nil:
		return "secretKeyRef " + s.SecretKeyRef.Name + " " + s.SecretKeyRef.Key
	default:
		return "unknown source"
	}
}
