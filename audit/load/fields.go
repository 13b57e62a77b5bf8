package load

// fields are what is read of an object or, in a list, of each of its elements:
// the names, and what is read of each. nil: all of it.
type fields map[string]fields

// field reports whether a field is read, and what of it.
func (f fields) field(name string) (of fields, read bool) {
	if f == nil {
		return nil, true
	}
	of, read = f[name]
	return of, read
}

// runningPod is what completion and a snapshot read of a Pod that runs.
var runningPod = fields{
	"apiVersion": nil, "kind": nil,
	"metadata": {
		"name": nil, "namespace": nil, "generateName": nil, "uid": nil, "resourceVersion": nil, "labels": nil, "annotations": nil,
		"ownerReferences": nil, "creationTimestamp": nil, "deletionTimestamp": nil, "deletionGracePeriodSeconds": nil,
	},
	"spec": {
		"nodeName": nil, "serviceAccountName": nil, "serviceAccount": nil, "hostNetwork": nil, "hostname": nil, "subdomain": nil,
		"containers": container, "initContainers": container,
	},
	"status": {"phase": nil, "podIP": nil, "podIPs": nil, "conditions": {"type": nil, "status": nil}},
}

var container = fields{"name": nil, "image": nil, "ports": nil, "restartPolicy": nil, "args": nil, "env": nil}

// json is the item as JSON, with what is read of it.
func (it *item) json(read fields) ([]byte, *problem) {
	if it.raw == nil {
		e := encoder{buf: make([]byte, 0, 2048)}
		p := e.only(it.node, read)
		return e.buf, p
	}
	if read == nil {
		return it.raw, nil
	}
	text, ok := appendOnly(make([]byte, 0, len(it.raw)), it.raw, read)
	if !ok {
		return nil, problemf(0, "not valid JSON")
	}
	return text, nil
}

// appendOnly appends what is read of a JSON value to buf.
func appendOnly(buf, value []byte, read fields) ([]byte, bool) {
	if read == nil || len(value) == 0 || value[0] != '{' && value[0] != '[' {
		return append(buf, value...), true
	}
	ok, first := true, true
	buf = append(buf, value[0])
	bad := eachMember(value, func(m member) bool {
		of := read
		if m.key != nil {
			var is bool
			if of, is = read.field(string(m.key)); !is {
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
