package diff_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// of gives an object the content that the model reads.
func of(o result.Object, content string) result.Object {
	o.Content = json.RawMessage(content)
	return o
}

// TestEndpointCauses: of two workloads that change, only the one whose pods a
// Service selects is the cause of its endpoints, by the labels of either side.
func TestEndpointCauses(t *testing.T) {
	const web, api = `{"Spec": {"selector": {"app": "web"}}}`, `{"Spec": {"selector": {"app": "api"}}}`
	labels := func(app string) string { return `{"Template": {"Labels": {"app": "` + app + `", "version": "v1"}}}` }
	slice := func(name, digest string) result.Object {
		o := object("EndpointSlice", name, digest)
		o.Assumed, o.Owner = true, result.Ref{Kind: "Service", Namespace: "apps", Name: name}
		return o
	}
	side := func(digest string, endpoints int, renamed string) mesh {
		return mesh{
			services: []result.Service{
				{Host: "api.apps", Namespace: "apps", Ref: result.Ref{Kind: "Service", Namespace: "apps", Name: "api"}},
				{Host: "web.apps", Namespace: "apps", Ref: result.Ref{Kind: "Service", Namespace: "apps", Name: "web"}},
			},
			objects: []result.Object{
				of(object("Deployment", "api", digest), labels("api")), of(object("Deployment", "moved", digest), labels(renamed)), of(object("Deployment", "web", digest), labels("web")),
				slice("api", digest), slice("web", digest),
				of(object("Service", "api", "1"), api), of(object("Service", "web", "1"), web),
			},
			eds: []*result.Resource{res("outbound|80||api.apps", result.Part{Endpoints: new(endpoints)}), res("outbound|80||web.apps", result.Part{Endpoints: new(endpoints)})},
		}
	}
	d := compare(side("1", 2, "api"), side("2", 3, "other"))
	name := map[string]string{}
	for _, in := range d.Inputs {
		name[in.ID] = in.Ref().Kind + " " + in.Ref().Name
	}
	want := map[string][]string{
		"outbound|80||api.apps": {"Deployment api", "Deployment moved"},
		"outbound|80||web.apps": {"Deployment web"},
	}
	for _, c := range d.Changes {
		var have []string
		for _, id := range c.Inputs {
			have = append(have, name[id])
		}
		if !slices.Equal(have, want[c.Resource]) {
			t.Errorf("%s: %v, want %v", c.Resource, have, want[c.Resource])
		}
	}
	if len(d.Changes) != 2 {
		t.Errorf("%d changes", len(d.Changes))
	}
}

// TestManyChanges: the work grows with the changes, not with their square. With
// 10,000 changed ServiceEntries and VirtualServices it once took nine minutes.
func TestManyChanges(t *testing.T) {
	const n = 10000
	side := func(digest, kind string, endpoints bool) mesh {
		var m mesh
		routes := res("80")
		for i := range n {
			name := fmt.Sprintf("s%05d", i)
			host := name + ".example"
			m.objects = append(m.objects, object("ServiceEntry", name, digest))
			m.services = append(m.services, result.Service{Host: host, Namespace: "apps", Ref: result.Ref{Kind: "ServiceEntry", Namespace: "apps", Name: name}})
			m.cds = append(m.cds, res("outbound|80||"+host, result.Part{Type: kind, Service: host}))
			part := versioned(host, "outbound|80||"+host, digest)
			part.By = result.Ref{Kind: "VirtualService", Namespace: "apps", Name: name}
			routes.Parts = append(routes.Parts, part)
			if endpoints {
				m.eds = append(m.eds, res("outbound|80||"+host, result.Part{Endpoints: new(1)}))
			}
		}
		for i := range n {
			m.objects = append(m.objects, object("VirtualService", fmt.Sprintf("s%05d", i), digest))
		}
		m.rds = []*result.Resource{routes}
		return m
	}
	base, head := side("1", "STRICT_DNS", false), side("2", "EDS", true)
	start := time.Now()
	d := compare(base, head)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("%d inputs took %s", 2*n, took)
	}
	if len(d.Inputs) != 2*n || len(d.Push.Inputs) != 2*n || d.Summary.Changed != 1 {
		t.Errorf("%d inputs, %d of them pushed, %d proxies", len(d.Inputs), len(d.Push.Inputs), d.Summary.Changed)
	}
}

// versioned is a virtual host whose content is told by a digest.
func versioned(name, to, digest string) result.Part {
	p := host(name, name, to)
	p.Digest = result.Digest(len(digest) + int(digest[0]))
	return p
}
