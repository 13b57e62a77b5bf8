package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// edited is a mesh with one object changed.
type edited struct {
	text   string
	object string // "Kind namespace/name"
	what   string
}

type tree = map[string]any

// mutations are what may be done to an object of a kind; each reports false if
// it cannot be done to this one.
var mutations = map[string][]struct {
	name string
	do   func(tree, *rand.Rand) bool
}{
	"Sidecar":         {{"drop an egress host", dropFrom("spec.egress.*.hosts")}, {"import all", set("spec.egress", []any{tree{"hosts": []any{"*/*"}}})}, {"own namespace only", set("spec.egress", []any{tree{"hosts": []any{"./*"}}})}},
	"VirtualService":  {{"drop a host", dropFrom("spec.hosts")}, {"drop a route", dropFrom("spec.http")}, {"timeout", setIn("spec.http.*", "timeout", "7s")}, {"export to nobody else", set("spec.exportTo", []any{"."})}},
	"DestinationRule": {{"drop a subset", dropFrom("spec.subsets")}, {"simple TLS", set("spec.trafficPolicy", tree{"tls": tree{"mode": "SIMPLE"}})}, {"export to nobody else", set("spec.exportTo", []any{"."})}},
	"Service":         {{"drop a port", dropFrom("spec.ports")}, {"export to nobody else", annotate("networking.istio.io/exportTo", ".")}, {"TCP", setIn("spec.ports.*", "appProtocol", "tcp")}},
	"ServiceEntry":    {{"TCP", setIn("spec.ports.*", "protocol", "TCP")}, {"HTTP", setIn("spec.ports.*", "protocol", "HTTP")}, {"export to nobody else", set("spec.exportTo", []any{"."})}, {"drop a host", dropFrom("spec.hosts")}},
	"Gateway":         {{"drop a server", dropFrom("spec.servers")}, {"another port", setIn("spec.servers.*.port", "number", float64(9443))}, {"all hosts", setIn("spec.servers.*", "hosts", []any{"*"})}},
	"PeerAuthentication": {
		{"strict", set("spec.mtls", tree{"mode": "STRICT"})}, {"off", set("spec.mtls", tree{"mode": "DISABLE"})}, {"permissive", set("spec.mtls", tree{"mode": "PERMISSIVE"})},
	},
	"EndpointSlice":       {{"drop an endpoint", dropFrom("endpoints")}, {"drop a port", dropFrom("ports")}},
	"AuthorizationPolicy": nil, "EnvoyFilter": nil, "Telemetry": nil, "RequestAuthentication": nil,
}

// edit changes or removes one object of the mesh; nil if the one that was
// chosen cannot be changed so.
func edit(mesh string, r *rand.Rand) (*edited, error) {
	docs := strings.Split(mesh, "\n---\n")
	objects := make([]tree, len(docs))
	byKind := map[string][]int{}
	for i, doc := range docs {
		if err := yaml.Unmarshal([]byte(doc), &objects[i]); err != nil {
			return nil, err
		}
		kind, _ := objects[i]["kind"].(string)
		if _, ok := mutations[kind]; ok {
			byKind[kind] = append(byKind[kind], i)
		}
	}
	kinds := make([]string, 0, len(byKind))
	for kind := range byKind {
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	slices.Sort(kinds)
	kind := kinds[r.IntN(len(kinds))]
	i := byKind[kind][r.IntN(len(byKind[kind]))]
	meta, _ := objects[i]["metadata"].(tree)
	name := fmt.Sprintf("%s %v/%v", kind, text(meta["namespace"]), text(meta["name"]))
	list := mutations[kind]
	choices := len(list) + 1
	if kind == "EndpointSlice" {
		choices-- // the plugin completes a Service without slices: to it nothing is gone
	}
	choice := r.IntN(choices)
	if choice == len(list) {
		return &edited{strings.Join(slices.Delete(docs, i, i+1), "\n---\n"), name, "remove " + name}, nil
	}
	if !list[choice].do(objects[i], r) {
		return nil, nil
	}
	doc, err := yaml.Marshal(objects[i])
	if err != nil {
		return nil, err
	}
	docs[i] = strings.TrimSuffix(string(doc), "\n")
	return &edited{strings.Join(docs, "\n---\n"), name, list[choice].name + " of " + name}, nil
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

// at are the trees that a path leads to; * stands for every element of a list.
func at(v any, path []string) []tree {
	if len(path) == 0 {
		if t, ok := v.(tree); ok {
			return []tree{t}
		}
		return nil
	}
	if path[0] == "*" {
		var out []tree
		list, _ := v.([]any)
		for _, item := range list {
			out = append(out, at(item, path[1:])...)
		}
		return out
	}
	t, ok := v.(tree)
	if !ok {
		return nil
	}
	return at(t[path[0]], path[1:])
}

func split(path string) (where []string, last string) {
	words := strings.Split(path, ".")
	return words[:len(words)-1], words[len(words)-1]
}

// dropFrom takes a random element out of a list of at least two.
func dropFrom(path string) func(tree, *rand.Rand) bool {
	where, last := split(path)
	return func(o tree, r *rand.Rand) bool {
		for _, t := range at(o, where) {
			if list, _ := t[last].([]any); len(list) > 1 {
				i := r.IntN(len(list))
				t[last] = slices.Delete(slices.Clone(list), i, i+1)
				return true
			}
		}
		return false
	}
}

// set gives a field another value.
func set(path string, value any) func(tree, *rand.Rand) bool {
	where, last := split(path)
	return func(o tree, _ *rand.Rand) bool { return put(at(o, where), last, value) }
}

// setIn gives a field of the first of the trees another value.
func setIn(path, field string, value any) func(tree, *rand.Rand) bool {
	return func(o tree, _ *rand.Rand) bool { return put(at(o, strings.Split(path, ".")), field, value) }
}

func put(trees []tree, field string, value any) bool {
	for _, t := range trees {
		if fmt.Sprint(t[field]) != fmt.Sprint(value) {
			t[field] = value
			return true
		}
	}
	return false
}

func annotate(key, value string) func(tree, *rand.Rand) bool {
	return func(o tree, _ *rand.Rand) bool {
		meta, _ := o["metadata"].(tree)
		annotations, _ := meta["annotations"].(tree)
		if annotations == nil {
			annotations = tree{}
		}
		meta["annotations"] = annotations
		return put([]tree{annotations}, key, value)
	}
}
