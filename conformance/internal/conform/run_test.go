package conform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoProxies: a mesh in which nothing can be compared has not passed.
func TestNoProxies(t *testing.T) {
	program := func(name string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\necho '{\"proxies\": []}'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	r := &Runner{Plugin: program("plugin"), Judge: program("judge"), Repeat: 1}
	var res *Result
	if err := r.Run([]string{"mesh.yaml"}, func(one *Result) { res = one }); err != nil {
		t.Fatal(err)
	}
	if !res.Failed() || res.Err == nil || !strings.Contains(res.Err.Error(), "no proxies") {
		t.Errorf("%+v", res)
	}
}
