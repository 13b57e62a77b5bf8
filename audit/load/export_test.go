package load

// ToJSON writes a YAML document as JSON.
func ToJSON(text []byte) ([]byte, error) {
	root, p := parseYAML(document{text: text, line: 1})
	if p != nil {
		return nil, p
	}
	var e encoder
	if p := e.value(root); p != nil {
		return nil, p
	}
	return e.buf, nil
}
