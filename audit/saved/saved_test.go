package saved_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mesh-audit/mesh-audit/audit/complete"
	"github.com/mesh-audit/mesh-audit/audit/demo"
	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/saved"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

func write(t testing.TB, m *saved.Mesh) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := saved.Write(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func demoMesh(t testing.TB) *saved.Mesh {
	t.Helper()
	read, err := demo.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	complete.Apply(read, complete.Options{})
	return &saved.Mesh{Snapshot: read.Snapshot(), Diagnostics: []result.Diagnostic{{Source: result.Source{File: "f", Line: 3}, Text: "bad"}}}
}

// TestEveryFieldComesBack fills each field of a snapshot, whatever fields there
// are, and reads them back: a field that is added to a row and not to the file
// fails here.
func TestEveryFieldComesBack(t *testing.T) {
	want := &saved.Mesh{}
	f := filler{}
	f.fill(reflect.ValueOf(want).Elem(), "mesh")
	have, err := saved.Read(bytes.NewReader(write(t, want)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// filler gives every field a value of its own that is not zero.
type filler struct{ n int64 }

func (f *filler) fill(v reflect.Value, path string) {
	f.n++
	switch at := v.Addr().Interface().(type) {
	case *corev1.ServiceSpec:
		*at = corev1.ServiceSpec{ClusterIP: fmt.Sprint("10.0.0.", f.n), Ports: []corev1.ServicePort{{Port: 80}}}
		return
	case *corev1.ResourceRequirements:
		at.Limits = corev1.ResourceList{"cpu": resource.MustParse("2")}
		return
	case *metav1.LabelSelector:
		at.MatchLabels = map[string]string{"a": fmt.Sprint(f.n)}
		return
	case proto.Message:
		fields := at.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if fd := fields.Get(i); fd.Message() != nil && !fd.IsMap() && !fd.IsList() {
				at.ProtoReflect().Mutable(fd)
			}
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0), path)
		f.fill(v.Index(1), path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		f.fill(key, path)
		f.fill(value, path)
		v.SetMapIndex(key, value)
	case reflect.String:
		if strings.HasSuffix(path, ".MeshConfigYAML") {
			v.SetString("rootNamespace: infra")
			return
		}
		v.SetString(fmt.Sprintf("%s: %d", strings.ToLower(path[strings.LastIndexByte(path, '.')+1:]), f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.n - 20)
	default:
		panic(path + ": a field of kind " + v.Kind().String())
	}
}

func TestDemoComesBack(t *testing.T) {
	want := demoMesh(t)
	data := write(t, want)
	have, err := saved.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if !bytes.Equal(data, write(t, have)) {
		t.Error("what was read is written differently")
	}
}

// TestBadFiles: whatever is wrong with a file is an error that says what to do.
func TestBadFiles(t *testing.T) {
	good := write(t, demoMesh(t))
	for n := 0; n < len(good); n += 1 + n/64 {
		_, err := saved.Read(bytes.NewReader(good[:n]))
		want := "cut short"
		if n < 10 {
			want = "not a snapshot"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%d bytes of %d: %v", n, len(good), err)
		}
	}
	for n := 0; n < len(good); n += 1 + n/64 {
		damaged := bytes.Clone(good)
		damaged[n] ^= 0x10
		m, err := saved.Read(bytes.NewReader(damaged))
		if err == nil && !bytes.Equal(good, write(t, m)) { // some bits of gzip mean nothing
			t.Fatalf("byte %d changed, and another mesh was read", n)
		}
	}
	newer := bytes.Clone(good)
	newer[9] = saved.Format + 1
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"newer":    {newer, "reads formats up to 2: use a newer mesh-audit"},
		"trailing": {append(bytes.Clone(good), 'x'), "something follows its end"},
		"text":     {[]byte("apiVersion: v1\nkind: Service\n"), "not a snapshot"},
		"more":     {append(bytes.Clone(good[:10]), repack(t, good[10:], "more")...), "more in it than a mesh"},
		"zeros":    {append(bytes.Clone(good[:10]), repack(t, nil, strings.Repeat("\xff", 4096))...), "damaged"},
	} {
		if _, err := saved.Read(bytes.NewReader(c.data)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func repack(t *testing.T, zipped []byte, tail string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if zipped != nil {
		r, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(zip, r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(zip, tail); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestUnreadableMeshConfig: what cannot be searched for secrets is not written.
func TestUnreadableMeshConfig(t *testing.T) {
	m := &saved.Mesh{Snapshot: &snapshot.Snapshot{ConfigMaps: []snapshot.ConfigMap{{
		Meta: snapshot.Meta{Namespace: "istio-system", Name: "istio"}, Data: map[string]string{"mesh": "password: [s3cret"},
	}}}}
	if err := saved.Write(io.Discard, m); err == nil || !strings.Contains(err.Error(), "ConfigMap istio-system/istio, key mesh is not a YAML object") {
		t.Error(err)
	}
}

// FuzzRead: no file makes the reader panic, and what it takes can be written.
func FuzzRead(f *testing.F) {
	good := write(f, demoMesh(f))
	zip, err := gzip.NewReader(bytes.NewReader(good[10:]))
	if err != nil {
		f.Fatal(err)
	}
	plain, err := io.ReadAll(zip)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add(plain[:len(plain)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var file bytes.Buffer
		file.Write(good[:10])
		zip := gzip.NewWriter(&file)
		_, _ = zip.Write(data)
		_ = zip.Close()
		m, err := saved.Read(&file)
		if err != nil {
			return
		}
		if err := saved.Write(io.Discard, m); err != nil && !strings.Contains(err.Error(), "YAML") && !strings.Contains(err.Error(), "UTF-8") {
			t.Error(err)
		}
	})
}
