package judge

import (
	"sort"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

// environment is that of a proxy's container.
type environment map[string]string

// agentEnv reads the environment of a pod's proxy.
func agentEnv(pod *corev1.Pod, c *corev1.Container) environment {
	env := environment{}
	for _, e := range mesh.ContainerEnv(pod, c) {
		env[e.Name] = e.Value
	}
	env.setDefault("POD_NAME", pod.Name)
	env.setDefault("POD_NAMESPACE", pod.Namespace)
	return env
}

// setDefault sets a variable that is not there, unless the value is empty.
func (e environment) setDefault(name, value string) {
	if _, ok := e[name]; !ok && value != "" {
		e[name] = value
	}
}

// list gives the variables as NAME=VALUE, sorted.
func (e environment) list() []string {
	var out []string
	for k, v := range e {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return out
}

// int reads a number.
func (e environment) int(name string, otherwise int) int {
	if n, err := strconv.Atoi(e[name]); err == nil {
		return n
	}
	return otherwise
}

// bool reads a truth value.
func (e environment) bool(name string, otherwise bool) bool {
	if v, err := strconv.ParseBool(e[name]); err == nil {
		return v
	}
	return otherwise
}

// optionalBool reads a truth value that may be missing.
func (e environment) optionalBool(name string) *bool {
	v, err := strconv.ParseBool(e[name])
	if err != nil {
		return nil
	}
	return &v
}
