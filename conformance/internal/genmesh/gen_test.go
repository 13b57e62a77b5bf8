package genmesh

import (
	"bytes"
	"testing"
)

// TestSameSeed checks that a seed always gives the same mesh.
func TestSameSeed(t *testing.T) {
	for seed := int64(1); seed <= 40; seed++ {
		a, err := Generate(seed, nil).YAML()
		if err != nil {
			t.Fatal(err)
		}
		b, _ := Generate(seed, nil).YAML()
		if !bytes.Equal(a, b) {
			t.Fatalf("seed %d gives two meshes", seed)
		}
	}
}
