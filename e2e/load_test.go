package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// loadDemo creates the plugin's demo mesh, completed: Services with cluster
// IPs, Pods with status, EndpointSlices, and Istio's configuration.
func (c *cluster) loadDemo(ctx context.Context) error {
	out, err := exec.Command(plugin(), "complete", "--demo").Output()
	if err != nil {
		return fmt.Errorf("complete --demo: %w", err)
	}
	// 10.96.0.1 is the API server's own.
	objects, err := decodeAll(bytes.ReplaceAll(out, []byte("10.96.0."), []byte("10.97.0.")))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.GetKind() == "Pod" {
			if err := unstructured.SetNestedField(o.Object, standInNode, "spec", "nodeName"); err != nil {
				return err
			}
		}
	}
	return c.createObjects(ctx, objects)
}

// create creates the objects of a YAML stream.
func (c *cluster) create(ctx context.Context, text []byte) error {
	objects, err := decodeAll(text)
	if err != nil {
		return err
	}
	return c.createObjects(ctx, objects)
}

func decodeAll(text []byte) (objects []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// createObjects creates objects with their status: namespaces first, then 16 at
// a time.
func (c *cluster) createObjects(ctx context.Context, objects []*unstructured.Unstructured) error {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.kube.Discovery()))
	var rest []*unstructured.Unstructured
	for _, o := range objects {
		if o.GetKind() != "Namespace" {
			rest = append(rest, o)
			continue
		}
		if err := c.createOne(ctx, mapper, o); err != nil {
			return err
		}
	}
	work := make(chan *unstructured.Unstructured)
	failures := make(chan error, len(rest))
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for o := range work {
				if err := c.createOne(ctx, mapper, o); err != nil {
					failures <- err
				}
			}
		})
	}
	for _, o := range rest {
		work <- o
	}
	close(work)
	group.Wait()
	close(failures)
	return <-failures
}

func (c *cluster) createOne(ctx context.Context, mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	var client dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		client = c.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	owners := o.GetOwnerReferences()
	for i := range owners {
		if owners[i].UID == "" {
			owners[i].UID = "not-known" // files do not tell it; the API server wants one
		}
	}
	if len(owners) > 0 {
		o.SetOwnerReferences(owners)
	}
	status, has := o.Object["status"]
	made, err := client.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s %s/%s: %w", gvk.Kind, o.GetNamespace(), o.GetName(), err)
	}
	if !has {
		return nil
	}
	made.Object["status"] = status
	if _, err := client.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("status of %s %s/%s: %w", gvk.Kind, o.GetNamespace(), o.GetName(), err)
	}
	return nil
}
