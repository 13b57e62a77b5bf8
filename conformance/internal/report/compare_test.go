package report

import "testing"

// TestMerge joins two listeners of one name.
func TestMerge(t *testing.T) {
	a, b := "a", "b"
	list := []Resource{{Name: "x", Bytes: 1, Parts: []Part{{Match: &b}}}, {Name: "y"}, {Name: "x", Bytes: 2, Parts: []Part{{Match: &a}}}}
	got := Merge(list)
	if len(got) != 2 || got[0].Bytes != 3 || len(got[0].Parts) != 2 || *got[0].Parts[0].Match != "a" {
		t.Errorf("merged: %+v", got)
	}
	if len(list[0].Parts) != 1 {
		t.Error("the input was changed")
	}
}

// TestCompare finds names and parts that differ.
func TestCompare(t *testing.T) {
	with := func(list ...Resource) *Report {
		return &Report{Proxies: []Proxy{{Namespace: "n", Name: "p", Resources: map[string][]Resource{"cds": list}}}}
	}
	one, two := 1, 2
	a := with(Resource{Name: "gone"}, Resource{Name: "same", Parts: []Part{{Endpoints: &one}}})
	b := with(Resource{Name: "same", Parts: []Part{{Endpoints: &two}}})
	got := map[Unstable]bool{}
	for _, u := range Compare(a, b) {
		got[u] = true
	}
	for _, want := range []Unstable{
		{Namespace: "n", Proxy: "p", Type: "cds", Name: "gone"},
		{Namespace: "n", Proxy: "p", Type: "cds", Name: "same", Part: AllParts},
	} {
		if !got[want] {
			t.Errorf("missing %+v in %v", want, got)
		}
	}
}
