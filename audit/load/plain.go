package load

import "strings"

// Nearly all names and labels of a large mesh are plain. What is not plain may
// be right too: Kubernetes' own functions decide, and word what is wrong. They
// use regular expressions, which took a tenth of the time of loading.

// isPlain reports a text that is right as a name, as a namespace and as a
// label's value: up to 63 lower-case letters, digits and inner dashes.
func isPlain(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// isPlainLabel reports a label that is right: its value and the parts of its
// key, "prefix.of.parts/name", are plain.
func isPlainLabel(key, value string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	if !isPlain(name) || value != "" && !isPlain(value) || len(prefix) > 253 {
		return false
	}
	for part := range strings.SplitSeq(prefix, ".") {
		if found && !isPlain(part) {
			return false
		}
	}
	return true
}

func allOf(m map[string]string, is func(key, value string) bool) bool {
	for k, v := range m {
		if !is(k, v) {
			return false
		}
	}
	return true
}
