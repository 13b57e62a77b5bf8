package diff

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// object is what an input object is known by on both sides.
type object struct{ kind, namespace, name string }

func objectOf(r result.Ref) object { return object{r.Kind, r.Namespace, r.Name} }

// inputs is which objects and settings changed.
type inputs struct {
	index    map[string]int // Input.ID to the index in Diff.Inputs
	byObject map[object]int
	// completed are the owners of assumed objects that changed: what was made
	// of their change.
	completed map[object]bool
	makers    *endpointMakers // once asked for
	// selections are those that were asked for.
	selections map[object][]selection
}

// readInputs compares the input objects by their digests, and the control
// planes by what they say of themselves. Assumed objects are no causes where
// what they were made from changed.
func (c *comparer) readInputs() {
	c.inputs = inputs{index: map[string]int{}, byObject: map[object]int{}, completed: map[object]bool{}, selections: map[object][]selection{}}
	var changed []result.Input
	var edited []result.Input // objects that completion made
	var made []*result.Object
	c.eachChanged(func(change string, was, is *result.Object) {
		one := cmp.Or(is, was)
		in := result.Input{Kind: result.InputObject, Change: change}
		if was != nil {
			in.Base = was.Ref
		}
		if is != nil {
			in.Head = is.Ref
		}
		if was != nil && is != nil {
			in.Fields = fieldChanges(was.Content, is.Content)
		}
		if one.Assumed {
			made = append(made, one)
			edited = append(edited, in)
			c.inputs.completed[objectOf(one.Owner)] = true
			return
		}
		changed = append(changed, in)
	})
	c.addObjects(c.withoutOwned(changed))
	c.readControlPlanes()
	if len(c.out.Inputs) == 0 {
		c.addObjects(c.owners(made))
	}
	if len(c.out.Inputs) == 0 { // completed input that was edited
		c.addObjects(edited)
	}
}

// eachChanged tells of the objects that are not the same on both sides. One that
// completion made up on one side is not there.
func (c *comparer) eachChanged(note func(change string, was, is *result.Object)) {
	before := map[object]*result.Object{}
	for i := range c.base.Objects {
		before[objectOf(c.base.Objects[i].Ref)] = &c.base.Objects[i]
	}
	var gone []*result.Object
	for i := range c.head.Objects {
		is := &c.head.Objects[i]
		key := objectOf(is.Ref)
		was := before[key]
		delete(before, key)
		if was != nil && was.Assumed != is.Assumed && was.Digest != is.Digest && !onlyMarked(was, is) {
			if is.Assumed { // stands for what is no longer there
				gone = append(gone, was)
				continue
			}
			was = nil
		}
		switch {
		case was == nil && c.lacks(c.base, is):
			note(result.InputUnread, nil, is)
		case was == nil:
			note("added", nil, is)
		case was.Digest != is.Digest && !onlyMarked(was, is):
			note("changed", was, is)
		}
	}
	for _, was := range slices.AppendSeq(gone, maps.Values(before)) {
		if c.lacks(c.head, was) {
			note(result.InputUnread, was, nil)
		} else {
			note("removed", was, nil)
		}
	}
}

// onlyMarked reports whether an object is all that completion made up of it on the
// other side: a Namespace that is now written down, say.
func onlyMarked(was, is *result.Object) bool {
	return was.Assumed != is.Assumed && len(was.Content) > 0 && len(is.Content) > 0 && len(fieldChanges(was.Content, is.Content)) == 0
}

// addObjects adds inputs in order of kind, namespace and name.
func (c *comparer) addObjects(list []result.Input) {
	slices.SortFunc(list, func(x, y result.Input) int { return compareObjects(objectOf(x.Ref()), objectOf(y.Ref())) })
	for _, in := range list {
		c.inputs.byObject[objectOf(in.Ref())] = len(c.out.Inputs)
		c.addInput(in)
	}
}

// withoutOwned leaves out what controllers make of a workload's change: its Pods
// and ReplicaSets, and the slices that stand anew for those that it had.
func (c *comparer) withoutOwned(changed []result.Input) []result.Input {
	has := map[object]bool{}
	workloads := map[string]bool{} // namespaces of changed ones
	for i := range changed {
		o := objectOf(changed[i].Ref())
		has[o] = true
		workloads[o.namespace] = workloads[o.namespace] || workloadKinds[o.kind]
	}
	return slices.DeleteFunc(changed, func(in result.Input) bool {
		o := objectOf(in.Ref())
		if o.kind == "EndpointSlice" {
			return workloads[o.namespace] && c.inputs.completed[c.sliceOf(&in)]
		}
		if o.kind != "Pod" && o.kind != "ReplicaSet" {
			return false
		}
		for _, owner := range c.controllers(o) {
			if has[owner] {
				return true
			}
		}
		return false
	})
}

// controllers are what controls a Pod or ReplicaSet, and what controls that. A
// ReplicaSet that was not read is taken for a Deployment's, which names it with
// a hash.
func (c *comparer) controllers(o object) []object {
	var out []object
	for range 2 {
		owner := object{}
		for _, s := range []*side{c.head, c.base} {
			if one := s.object(o); one != nil && owner == (object{}) {
				owner = objectOf(one.Owner)
			}
		}
		if dash := strings.LastIndexByte(o.name, '-'); owner == (object{}) && o.kind == "ReplicaSet" && dash > 0 {
			owner = object{"Deployment", o.namespace, o.name[:dash]}
		}
		if owner == (object{}) {
			break
		}
		out = append(out, owner)
		o = owner
	}
	return out
}

