// Package judge drives Istio's own discovery server in process and records
// what it sends to each proxy of a mesh.
package judge

import (
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"

	"istio.io/istio/pilot/pkg/networking/core/route"
	"istio.io/istio/pkg/test"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Visit is called with what each proxy received.
type Visit func(pod *corev1.Pod, kind string, raw Raw) error

// directBody is the limit that istiod writes into route configurations. It
// keeps it in a variable which an EnvoyFilter's MERGE changes for all proxies
// that connect later: here every proxy finds it as it was.
var directBody = route.DefaultMaxDirectResponseBodySizeBytes.GetValue()

// Run starts a server with the mesh and connects one proxy after the other.
func Run(m *mesh.Mesh, visit Visit) error {
	var failed error
	err := test.Wrap(func(t test.Failer) {
		s := startServer(t, m, serverOptions{})
		for _, pod := range m.Pods {
			if failed = runProxy(s, m, pod, visit); failed != nil {
				return
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// runProxy connects one proxy and hands on what it received.
func runProxy(s *server, m *mesh.Mesh, pod *corev1.Pod, visit Visit) error {
	route.DefaultMaxDirectResponseBodySizeBytes.Value = directBody
	c, err := newClient(pod, m.Config)
	if err != nil {
		return err
	}
	st := openStream(s.Discovery, c.node)
	defer st.close()
	raw, err := collect(st, c.dns)
	if err != nil {
		return fmt.Errorf("proxy %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return visit(pod, c.kind, raw)
}

// Serve starts a server with the mesh and lets others connect to its plaintext
// ADS at HOST:PORT, until stop is closed. ready is called once it answers.
func Serve(m *mesh.Mesh, address string, ready func(), stop <-chan struct{}) error {
	return test.Wrap(func(t test.Failer) {
		startServer(t, m, serverOptions{listener: func() (net.Listener, error) { return net.Listen("tcp", address) }})
		ready()
		<-stop
	})
}

// Judge runs the mesh once and returns its report.
func Judge(m *mesh.Mesh) (*report.Report, error) {
	out := &report.Report{Module: report.Module, IstioVersion: report.IstioVersion, Proxies: []report.Proxy{}}
	err := Run(m, func(pod *corev1.Pod, kind string, raw Raw) error {
		p := report.Proxy{
			Namespace: pod.Namespace, Name: pod.Name, Kind: kind, Revision: m.Istiod.Revision,
			Resources: map[string][]report.Resource{},
		}
		for short, list := range raw {
			for _, r := range list {
				res, err := resource(short, r)
				if err != nil {
					return fmt.Errorf("proxy %s: %w", p.ID(), err)
				}
				p.Resources[short] = append(p.Resources[short], res)
			}
		}
		out.Proxies = append(out.Proxies, p)
		return nil
	})
	out.Sort()
	return out, err
}
