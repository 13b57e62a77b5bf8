package load

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// scalarKind is the type of a scalar in JSON.
type scalarKind int

const (
	null scalarKind = iota
	boolean
	number
	text
)

// scalar is a scalar's JSON: the text itself for a string, without quotes.
type scalar struct {
	kind  scalarKind
	value string
}

var yamlFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

// resolve gives a scalar the type that kubectl gives it, YAML 1.1's: "yes" and
// "off" are booleans.
func resolve(n *yaml.Node) (scalar, *problem) {
	v := n.Value
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 && n.Style&yaml.TaggedStyle == 0 {
		return scalar{text, v}, nil
	}
	if n.Style&yaml.TaggedStyle != 0 {
		switch n.ShortTag() {
		case "!!binary":
			data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(v), ""))
			if err != nil {
				return scalar{}, problemf(n.Line, "!!binary is not base64")
			}
			return scalar{text, string(data)}, nil
		case "!!null", "!!bool", "!!int", "!!float":
		default:
			return scalar{text, v}, nil
		}
	}
	s, ok := resolvePlain(v)
	if !ok {
		return scalar{}, problemf(n.Line, "%s is not a number that JSON can hold", v)
	}
	return s, nil
}

// resolvePlain types an unquoted scalar.
func resolvePlain(v string) (scalar, bool) {
	switch v {
	case "", "~", "null", "Null", "NULL":
		return scalar{null, "null"}, true
	case "true", "True", "TRUE", "yes", "Yes", "YES", "y", "Y", "on", "On", "ON":
		return scalar{boolean, "true"}, true
	case "false", "False", "FALSE", "no", "No", "NO", "n", "N", "off", "Off", "OFF":
		return scalar{boolean, "false"}, true
	case ".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF":
		return scalar{}, false
	}
	c := v[0]
	if c == '.' {
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return float(f)
		}
		return scalar{text, v}, true
	}
	if c != '+' && c != '-' && (c < '0' || c > '9') {
		return scalar{text, v}, true
	}
	plain := strings.ReplaceAll(v, "_", "")
	if i, err := strconv.ParseInt(plain, 0, 64); err == nil {
		return scalar{number, strconv.FormatInt(i, 10)}, true
	}
	if u, err := strconv.ParseUint(plain, 0, 64); err == nil {
		return scalar{number, strconv.FormatUint(u, 10)}, true
	}
	if yamlFloat.MatchString(plain) {
		if f, err := strconv.ParseFloat(plain, 64); err == nil {
			return float(f)
		}
	}
	return scalar{text, v}, true
}

func float(f float64) (scalar, bool) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return scalar{}, false
	}
	data, err := json.Marshal(f)
	return scalar{number, string(data)}, err == nil
}
