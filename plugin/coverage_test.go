package plugin_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	extensions "istio.io/api/extensions/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	networkingv1beta1 "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/load"
)

// TestFieldsJudged: each field of Istio's API is set by one of the meshes that
// were compared with istiod, or stands in testdata/notjudged.txt with a reason.
// A field that a new version of the API adds fails here until it is judged.
func TestFieldsJudged(t *testing.T) {
	set := map[protoreflect.FullName]bool{}
	for _, pattern := range []string{"../testdata/oracle/*/*.yaml.gz", "../testdata/regressions/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, ".gz") {
				text = unzip(t, file)
			}
			noteFields(t, file, text, set)
		}
	}
	missing := map[string]bool{}
	seen := map[protoreflect.FullName]bool{}
	for _, m := range []proto.Message{
		&networking.DestinationRule{}, &networking.VirtualService{}, &networking.Gateway{}, &networking.Sidecar{}, &networking.ServiceEntry{},
		&networking.WorkloadEntry{}, &networking.WorkloadGroup{}, &networking.EnvoyFilter{}, &networkingv1beta1.ProxyConfig{}, &telemetry.Telemetry{},
		&security.AuthorizationPolicy{}, &security.RequestAuthentication{}, &security.PeerAuthentication{}, &extensions.WasmPlugin{},
		&meshconfig.MeshConfig{}, &meshconfig.MeshNetworks{},
	} {
		unset(m.ProtoReflect().Descriptor(), set, seen, missing)
	}
	listed := map[string]bool{}
	text, err := os.ReadFile("testdata/notjudged.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			listed[fields[0]] = true
			if len(fields) == 1 {
				t.Errorf("%s has no reason", fields[0])
			}
		}
	}
	for _, field := range slices.Sorted(maps.Keys(missing)) {
		if !listed[field] {
			t.Errorf("no judged mesh sets %s", field)
		}
	}
	for field := range listed {
		if !missing[field] {
			t.Logf("%s is listed, but a judged mesh sets it", field)
		}
	}
}

// noteFields notes the fields that the objects of a file set.
func noteFields(t *testing.T, file string, text []byte, set map[protoreflect.FullName]bool) {
	t.Helper()
	read, err := load.Bytes(t.Context(), file, text, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range read.Objects {
		if cm, ok := o.Obj.(*corev1.ConfigMap); ok {
			noteText(t, cm.Data["mesh"], &meshconfig.MeshConfig{}, set)
			noteText(t, cm.Data["meshNetworks"], &meshconfig.MeshNetworks{}, set)
			continue
		}
		if pod, ok := o.Obj.(*corev1.Pod); ok {
			noteText(t, pod.Annotations["proxy.istio.io/config"], &meshconfig.ProxyConfig{}, set)
			continue
		}
		spec := reflect.Indirect(reflect.ValueOf(o.Obj)).FieldByName("Spec")
		if spec.IsValid() && spec.CanAddr() {
			if m, ok := spec.Addr().Interface().(proto.Message); ok {
				note(m.ProtoReflect(), set)
			}
		}
	}
}

func noteText(t *testing.T, text string, m proto.Message, set map[protoreflect.FullName]bool) {
	t.Helper()
	if text == "" {
		return
	}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
	}
	if err != nil {
		t.Log(err)
	}
	note(m.ProtoReflect(), set)
}

func note(m protoreflect.Message, set map[protoreflect.FullName]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		set[f.FullName()] = true
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				note(v.Message(), set)
				return true
			})
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				note(v.List().Get(i).Message(), set)
			}
		case f.Message() != nil && !f.IsMap():
			note(v.Message(), set)
		}
		return true
	})
}

// unset collects the fields below a message that nothing sets: of Istio's own
// messages, each once.
func unset(m protoreflect.MessageDescriptor, set, seen map[protoreflect.FullName]bool, missing map[string]bool) {
	if seen[m.FullName()] || !strings.HasPrefix(string(m.FullName()), "istio.") {
		return
	}
	seen[m.FullName()] = true
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if !set[f.FullName()] {
			missing[string(f.FullName())] = true
			continue
		}
		if f.IsMap() {
			f = f.MapValue()
		}
		if f.Message() != nil {
			unset(f.Message(), set, seen, missing)
		}
	}
}
