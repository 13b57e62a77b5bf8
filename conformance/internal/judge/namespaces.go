package judge

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"istio.io/istio/pkg/kube"
	"istio.io/istio/pkg/test"
)

// tellNamespaces writes the Namespaces into the cluster that the controller of
// ServiceEntries looks at, for traffic distribution and visibility: the server
// gives it one of its own, which is empty.
func (s *server) tellNamespaces(t test.Failer, objs []runtime.Object) {
	client := s.entriesCluster()
	if client == nil {
		return
	}
	for _, o := range objs {
		ns, ok := o.(*corev1.Namespace)
		if !ok {
			continue
		}
		if _, err := client.Kube().CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// entriesCluster is the client of that cluster, which is not exported; nil for
// an istiod that does not look at Namespaces there (before 1.30).
func (s *server) entriesCluster() kube.Client {
	field := reflect.ValueOf(s.ServiceEntryRegistry).Elem().FieldByName("multiclusterController")
	if !field.IsValid() {
		return nil
	}
	controller := reflect.NewAt(field.Type().Elem(), field.UnsafePointer())
	cluster := controller.MethodByName("ConfigCluster")
	if !cluster.IsValid() {
		return nil
	}
	client, _ := cluster.Call(nil)[0].Elem().FieldByName("Client").Interface().(kube.Client)
	return client
}
