package e2e

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The large mesh.
const (
	largeNamespaces = 50
	largeServices   = 5000
	largePods       = 3000
)

type object = map[string]any

func metadata(namespace, name string, labels object) object {
	out := object{"name": name}
	if namespace != "" {
		out["namespace"] = namespace
	}
	if len(labels) > 0 {
		out["labels"] = labels
	}
	return out
}

// largeMesh is 5,000 Services, as many EndpointSlices and 3,000 Pods with
// proxies in 50 namespaces, each with a Sidecar.
func largeMesh() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	add := func(o object) { out = append(out, &unstructured.Unstructured{Object: o}) }
	namespace := func(i int) string { return fmt.Sprintf("team-%02d", i%largeNamespaces) }
	add(object{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("", "istio-system", nil)})
	add(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("istio-system", "istio", nil), "data": object{"mesh": "rootNamespace: istio-system\n"}})
	for i := range largeNamespaces {
		add(object{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata("", namespace(i), object{"istio-injection": "enabled"})})
		add(object{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": metadata(namespace(i), "default", nil),
			"spec": object{"egress": []any{object{"hosts": []any{"./*", "istio-system/*"}}}}})
	}
	for i := range largeServices {
		app := fmt.Sprintf("service-%04d", i)
		add(object{"apiVersion": "v1", "kind": "Service", "metadata": metadata(namespace(i), app, nil),
			"spec": object{"selector": object{"app": app}, "ports": []any{object{"name": "http", "port": int64(80), "targetPort": int64(8080)}}}})
		add(object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
			"metadata":  metadata(namespace(i), app+"-x", object{"kubernetes.io/service-name": app}),
			"ports":     []any{object{"name": "http", "port": int64(8080), "protocol": "TCP"}},
			"endpoints": []any{object{"addresses": []any{podIP(i % largePods)}, "conditions": object{"ready": true}}}})
	}
	for i := range largePods {
		app := fmt.Sprintf("service-%04d", i)
		add(object{"apiVersion": "v1", "kind": "Pod", "metadata": metadata(namespace(i), app+"-0", object{"app": app}),
			"spec": object{"serviceAccountName": "default", "containers": []any{
				object{"name": "app", "image": "example/app:1"},
				object{"name": "istio-proxy", "image": "docker.io/istio/proxyv2:1.31.0", "args": []any{"proxy", "sidecar"}},
			}},
			"status": object{"phase": "Running", "podIP": podIP(i), "podIPs": []any{object{"ip": podIP(i)}},
				"conditions": []any{object{"type": "Ready", "status": "True"}}}})
	}
	return out
}

func podIP(i int) string { return fmt.Sprintf("10.244.%d.%d", i/250, i%250+1) }

// startLarge starts a cluster with the large mesh.
func startLarge() (*cluster, error) {
	c, err := startCluster(filepath.Join(scratch, "large"))
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := c.createObjects(context.Background(), largeMesh()); err != nil {
		c.stop()
		return nil, err
	}
	log.Printf("large mesh: %s", time.Since(begun).Round(time.Second))
	return c, nil
}
