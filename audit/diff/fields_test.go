package diff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mesh-audit/mesh-audit/audit/diff"
	"github.com/mesh-audit/mesh-audit/audit/result"
)

// The fields of a changed object are told by path, with what they were and are.
func TestFields(t *testing.T) {
	for name, c := range map[string]struct{ base, head, want string }{
		"a value":          {`{"Spec":{"a":{"b":1}}}`, `{"Spec":{"a":{"b":2}}}`, "spec.a.b: 1 > 2"},
		"set and unset":    {`{"Spec":{"a":true}}`, `{"Spec":{"b":"x"}}`, "spec.a: true > ; spec.b:  > x"},
		"an object":        {`{"Spec":{}}`, `{"Spec":{"a":{"b":{"c":1},"d":{}}}}`, "spec.a.b.c:  > 1; spec.a.d:  > {}"},
		"an element":       {`{"Spec":{"a":[{"n":1},{"n":2},{"n":3}]}}`, `{"Spec":{"a":[{"n":1},{"n":3}]}}`, `spec.a[1]: {"n":2} > `},
		"one before":       {`{"Spec":{"a":["x"]}}`, `{"Spec":{"a":["y","x"]}}`, "spec.a[0]:  > y"},
		"within one":       {`{"Spec":{"a":[{"n":1,"w":80},{"n":2}]}}`, `{"Spec":{"a":[{"n":1,"w":70},{"n":2}]}}`, "spec.a[0].w: 80 > 70"},
		"another type":     {`{"Spec":{"a":[1]}}`, `{"Spec":{"a":{"b":1}}}`, `spec.a: [1] > {"b":1}`},
		"a large number":   {`{"Spec":{"a":9007199254740993}}`, `{"Spec":{"a":9007199254740992}}`, "spec.a: 9007199254740993 > 9007199254740992"},
		"a label":          {`{"Labels":{"a.b/c":"1"}}`, `{"Labels":{"a.b/c":"2"}}`, `metadata.labels["a.b/c"]: 1 > 2`},
		"a pod template":   {`{"Template":{"Labels":{"a":"1"},"Node":"x"}}`, `{"Template":{"Labels":{"a":"2"},"Node":"y"}}`, "spec.template.metadata.labels.a: 1 > 2; spec.template.node: x > y"},
		"age":              {`{"Created":1,"Spec":{}}`, `{"Created":2,"Spec":{}}`, ""},
		"unknown on one":   {``, `{"Spec":{"a":1}}`, ""},
		"what is not JSON": {`{"Spec":`, `{"Spec":{"a":1}}`, ""},
	} {
		with := func(content, digest string) *result.Audit {
			o := object("VirtualService", "api", digest)
			o.Content = []byte(content)
			return mesh{objects: []result.Object{o}}.audit()
		}
		d := diff.Compare(with(c.base, "1"), with(c.head, "2"), diff.Options{})
		var have []string
		for _, f := range d.Inputs[0].Fields {
			have = append(have, f.Path+": "+f.Before+" > "+f.After)
		}
		if got := strings.Join(have, "; "); got != c.want {
			t.Errorf("%s: have %s, want %s", name, got, c.want)
		}
	}
}

// Pods and ReplicaSets of a workload that changed are no changes of their own.
func TestOwnedInputs(t *testing.T) {
	owned := func(kind, name, ownerKind, owner string) result.Object {
		o := object(kind, name, "1")
		o.Owner = result.Ref{Kind: ownerKind, Namespace: "apps", Name: owner}
		return o
	}
	sorted := func(list ...result.Object) mesh {
		slices.SortFunc(list, func(x, y result.Object) int { return strings.Compare(x.Kind+x.Name, y.Kind+y.Name) })
		return mesh{objects: list}
	}
	names := func(d *result.Diff) string {
		var out []string
		for i := range d.Inputs {
			out = append(out, d.Inputs[i].Ref().Kind+"/"+d.Inputs[i].Ref().Name+" "+d.Inputs[i].Change)
		}
		return strings.Join(out, ", ")
	}
	base := sorted(object("Deployment", "web", "1"), owned("ReplicaSet", "web-a", "Deployment", "web"), owned("Pod", "web-a-1", "ReplicaSet", "web-a"), owned("Pod", "web-a-2", "ReplicaSet", "web-a"))
	for name, c := range map[string]struct {
		head mesh
		want string
	}{
		"read":     {sorted(object("Deployment", "web", "2"), owned("ReplicaSet", "web-b", "Deployment", "web"), owned("Pod", "web-b-1", "ReplicaSet", "web-b")), "Deployment/web changed"},
		"not read": {sorted(object("Deployment", "web", "2"), owned("Pod", "web-b-1", "ReplicaSet", "web-b")), "Deployment/web changed"},
		"not the workload": {sorted(object("Deployment", "web", "1"), owned("ReplicaSet", "web-a", "Deployment", "web"), owned("Pod", "web-a-1", "ReplicaSet", "web-a")),
			"Pod/web-a-2 removed"},
	} {
		if have := names(compare(base, c.head)); have != c.want {
			t.Errorf("%s: have %s, want %s", name, have, c.want)
		}
	}
}

// TestAssumedMark: a Namespace that is written down is no change against the one
// that completion made of its name, unless it says more:
// then it is added, or removed.
func TestAssumedMark(t *testing.T) {
	made := of(object("Namespace", "shop", "1"), `{"Labels": {"a": "b"}, "Annotations": {"mesh-audit/assumed": "true"}}`)
	made.Assumed = true
	written := of(object("Namespace", "shop", "2"), `{"Labels": {"a": "b"}, "Annotations": null}`)
	labelled := of(object("Namespace", "shop", "3"), `{"Labels": {"a": "c"}, "Annotations": null}`)
	list := func(o result.Object) mesh { return mesh{objects: []result.Object{o}} }
	if d := compare(list(made), list(written)); len(d.Inputs) != 0 {
		t.Errorf("%+v", d.Inputs)
	}
	if d := compare(list(written), list(made)); len(d.Inputs) != 0 {
		t.Errorf("swapped: %+v", d.Inputs)
	}
	if d := compare(list(made), list(labelled)); len(d.Inputs) != 1 || d.Inputs[0].Change != "added" {
		t.Errorf("%+v", d.Inputs)
	}
	if d := compare(list(labelled), list(made)); len(d.Inputs) != 1 || d.Inputs[0].Change != "removed" {
		t.Errorf("swapped: %+v", d.Inputs)
	}
}
