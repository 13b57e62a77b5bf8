package load

import (
	"encoding/json"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fields are what is read of an object or, in a list, of each of its elements:
// the names, and what is read of each. nil: all of it.
type fields struct {
	read  map[string]*fields
	known map[string]bool // the names of all fields that the type has
}

// field tells what is read of a field, and whether any of it is; unknown: the
// type has no such field.
func (f *fields) field(name string) (of *fields, read, unknown bool) {
	if f == nil {
		return nil, true, false
	}
	of, read = f.read[name]
	return of, read, !f.known[name]
}

// fieldsOf are some fields of the struct T.
func fieldsOf[T any](read map[string]*fields) *fields {
	f := &fields{read: read, known: map[string]bool{}}
	addNames(f.known, reflect.TypeFor[T]())
	return f
}

// addNames adds the names of a struct's fields in JSON.
func addNames(to map[string]bool, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			addNames(to, field.Type)
			continue
		}
		to[name] = true
	}
}

// runningPod is what completion and a snapshot read of a Pod that runs.
var runningPod = fieldsOf[corev1.Pod](map[string]*fields{
	"apiVersion": nil, "kind": nil,
	"metadata": fieldsOf[metav1.ObjectMeta](map[string]*fields{
		"name": nil, "namespace": nil, "generateName": nil, "uid": nil, "resourceVersion": nil, "labels": nil, "annotations": nil,
		"ownerReferences": nil, "creationTimestamp": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil,
	}),
	"spec": fieldsOf[corev1.PodSpec](map[string]*fields{
		"nodeName": nil, "serviceAccountName": nil, "serviceAccount": nil, "hostNetwork": nil, "hostname": nil, "subdomain": nil,
		"containers": container, "initContainers": container,
	}),
	"status": fieldsOf[corev1.PodStatus](map[string]*fields{
		"phase": nil, "podIP": nil, "podIPs": nil, "conditions": fieldsOf[corev1.PodCondition](map[string]*fields{"type": nil, "status": nil}),
	}),
})

var container = fieldsOf[corev1.Container](map[string]*fields{"name": nil, "image": nil, "ports": nil, "restartPolicy": nil, "args": nil, "env": nil})

// json is the item as JSON, with what is read of it: nil is all. It is a problem if
// not all that is passed over is known to be harmless.
func (it *item) json(read *fields) ([]byte, *problem) {
	if it.raw == nil {
		e := encoder{buf: make([]byte, 0, 2048)}
		p := e.only(it.node, read)
		return e.buf, p
	}
	if read == nil {
		return it.raw, nil
	}
	if text, ok := appendOnly(make([]byte, 0, len(it.raw)), it.raw, read); ok && json.Valid(it.raw) {
		return text, nil
	}
	return nil, problemf(0, "not all of it can be passed over")
}

// appendOnly appends what is read of a JSON value to buf, unless it has a key
// twice or one that is not known.
func appendOnly(buf, value []byte, read *fields) ([]byte, bool) {
	if read == nil || len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return append(buf, value...), true
	}
	ok, first := true, true
	var seen keySet
	buf = append(buf, value[0])
	bad := eachMember(value, func(m member) bool {
		of := read
		if m.key != nil {
			var is, unknown bool
			if of, is, unknown = read.field(string(m.key)); unknown || !seen.add(m.key) {
				ok = false
				return false
			}
			if !is {
				return true
			}
		}
		if !first {
			buf = append(buf, ',')
		}
		first = false
		if m.key != nil {
			buf = append(appendString(buf, string(m.key)), ':')
		}
		buf, ok = appendOnly(buf, value[m.start:m.end], of)
		return ok
	})
	return append(buf, value[0]+2), ok && bad < 0
}
