package report

import (
	"reflect"
	"testing"
)

// TestSizes lists the lengths that a resource had in several runs.
func TestSizes(t *testing.T) {
	run := func(bytes int) *Report {
		return &Report{Proxies: []Proxy{{Namespace: "n", Name: "p", Resources: map[string][]Resource{
			"rds": {{Name: "80", Bytes: bytes}, {Name: "same", Bytes: 5}},
		}}}}
	}
	s := Sizes{}
	s.Compare(run(9), run(7))
	s.Compare(run(9), run(9))
	s.Compare(run(9), run(8))
	want := []Size{{"n", "p", "rds", "80", []int{7, 8, 9}}}
	if got := s.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("sizes %+v, want %+v", got, want)
	}
}
