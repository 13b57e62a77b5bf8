package mesh

import (
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// lineOf is the line of a field, such as "a.b[1].c", in a YAML text, or of what
// it is missing from; 0 if there is none.
func lineOf(text, field string) int {
	var root yaml.Node
	if yaml.Unmarshal([]byte(text), &root) != nil || len(root.Content) == 0 {
		return 0
	}
	line := 0
	for n := root.Content[0]; field != ""; field = strings.TrimPrefix(field, ".") {
		next, rest, at := step(n, field)
		if next == nil {
			break
		}
		n, field, line = next, rest, at
	}
	return line
}

// step goes to the first part of a path, whose names may have dots in them.
func step(n *yaml.Node, path string) (next *yaml.Node, rest string, line int) {
	switch n.Kind {
	case yaml.AliasNode:
		return step(n.Alias, path)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			after, found := strings.CutPrefix(path, n.Content[i].Value)
			if found && (after == "" || after[0] == '.' || after[0] == '[') {
				return n.Content[i+1], after, n.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		index, after, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(index); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], after, n.Content[i].Line
		}
	}
	return nil, "", 0
}