// owners are the workloads whose Pods completion names otherwise, though all
// that the model reads of the workload is the same: another image, say.
func (c *comparer) owners(made []*result.Object) []result.Input {
	var out []result.Input
	told := map[object]bool{}
	for _, one := range made {
		o := objectOf(one.Ref)
		if one.Kind != "Pod" || c.head.object(o) != nil && c.base.object(o) != nil {
			continue
		}
		for _, owner := range c.controllers(o) {
			was, is := c.base.object(owner), c.head.object(owner)
			if was != nil && is != nil && !told[owner] {
				told[owner] = true
				out = append(out, result.Input{Kind: result.InputObject, Change: "changed", Base: was.Ref, Head: is.Ref})
			}
		}
	}
	return out
}

// object finds an input object; nil: it is not there.
func (s *side) object(o object) *result.Object {
	i, ok := slices.BinarySearchFunc(s.Objects, o, func(x result.Object, o object) int { return compareObjects(objectOf(x.Ref), o) })
	if !ok {
		return nil
	}
	return &s.Objects[i]
}

func (c *comparer) addInput(in result.Input) {
	in.ID = id("i", len(c.out.Inputs))
	c.inputs.index[in.ID] = len(c.out.Inputs)
	c.out.Inputs = append(c.out.Inputs, in)
}

// readControlPlanes tells which settings of each istiod changed: with the
// object that has them where that changed, else as an input of their own.
func (c *comparer) readControlPlanes() {
	planes := map[string]*result.ControlPlane{}
	for i := range c.base.Mesh.ControlPlanes {
		planes[c.base.Mesh.ControlPlanes[i].Revision] = &c.base.Mesh.ControlPlanes[i]
	}
	several := len(c.head.Mesh.ControlPlanes) > 1
	for i := range c.head.Mesh.ControlPlanes {
		is := &c.head.Mesh.ControlPlanes[i]
		was := planes[is.Revision]
		if was == nil {
			continue
		}
		prefix := ""
		if several {
			prefix = "revision " + is.Revision + ": "
		}
		deployment := objectOf(is.Ref)
		config := object{"ConfigMap", is.Namespace, "istio"}
		if is.Revision != "default" {
			if named := (object{"ConfigMap", is.Namespace, "istio-" + is.Revision}); c.has(named) {
				config = named
			}
		}
		c.setting(result.InputVersion, deployment, prefix, versionChange(was, is))
		c.setting(result.InputFlags, deployment, prefix, mapChanges(was.Flags, is.Flags, true))
		c.setting(result.InputMeshConfig, config, prefix, mapChanges(was.MeshConfig, is.MeshConfig, false))
	}
}

func (c *comparer) has(o object) bool {
	same := func(x result.Object) bool { return objectOf(x.Ref) == o }
	return slices.ContainsFunc(c.base.Objects, same) || slices.ContainsFunc(c.head.Objects, same)
}

func (c *comparer) setting(kind result.InputKind, holder object, prefix string, changes []string) {
	if len(changes) == 0 {
		return
	}
	said := prefix + strings.Join(changes, ", ")
	if i, ok := c.inputs.byObject[holder]; ok {
		in := &c.out.Inputs[i]
		in.Text = strings.TrimPrefix(in.Text+"; "+said, "; ")
		return
	}
	c.addInput(result.Input{Kind: kind, Change: "changed", Text: said})
}

func versionChange(was, is *result.ControlPlane) []string {
	if was.Version == is.Version {
		return nil
	}
	return []string{fmt.Sprintf("Istio %s -> %s", was.Version, is.Version)}
}

// mapChanges names the keys with other values, and the values if they can be shown.
func mapChanges(was, is map[string]string, show bool) []string {
	keys := map[string]bool{}
	for k := range was {
		keys[k] = true
	}
	for k := range is {
		keys[k] = true
	}
	var out []string
	value := func(m map[string]string, k string) string {
		if v, ok := m[k]; ok {
			return v
		}
		return "unset"
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		x, y := value(was, k), value(is, k)
		switch {
		case x == y:
		case show:
			out = append(out, fmt.Sprintf("%s: %s -> %s", k, x, y))
		default:
			out = append(out, k)
		}
	}
	if !show && len(out) > 0 {
		out[0] = "mesh config " + out[0]
	}
	return out
}

// mergeGaps joins the gaps of both sides; those that both have stand once, the
// others say which side they are of.
func mergeGaps(base, head []result.Gap) []result.Gap {
	key := func(g result.Gap) string {
		return string(g.Kind) + "\x00" + g.Object.Kind + "\x00" + g.Object.Namespace + "/" + g.Object.Name + "\x00" + g.Text
	}
	out := merge(base, head, key, func(g *result.Gap) *string { return &g.Side })
	slices.SortStableFunc(out, func(x, y result.Gap) int { return cmp.Or(-cmp.Compare(x.Kind, y.Kind), cmp.Compare(key(x), key(y))) })
	return out
}

func mergeDiagnostics(base, head []result.Diagnostic) []result.Diagnostic {
	return merge(base, head, func(d result.Diagnostic) result.Diagnostic { return d }, func(d *result.Diagnostic) *string { return &d.Side })
}

// merge lists what either side has, head's first, and notes the side of what the
// other does not have.
func merge[T any, K comparable](base, head []T, key func(T) K, side func(*T) *string) []T {
	out := append(slices.Clone(head), make([]T, 0, len(base))...)
	inBase, inHead := map[K]bool{}, map[K]bool{}
	for _, x := range base {
		inBase[key(x)] = true
	}
	for i := range out {
		k := key(out[i])
		if inHead[k] = true; !inBase[k] {
			*side(&out[i]) = "head"
		}
	}
	for _, x := range base {
		if !inHead[key(x)] {
			*side(&x) = "base"
			out = append(out, x)
		}
	}
	return out
}
