package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// everything is an audit in which each list has two elements, of which the
// first fills each field.
func everything(t *testing.T) *result.Audit {
	t.Helper()
	a := &result.Audit{}
	fill(t, reflect.ValueOf(a).Elem())
	return a
}

// fill sets everything in v to something that is not zero.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"a":[1]}`))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0))
		if v.Type().Elem().Kind() == reflect.Pointer {
			v.Index(1).Set(reflect.New(v.Type().Elem().Elem()))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.SetMapIndex(key, value)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.String:
		v.SetString("<a & b>\u2028")
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("fill does not know %s", v.Type())
	}
}

// The streamed document is, byte for byte, what the libraries make of the whole,
// whatever it holds.
func TestStreamedIsThatOfTheWhole(t *testing.T) {
	for name, a := range map[string]*result.Audit{
		"full": everything(t), "zero": {}, "empty": {Proxies: []result.Proxy{}, Services: []result.Service{}, Gaps: []result.Gap{}},
	} {
		for _, o := range []DataOptions{{}, {Resources: true}, {Details: true}, {Resources: true, Details: true}} {
			var got, want bytes.Buffer
			if err := JSON(&got, a, o); err != nil {
				t.Fatal(err)
			}
			e := json.NewEncoder(&want)
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			if err := e.Encode(trim(a, o)); err != nil {
				t.Fatal(err)
			}
			if got.String() != want.String() {
				t.Errorf("%s %+v: streamed\n%s\nwhole\n%s", name, o, got.String(), want.String())
			}
			got.Reset()
			if err := YAML(&got, a, o); err != nil {
				t.Fatal(err)
			}
			whole, err := yaml.Marshal(trim(a, o))
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != string(whole) {
				t.Errorf("%s %+v: streamed\n%s\nwhole\n%s", name, o, got.String(), whole)
			}
		}
	}
}

// trim returns a copy of the audit that carries what o asks for.
func trim(a *result.Audit, o DataOptions) *result.Audit {
	out := *a
	out.Reasons, out.Objects = o.reasons(a), o.objects(a)
	out.Groups = slices.Clone(a.Groups)
	for i := range out.Groups {
		out.Groups[i] = *o.trimGroup(&out.Groups[i])
	}
	out.Scopes = slices.Clone(a.Scopes)
	for i := range out.Scopes {
		out.Scopes[i] = *o.trimScope(&out.Scopes[i])
	}
	return &out
}
