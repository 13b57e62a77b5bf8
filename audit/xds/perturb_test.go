package xds_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// site is one place of a snapshot that can be changed and put back.
type site struct {
	path  string
	apply func() (undo func())
}

// sites walks a snapshot by reflection: each field of each object, and of each
// message in it, set or not. Names are left alone, since the lists are sorted
// by them, and so is where an object was read from.
func sites(snap *snapshot.Snapshot) []site {
	var w walker
	v := reflect.ValueOf(snap).Elem()
	for i := range v.NumField() {
		if list := v.Field(i); list.Kind() == reflect.Slice && list.Type().Elem().Kind() == reflect.Struct && list.Type() != reflect.TypeFor[[]result.Gap]() {
			w.value(v.Type().Field(i).Name, list)
		}
	}
	return w.sites
}

type walker struct{ sites []site }

var keptAsIs = []string{"Kind", "Namespace", "Name", "Source", "Assumed", "Implied"}

func (w *walker) value(path string, v reflect.Value) {
	if v.CanInterface() {
		if m, ok := v.Interface().(proto.Message); ok && v.Kind() == reflect.Pointer {
			if !v.IsNil() {
				w.message(path, m.ProtoReflect())
			}
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.IsExported() && (!slices.Contains(keptAsIs, f.Name) || v.Type() == reflect.TypeFor[snapshot.EnvVar]()) {
				w.value(path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.value(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			w.value(path, v.Elem())
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				w.mapped(path, v, k)
			}
		}
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64:
		w.scalar(path, v)
	}
}

// mapped changes one value of a map, in a copy: maps are shared.
func (w *walker) mapped(path string, m, k reflect.Value) {
	for _, change := range []string{"other", ""} {
		w.sites = append(w.sites, site{fmt.Sprintf("%s[%v]=%q", path, k, change), func() func() {
			old := reflect.ValueOf(m.Interface())
			copied := reflect.MakeMap(m.Type())
			for _, each := range m.MapKeys() {
				copied.SetMapIndex(each, m.MapIndex(each))
			}
			if change == "" {
				copied.SetMapIndex(k, reflect.Value{})
			} else {
				copied.SetMapIndex(k, reflect.ValueOf(change))
			}
			m.Set(copied)
			return func() { m.Set(old) }
		}})
	}
}

func (w *walker) scalar(path string, v reflect.Value) {
	if !v.CanSet() {
		return
	}
	w.sites = append(w.sites, site{path, func() func() {
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		default:
			v.SetInt(v.Int() + 1)
		}
		return func() { v.Set(old) }
	}})
}

// message changes each field of a message of the API.
func (w *walker) message(path string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		at := path + "." + string(f.Name())
		switch {
		case f.IsMap():
		case f.IsList():
			list := m.Get(f).List()
			for j := range list.Len() {
				if f.Message() != nil {
					w.message(fmt.Sprintf("%s[%d]", at, j), list.Get(j).Message())
				}
			}
			if list.Len() > 0 {
				w.set(at+" (cleared)", m, f, protoreflect.Value{})
			}
		case f.Message() != nil:
			if m.Has(f) {
				w.message(at, m.Get(f).Message())
				w.set(at+" (cleared)", m, f, protoreflect.Value{})
			} else {
				w.set(at+" (empty)", m, f, protoreflect.ValueOfMessage(m.NewField(f).Message()))
			}
		default:
			w.set(at, m, f, otherScalar(f, m.Get(f)))
		}
	}
}

func otherScalar(f protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.String() + "x")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(!v.Bool())
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(f.Enum().Values().Get((int(v.Enum()) + 1) % f.Enum().Values().Len()).Number())
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(v.Int()) + 1)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(v.Int() + 1)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(v.Uint()) + 1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(v.Uint() + 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(v.Float() + 1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(v.Float()) + 1)
	}
	return protoreflect.ValueOfBytes([]byte("x"))
}

