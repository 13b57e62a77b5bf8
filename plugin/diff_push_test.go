package plugin_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/plugin"
)

const pushDir = "../testdata/pushes"

// pushRecording is what Istio's own server sent to connected proxies because of
// a change (conformance/record-pushes.sh).
type pushRecording struct {
	Module  string
	Proxies []struct {
		Namespace, Name string
		Sent            map[string]struct{ Bytes int64 }
	}
}

// TestDiffPushes: which proxies are sent which types because of a change, and
// how many bytes, is what Istio's own server sent.
func TestDiffPushes(t *testing.T) {
	files, err := filepath.Glob(pushDir + "/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	base := filepath.Join(pushDir, "base.yaml")
	before := scopeDetails(t, base)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want pushRecording
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			head := pushHead(t, strings.TrimSuffix(file, ".json")+".yaml")
			after := scopeDetails(t, head)
			proxies, bytes, types := 0, int64(0), result.XDS[int]{}
			for _, p := range want.Proxies {
				sent := map[string]bool{}
				for xdsType, s := range p.Sent {
					sent[xdsType] = true
					bytes += s.Bytes
					*types.Of(xdsType)++
				}
				if len(sent) > 0 {
					proxies++
				}
				if name == "pod-label" {
					continue // what the pod serves is not known where only another proxy is asked for
				}
				one := audit.Selection{Namespace: p.Namespace, Pod: p.Name}
				have := predictedTypes(audit.Compare(one.Narrow(before), one.Narrow(after), base, head))
				if diff := cmp.Diff(sent, have); diff != "" {
					t.Errorf("%s/%s: -istiod +diff:\n%s", p.Namespace, p.Name, diff)
				}
			}
			status, out, errs := run(t, "diff", "--base", base, "--head", head, "-o", "json")
			if status != plugin.ExitYes && status != plugin.ExitOK {
				t.Fatalf("exit status %d\n%s", status, errs)
			}
			d := &result.Diff{}
			if err := json.Unmarshal([]byte(out), d); err != nil {
				t.Fatal(err)
			}
			if d.Push.Proxies != proxies || d.Push.Bytes != bytes {
				t.Errorf("%d proxies are sent %d bytes, istiod sends %d proxies %d", d.Push.Proxies, d.Push.Bytes, proxies, bytes)
			}
			for _, in := range d.Push.Inputs {
				if len(d.Push.Inputs) == 1 && in.Proxies != types {
					t.Errorf("by type %+v, istiod sends %+v", in.Proxies, types)
				}
			}
		})
	}
}

// predictedTypes are the types that one proxy is sent because of all inputs.
func predictedTypes(d *result.Diff) map[string]bool {
	types := map[string]bool{}
	for i := range d.Push.Inputs {
		for _, xdsType := range result.Types {
			if *d.Push.Inputs[i].Proxies.Of(xdsType) > 0 {
				types[xdsType] = true
			}
		}
	}
	return types
}

// scopeDetails is a mesh's audit with what a comparison needs.
func scopeDetails(t *testing.T, mesh string) *result.Audit {
	t.Helper()
	status, out, errs := run(t, "scope", "-f", mesh, "-o", "json", "--resources", "--details")
	if status != plugin.ExitOK {
		t.Fatalf("exit status %d\n%s", status, errs)
	}
	a := &result.Audit{}
	if err := json.Unmarshal([]byte(out), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// pushHead is the base with a file's documents instead of its own of the same
// kind and name, and without those that the file's comments delete.
func pushHead(t *testing.T, change string) string {
	t.Helper()
	base, err := os.ReadFile(filepath.Join(pushDir, "base.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(change)
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		if key, ok := strings.CutPrefix(line, "# delete: "); ok {
			replaced[key] = true
		}
	}
	docs := strings.Split(string(text), "---\n")
	for _, doc := range docs {
		replaced[documentKey(t, doc)] = true
	}
	for _, doc := range strings.Split(string(base), "---\n") {
		if !replaced[documentKey(t, doc)] {
			docs = append(docs, doc)
		}
	}
	return writeMesh(t, docs)
}

func documentKey(t *testing.T, doc string) string {
	t.Helper()
	var o struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/%s/%s", o.Kind, o.Metadata.Namespace, o.Metadata.Name)
}
