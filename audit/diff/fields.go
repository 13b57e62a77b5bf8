package diff

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/mesh-audit/mesh-audit/audit/result"
)

// fieldChanges tells which fields of an object differ, by walking what the model
// reads of it on both sides; nil: neither side is known, or nothing does.
func fieldChanges(base, head json.RawMessage) []result.FieldChange {
	before, after := decoded(base), decoded(head)
	if before == nil || after == nil {
		return nil
	}
	for _, side := range []map[string]any{before, after} {
		annotations, _ := side["Annotations"].(map[string]any)
		if delete(annotations, result.AssumedAnnotation); len(annotations) == 0 {
			side["Annotations"] = nil
		}
	}
	var w fieldWalk
	for _, top := range []struct{ field, path string }{
		{"Labels", "metadata.labels"}, {"Annotations", "metadata.annotations"}, {"Spec", "spec"}, {"Replicas", "spec.replicas"},
	} {
		w.compare(top.path, before[top.field], after[top.field])
	}
	was, _ := before["Template"].(map[string]any)
	is, _ := after["Template"].(map[string]any)
	for _, k := range keysOf(was, is) {
		path := "spec.template." + strings.ToLower(k[:1]) + k[1:]
		if k == "Labels" || k == "Annotations" {
			path = "spec.template.metadata." + strings.ToLower(k)
		}
		w.compare(path, was[k], is[k])
	}
	return w.out
}

func decoded(content json.RawMessage) map[string]any {
	var out map[string]any
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	if len(content) == 0 || d.Decode(&out) != nil {
		return nil
	}
	return out
}

type fieldWalk struct{ out []result.FieldChange }

func (w *fieldWalk) compare(path string, before, after any) {
	x, isObject := before.(map[string]any)
	y, areObjects := after.(map[string]any)
	if isObject && areObjects || len(x) > 0 && after == nil || len(y) > 0 && before == nil {
		w.objects(path, x, y)
		return
	}
	if x, ok := before.([]any); ok {
		if y, ok := after.([]any); ok {
			w.lists(path, x, y)
			return
		}
	}
	if was, is := fieldValue(before), fieldValue(after); was != is {
		w.out = append(w.out, result.FieldChange{Path: path, Before: was, After: is})
	}
}

func (w *fieldWalk) objects(path string, before, after map[string]any) {
	for _, k := range keysOf(before, after) {
		w.compare(path+fieldKey(k), before[k], after[k])
	}
}

// keysOf are the keys of both, sorted.
func keysOf(x, y map[string]any) []string {
	out := slices.AppendSeq(slices.Collect(maps.Keys(x)), maps.Keys(y))
	slices.Sort(out)
	return slices.Compact(out)
}

// fieldKey is a key as a path has it: labels and the like are quoted.
func fieldKey(key string) string {
	if key == "" || strings.ContainsAny(key, "./[] ") {
		return "[" + strconv.Quote(key) + "]"
	}
	return "." + key
}

// lists leaves out the elements that both lists have, in order, and compares
// the others pair by pair.
func (w *fieldWalk) lists(path string, before, after []any) {
	x, y := elements(before), elements(after)
	for _, gap := range unequal(x, y) {
		paired := min(len(gap.before), len(gap.after))
		for i := range paired {
			w.compare(path+"["+strconv.Itoa(gap.after[i])+"]", before[gap.before[i]], after[gap.after[i]])
		}
		for _, i := range gap.before[paired:] {
			w.out = append(w.out, result.FieldChange{Path: path + "[" + strconv.Itoa(i) + "]", Before: x[i]})
		}
		for _, i := range gap.after[paired:] {
			w.out = append(w.out, result.FieldChange{Path: path + "[" + strconv.Itoa(i) + "]", After: y[i]})
		}
	}
}

func elements(list []any) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = fieldValue(list[i])
	}
	return out
}

// run is indexes of elements between two that both lists have.
type run struct{ before, after []int }

// unequal pairs equal elements greedily, each with the next one of the other
// list, and returns what is left between them.
func unequal(x, y []string) []run {
	var out []run
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		if i < len(x) && j < len(y) && x[i] == y[j] {
			i, j = i+1, j+1
			continue
		}
		m, n := nextEqual(x[i:], y[j:])
		out = append(out, run{numbers(i, m), numbers(j, n)})
		i, j = i+m, j+n
	}
	return out
}

// nextEqual is how many elements of each list go before the first pair of equal
// ones, by the sum of both.
func nextEqual(x, y []string) (m, n int) {
	at := map[string]int{}
	for j := len(y) - 1; j >= 0; j-- {
		at[y[j]] = j
	}
	m, n = len(x), len(y)
	for i := range x {
		if j, ok := at[x[i]]; ok && i+j < m+n {
			m, n = i, j
		}
	}
	return m, n
}

func numbers(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}

// fieldValue is a value as it is told; empty: not set.
func fieldValue(v any) string {
	switch value := v.(type) {
	case nil:
		return ""
	case string:
		return value
	case map[string]any:
		if len(value) == 0 {
			return "{}"
		}
	}
	text, _ := json.Marshal(v) // decoded from JSON: cannot fail
	return string(text)
}
