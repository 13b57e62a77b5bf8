package judge

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pilot/pkg/config/memory"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pkg/config"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
)

// A change is what makes one mesh of another.
type change struct {
	base, head *mesh.Mesh
	// differs reports whether an object that both have is not the same in both.
	differs func(kind, namespace, name string) bool
}

// Change is what leads from base to head, given the objects that they were
// loaded from.
func changeOf(base, head *mesh.Mesh, before, after []mesh.Object) (*change, error) {
	if !proto.Equal(base.Networks, head.Networks) {
		return nil, fmt.Errorf("a change of networks is not judged")
	}
	id := func(kind, namespace, name string) string { return kind + " " + namespace + "/" + name }
	was := map[string][]byte{}
	for _, o := range before {
		was[id(o.Kind, o.Namespace, o.Name)] = o.JSON
	}
	same := map[string]bool{}
	for _, o := range after {
		key := id(o.Kind, o.Namespace, o.Name)
		same[key] = bytes.Equal(was[key], o.JSON)
	}
	return &change{base: base, head: head, differs: func(kind, namespace, name string) bool { return !same[id(kind, namespace, name)] }}, nil
}

// apply writes the change to the server: as a client of the API server would,
// except the mesh config, of which the server is told what istiod's own handler
// tells it (Istio pilot/pkg/bootstrap/server.go initMeshHandlers).
func (s *server) apply(c *change) error {
	if err := s.applyKube(c); err != nil {
		return err
	}
	if err := s.applyConfigs(c); err != nil {
		return err
	}
	if !proto.Equal(c.base.Config, c.head.Config) {
		watcher, ok := s.Env().Watcher.(interface{ Set(*meshconfig.MeshConfig) })
		if !ok {
			return fmt.Errorf("the mesh config of this server cannot be changed")
		}
		watcher.Set(c.head.Config)
		s.Discovery.ConfigUpdate(&model.PushRequest{Reason: model.NewReasonStats(model.GlobalUpdate), Forced: true})
	}
	return nil
}

func (s *server) applyConfigs(c *change) error {
	key := func(o config.Config) string {
		return strings.Join([]string{o.GroupVersionKind.Kind, o.Namespace, o.Name}, "/")
	}
	was := map[string]bool{}
	for _, o := range c.base.Configs {
		was[key(o)] = true
	}
	for _, o := range c.head.Configs {
		var err error
		switch {
		case !was[key(o)]:
			_, err = s.Store().Create(o)
		case c.differs(o.GroupVersionKind.Kind, o.Namespace, o.Name):
			_, err = s.Store().Update(versioned(o))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key(o), err)
		}
		delete(was, key(o))
	}
	for _, o := range c.base.Configs {
		if !was[key(o)] {
			continue
		}
		if err := s.Store().Delete(o.GroupVersionKind, o.Name, o.Namespace, nil); err != nil {
			return fmt.Errorf("%s: %w", key(o), err)
		}
	}
	return nil
}

// versioned tells the store for tests to keep the object's resourceVersion,
// which istiod sends of a WasmPlugin.
func versioned(o config.Config) config.Config {
	o = o.DeepCopy()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[memory.ResourceVersion] = o.ResourceVersion
	o.ResourceVersion = ""
	return o
}

// kubeObject is an object with what the API server knows it by.
type kubeObject struct {
	runtime.Object
	kind, namespace, name string
}

func kubeObjectsOf(list []runtime.Object) ([]kubeObject, error) {
	var out []kubeObject
	for _, o := range list {
		m, err := meta.Accessor(o)
		if err != nil {
			return nil, err
		}
		out = append(out, kubeObject{o, o.GetObjectKind().GroupVersionKind().Kind, m.GetNamespace(), m.GetName()})
	}
	return out, nil
}

func (s *server) applyKube(c *change) error {
	before, err := kubeObjectsOf(c.base.Kube)
	if err != nil {
		return err
	}
	after, err := kubeObjectsOf(c.head.Kube)
	if err != nil {
		return err
	}
	find := func(list []kubeObject, o kubeObject) bool {
		return slices.ContainsFunc(list, func(x kubeObject) bool { return x.kind == o.kind && x.namespace == o.namespace && x.name == o.name })
	}
	for _, o := range after {
		switch {
		case !find(before, o):
			err = s.write(o, created)
		case c.differs(o.kind, o.namespace, o.name):
			err = s.write(o, updated)
		}
		if err != nil {
			return err
		}
	}
	for _, o := range before {
		if find(after, o) {
			continue
		}
		if err := s.write(o, deleted); err != nil {
			return err
		}
	}
	return nil
}

type verb int

const (
	created verb = iota
	updated
	deleted
)

// write does one thing to an object in the server's cluster.
func (s *server) write(o kubeObject, do verb) error {
	gvk := o.GetObjectKind().GroupVersionKind()
	if strings.Contains(gvk.Group, "gateway.networking") {
		return fmt.Errorf("%s %s/%s: a change of the Gateway API is not judged", o.kind, o.namespace, o.name)
	}
	clients := []*fake.Clientset{s.KubeClient().Kube().(*fake.Clientset)}
	if _, ok := o.Object.(*corev1.Namespace); ok {
		if entries := s.entriesCluster(); entries != nil {
			clients = append(clients, entries.Kube().(*fake.Clientset))
		}
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	for _, client := range clients {
		var err error
		switch tracker := client.Tracker(); do {
		case created:
			err = tracker.Create(resource, o.Object, o.namespace)
		case updated:
			err = tracker.Update(resource, o.Object, o.namespace)
		case deleted:
			err = tracker.Delete(resource, o.namespace, o.name)
		}
		if err != nil {
			return fmt.Errorf("%s %s/%s: %w", o.kind, o.namespace, o.name, err)
		}
	}
	return nil
}
