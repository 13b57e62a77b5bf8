package xds_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// eachCase runs a test for every .want file of testdata/dir, with its text and
// the mesh's files: base.yaml and the case's own.
func eachCase(t *testing.T, dir string, test func(t *testing.T, want string, files ...string)) {
	t.Helper()
	cases, err := filepath.Glob(filepath.Join("testdata", dir, "*.want"))
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range cases {
		input := strings.TrimSuffix(file, ".want") + ".yaml"
		t.Run(filepath.Base(input), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, string(want), filepath.Join("testdata", dir, "base.yaml"), input)
		})
	}
}
