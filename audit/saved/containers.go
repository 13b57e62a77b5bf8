package saved

import (
	"errors"
	"slices"
	"unsafe"
)

// list codes a list of rows: 0 for none, else its length and one.
func list[T any](c *coder, v *[]T, row func(*coder, *T)) {
	var n uint64
	if *v != nil {
		n = uint64(len(*v)) + 1
	}
	c.number(&n)
	if c.err != nil || n == 0 {
		return
	}
	if !c.reading() {
		for i := range *v {
			row(c, &(*v)[i])
		}
		return
	}
	// What a broken file claims is not all made room for; what is true is not moved
	// while it grows.
	out := make([]T, 0, min(n-1, max(1, mostAhead/uint64(unsafe.Sizeof(*new(T))))))
	for range n - 1 {
		if c.err != nil {
			return
		}
		out = append(out, *new(T))
		row(c, &out[len(out)-1])
	}
	*v = slices.Clip(out)
}

// mostAhead is for how many bytes of rows a list has room before they are read.
// Only as many lists as are nested can claim it at once, and room that is not used
// takes no memory.
const mostAhead = 1 << 29

// optional codes a value that may be missing.
func optional[T any](c *coder, v **T, row func(*coder, *T)) {
	there := *v != nil
	c.bool(&there)
	if !there || c.err != nil {
		return
	}
	if c.reading() {
		*v = new(T)
	}
	row(c, *v)
}

// shared codes a value that many rows have. key is a text that only equal
// values have; it is asked for when writing. Like a word.
func shared[T any](c *coder, v *T, key func() []byte, row func(*coder, *T)) {
	if c.err != nil {
		return
	}
	var id uint64
	if !c.reading() {
		k := key()
		known := false
		if id, known = c.w.shared[string(k)]; known {
			id++
			c.number(&id)
			return
		}
		c.w.shared[string(k)] = uint64(len(c.w.shared))
		id = 0
		c.number(&id)
		row(c, v)
		return
	}
	c.number(&id)
	switch {
	case c.err != nil:
	case id == 0:
		at := len(c.r.shared)
		c.r.shared = append(c.r.shared, nil)
		row(c, v)
		c.r.shared[at] = *v
	case id-1 < uint64(len(c.r.shared)):
		known, ok := c.r.shared[id-1].(T)
		if !ok {
			c.fail(errors.New("it refers to a value of another kind"))
			return
		}
		*v = known
	default:
		c.fail(errors.New("it refers to a value that is not there"))
	}
}