// set puts a value into a field, or clears it if the value is not valid.
func (w *walker) set(path string, m protoreflect.Message, f protoreflect.FieldDescriptor, value protoreflect.Value) {
	w.sites = append(w.sites, site{path, func() func() {
		before := proto.Clone(m.Interface())
		if value.IsValid() {
			m.Set(f, value)
		} else {
			m.Clear(f)
		}
		return func() {
			proto.Reset(m.Interface())
			proto.Merge(m.Interface(), before)
		}
	}})
}

// podSites say of one pod what the model reads of pods and this one does not
// have: every upper-case word in the model's source as node metadata, every
// word with a slash as label and as annotation, and each field of ProxyConfig.
func podSites(t *testing.T, snap *snapshot.Snapshot, pod int) []site {
	t.Helper()
	p := &snap.Pods[pod]
	var out []site
	at := "Pods[" + p.Namespace + "/" + p.Name + "]"
	env := func(name, value string) {
		out = append(out, site{at + ".env " + name + "=" + value, func() func() {
			old := p.Proxy.Env
			p.Proxy.Env = append(slices.Clip(slices.DeleteFunc(slices.Clone(old), func(e snapshot.EnvVar) bool { return e.Name == name })), snapshot.EnvVar{Name: name, Value: value})
			return func() { p.Proxy.Env = old }
		}})
	}
	pair := func(what string, m *map[string]string, name, value string) {
		out = append(out, site{at + "." + what + " " + name + "=" + value, func() func() {
			old := *m
			*m = map[string]string{name: value}
			for k, v := range old {
				if k != name {
					(*m)[k] = v
				}
			}
			return func() { *m = old }
		}})
	}
	for _, word := range sourceWords(t, `"[A-Z][A-Z0-9_]{3,}"`) {
		for _, value := range []string{"true", "17s,a"} {
			env("ISTIO_META_"+word, value)
		}
		for _, value := range []string{"other.domain", "8080"} {
			env(word, value)
		}
	}
	for _, word := range sourceWords(t, `"[a-z0-9.-]+\.[a-z0-9.-]+/[A-Za-z0-9.-]+"`) {
		pair("label", &p.Labels, word, "other-value-that-is-long")
		pair("annotation", &p.Annotations, word, "true")
	}
	for _, text := range proxyConfigs(t) {
		pair("annotation", &p.Annotations, "proxy.istio.io/config", text)
		env("PROXY_CONFIG", text)
	}
	return out
}

// sourceWords are the quoted words of a form in the model's source, sorted.
func sourceWords(t *testing.T, form string) []string {
	t.Helper()
	words := map[string]bool{}
	for _, dir := range []string{".", "../mesh", "../scope"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if filepath.Base(file) == "flagtable.go" {
				continue // istiod's environment, not a pod's
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range regexp.MustCompile(form).FindAllString(string(text), -1) {
				words[strings.Trim(word, `"`)] = true
			}
		}
	}
	return sortedKeys(words)
}

// proxyConfigs are texts of ProxyConfig with one field set each.
func proxyConfigs(t *testing.T) []string {
	t.Helper()
	var out []string
	add := func(c *meshconfig.ProxyConfig) {
		if text, err := protojson.Marshal(c); err == nil {
			out = append(out, string(text))
		}
	}
	var walk func(m protoreflect.Message, root *meshconfig.ProxyConfig, depth int)
	walk = func(m protoreflect.Message, root *meshconfig.ProxyConfig, depth int) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if f.IsMap() || f.IsList() {
				continue
			}
			if f.Message() == nil {
				m.Set(f, otherScalar(f, m.Get(f)))
				add(root)
			} else {
				inner := m.Mutable(f).Message()
				add(root)
				if depth > 0 {
					walk(inner, root, depth-1)
				}
			}
			m.Clear(f)
		}
	}
	root := &meshconfig.ProxyConfig{}
	walk(root.ProtoReflect(), root, 3)
	return out
}
