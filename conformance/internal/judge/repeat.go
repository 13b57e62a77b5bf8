package judge

import (
	"math/rand"

	"github.com/mesh-audit/mesh-audit/conformance/internal/mesh"
	"github.com/mesh-audit/mesh-audit/conformance/internal/report"
)

// Repeat runs a mesh several times, each time with its objects and its
// proxies in another order, and lists in the first run's report what was not
// always the same.
func Repeat(m *mesh.Mesh, runs int) (*report.Report, error) {
	first, err := Judge(m)
	if err != nil {
		return nil, err
	}
	found, sizes := map[string]report.Unstable{}, report.Sizes{}
	for i := 1; i < runs; i++ {
		shuffle(m, int64(i))
		again, err := Judge(m)
		if err != nil {
			return nil, err
		}
		for _, u := range report.Compare(first, again) {
			found[u.ID()] = u
		}
		sizes.Compare(first, again)
	}
	for _, u := range found {
		first.Unstable = append(first.Unstable, u)
	}
	first.Sizes = sizes.List()
	first.Sort()
	return first, nil
}

// shuffle changes the order of the mesh's objects, the same way for a seed.
func shuffle(m *mesh.Mesh, seed int64) {
	r := rand.New(rand.NewSource(seed))
	r.Shuffle(len(m.Kube), func(i, j int) { m.Kube[i], m.Kube[j] = m.Kube[j], m.Kube[i] })
	r.Shuffle(len(m.Configs), func(i, j int) { m.Configs[i], m.Configs[j] = m.Configs[j], m.Configs[i] })
	r.Shuffle(len(m.Pods), func(i, j int) { m.Pods[i], m.Pods[j] = m.Pods[j], m.Pods[i] })
}
