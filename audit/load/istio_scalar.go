package load

import (
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// checkScalar refuses a scalar that a field of a message does not take.
func checkScalar(s scalar, fd protoreflect.FieldDescriptor, line int, path string) *problem {
	ok := false
	switch fd.Kind() {
	case protoreflect.BoolKind:
		ok = s.kind == boolean
	case protoreflect.StringKind, protoreflect.BytesKind:
		ok = s.kind == text
	case protoreflect.EnumKind:
		if s.kind == text && fd.Enum().Values().ByName(protoreflect.Name(s.value)) == nil {
			return problemf(line, "%s: %q is none of %s", path, s.value, enumNames(fd.Enum()))
		}
		ok = s.kind == text
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		ok = s.kind == number
	default:
		ok = s.kind == number
		if ok && !inRange(s.value, fd.Kind()) {
			return problemf(line, "%s: %s is not in the range of %s", path, s.value, fd.Kind())
		}
	}
	if !ok {
		return problemf(line, "%s: %s belongs here, not %s", path, protoName(fd.Kind()), scalarName(s))
	}
	return nil
}

func scalarName(s scalar) string {
	switch s.kind {
	case text:
		return strconv.Quote(s.value)
	default:
		return s.value
	}
}

func inRange(v string, k protoreflect.Kind) bool {
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		low, high = math.MinInt32, math.MaxInt32
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		low, high = 0, math.MaxUint32
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		_, err := strconv.ParseUint(v, 10, 64)
		return err == nil
	}
	i, err := strconv.ParseInt(v, 10, 64)
	return err == nil && i >= low && i <= high
}

func enumNames(d protoreflect.EnumDescriptor) string {
	var names []string
	for i := range d.Values().Len() {
		names = append(names, string(d.Values().Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

func protoName(k protoreflect.Kind) string {
	switch k {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind:
		return "text"
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return "a number"
	default:
		return "a whole number"
	}
}
