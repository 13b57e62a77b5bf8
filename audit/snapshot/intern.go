package snapshot

import (
	"maps"
	"slices"
	"strings"
)

// interner shares equal strings and equal label sets between objects: the pods
// of one ReplicaSet carry the same ones.
type interner struct {
	strings map[string]string
	sets    map[string]map[string]string // by canonical text
	configs map[string]string            // what is allowed of the ProxyConfigs seen
}

func newInterner() interner {
	return interner{strings: map[string]string{}, sets: map[string]map[string]string{}, configs: map[string]string{}}
}

// string returns s, or an equal string seen before.
func (in *interner) string(s string) string {
	if s == "" {
		return ""
	}
	if v, ok := in.strings[s]; ok {
		return v
	}
	v := strings.Clone(s)
	in.strings[v] = v
	return v
}

// config returns what is allowed of the text of a ProxyConfig.
func (in *interner) config(text string) string {
	out, ok := in.configs[text]
	if !ok {
		out = allowedConfig(text, proxyConfigMessage)
		in.configs[strings.Clone(text)] = out
	}
	return out
}

// labels returns a map equal to m that must not be changed; nil if m is empty.
func (in *interner) labels(m map[string]string) map[string]string {
	return in.annotations(m, func(string) bool { return true })
}

// annotations is labels for the keys that keep lets through.
func (in *interner) annotations(m map[string]string, keep func(string) bool) map[string]string {
	keys := slices.Sorted(maps.Keys(m))
	keys = slices.DeleteFunc(keys, func(k string) bool { return !keep(k) })
	if len(keys) == 0 {
		return nil
	}
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(k)
		text.WriteByte(0)
		text.WriteString(m[k])
		text.WriteByte(0)
	}
	if set, ok := in.sets[text.String()]; ok {
		return set
	}
	set := make(map[string]string, len(keys))
	for _, k := range keys {
		v := m[k]
		if k == "proxy.istio.io/config" {
			v = in.config(v)
		}
		set[in.string(k)] = in.string(v)
	}
	in.sets[text.String()] = set
	return set
}
