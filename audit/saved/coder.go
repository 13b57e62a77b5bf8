package saved

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/proto"
)

// coder writes or reads: each row is described once, by a function that hands
// every field to the coder, so that the two directions cannot differ. After the
// first error it does nothing more.
type coder struct {
	w      *writer // nil: reading
	r      *reader
	format byte // of the file
	err    error
}

type writer struct {
	out     *bufio.Writer
	scratch [binary.MaxVarintLen64]byte
	words   map[string]uint64
	sets    map[string]uint64  // by content
	setAt   map[uintptr]uint64 // by address: the Builder shares equal sets
	shared  map[string]uint64  // by content, of all kinds of shared values
}

func newWriter(out *bufio.Writer) *writer {
	return &writer{out: out, words: map[string]uint64{}, sets: map[string]uint64{}, setAt: map[uintptr]uint64{}, shared: map[string]uint64{}}
}

type reader struct {
	in     *bufio.Reader
	buf    []byte
	words  []string
	sets   []map[string]string
	shared []any
}

func newReader(in *bufio.Reader) *reader { return &reader{in: in} }

func (c *coder) reading() bool { return c.w == nil }

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// number codes a number that is not negative.
func (c *coder) number(v *uint64) {
	if c.err != nil {
		return
	}
	if !c.reading() {
		n := binary.PutUvarint(c.w.scratch[:], *v)
		_, err := c.w.out.Write(c.w.scratch[:n])
		c.fail(err)
		return
	}
	n, err := binary.ReadUvarint(c.r.in)
	if err != nil {
		c.fail(err)
		return
	}
	*v = n
}

func (c *coder) int64(v *int64) {
	u := uint64(*v)<<1 ^ uint64(*v>>63) // small negative numbers stay short
	c.number(&u)
	*v = int64(u>>1) ^ -int64(u&1)
}

func (c *coder) int(v *int) {
	n := int64(*v)
	c.int64(&n)
	*v = int(n)
}

func (c *coder) bool(v *bool) {
	var n uint64
	if *v {
		n = 1
	}
	c.number(&n)
	if n > 1 {
		c.fail(errors.New("a truth value is neither true nor false"))
	}
	*v = n == 1
}

var yes, no = true, false

// flag codes an optional truth value; those read are shared.
func (c *coder) flag(v **bool) {
	var n uint64
	switch {
	case *v == nil:
	case **v:
		n = 2
	default:
		n = 1
	}
	c.number(&n)
	if !c.reading() {
		return
	}
	switch n {
	case 0:
		*v = nil
	case 1:
		*v = &no
	case 2:
		*v = &yes
	default:
		c.fail(errors.New("a condition is neither true, false nor unset"))
	}
}

// bytes codes a text of any length. What is read is only valid until the next call.
func (c *coder) bytes(v []byte) []byte {
	n := uint64(len(v))
	c.number(&n)
	if c.err != nil {
		return nil
	}
	if !c.reading() {
		_, err := c.w.out.Write(v)
		c.fail(err)
		return nil
	}
	if n > math.MaxInt32 {
		c.fail(fmt.Errorf("a text of %d bytes", n))
		return nil
	}
	r := c.r
	r.buf = r.buf[:0]
	for left := int(n); left > 0; { // grows as there is input, not as it claims
		step := min(left, 1<<16)
		r.buf = slices.Grow(r.buf, step)
		at := len(r.buf)
		r.buf = r.buf[:at+step]
		if _, err := io.ReadFull(r.in, r.buf[at:]); err != nil {
			c.fail(err)
			return nil
		}
		left -= step
	}
	return r.buf
}

// text codes a string that is hardly ever the same twice.
func (c *coder) text(v *string) {
	if !c.reading() {
		c.bytes(unsafe.Slice(unsafe.StringData(*v), len(*v)))
		return
	}
	*v = string(c.bytes(nil))
}

// word codes a string that other rows have too: 0 for the empty one, 1 for a
// new one, which follows, else its number.
func (c *coder) word(v *string) {
	if c.err != nil {
		return
	}
	if !c.reading() {
		id, known := c.w.words[*v]
		switch {
		case *v == "":
			id = 0
		case known:
			id += 2
		default:
			c.w.words[*v] = uint64(len(c.w.words))
			id = 1
		}
		c.number(&id)
		if id == 1 {
			c.text(v)
		}
		return
	}
	var id uint64
	c.number(&id)
	switch {
	case c.err != nil:
	case id == 0:
		*v = ""
	case id == 1:
		c.text(v)
		c.r.words = append(c.r.words, *v)
	case id-2 < uint64(len(c.r.words)):
		*v = c.r.words[id-2]
	default:
		c.fail(errors.New("it refers to a string that is not there"))
	}
}

// set codes a map that other objects have too, labels for example. Like a word.
func (c *coder) set(v *map[string]string) {
	if c.err != nil {
		return
	}
	if !c.reading() {
		c.writeSet(*v)
		return
	}
	var id uint64
	c.number(&id)
	switch {
	case c.err != nil:
	case id == 0:
		*v = nil
	case id == 1:
		m := map[string]string{}
		c.dictionary(&m)
		*v = m
		c.r.sets = append(c.r.sets, m)
	case id-2 < uint64(len(c.r.sets)):
		*v = c.r.sets[id-2]
	default:
		c.fail(errors.New("it refers to labels that are not there"))
	}
}

func (c *coder) writeSet(m map[string]string) {
	var id uint64
	if m == nil {
		c.number(&id)
		return
	}
	at := reflect.ValueOf(m).Pointer()
	id, known := c.w.setAt[at]
	if !known {
		content := string(content(m))
		if id, known = c.w.sets[content]; !known {
			id = uint64(len(c.w.sets))
			c.w.sets[content] = id
		}
		c.w.setAt[at] = id
	}
	if known {
		id += 2
		c.number(&id)
		return
	}
	id = 1
	c.number(&id)
	c.dictionary(&m)
}

// content is a text that only equal maps have.
func content(m map[string]string) []byte {
	var key []byte
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key = appendText(appendText(key, k), m[k])
	}
	return key
}

func appendText(to []byte, s string) []byte {
	return append(binary.AppendUvarint(to, uint64(len(s))), s...)
}

// dictionary codes the entries of a map in order of their keys.
func (c *coder) dictionary(v *map[string]string) {
	n := uint64(len(*v))
	c.number(&n)
	if !c.reading() {
		for _, key := range slices.Sorted(maps.Keys(*v)) {
			value := (*v)[key]
			c.word(&key)
			c.word(&value)
		}
		return
	}
	m := map[string]string{}
	for range n {
		var key, value string
		c.word(&key)
		c.word(&value)
		if c.err != nil {
			return
		}
		m[key] = value
	}
	*v = m
}

// message is one of Kubernetes' types, which know their own binary form.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func (c *coder) kubernetes(m message) {
	if c.err != nil {
		return
	}
	if !c.reading() {
		data, err := m.Marshal()
		c.fail(err)
		c.bytes(data)
		return
	}
	if data := c.bytes(nil); c.err == nil {
		c.fail(m.Unmarshal(data))
	}
}

func (c *coder) proto(m proto.Message) {
	if c.err != nil {
		return
	}
	if !c.reading() {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		c.fail(err)
		c.bytes(data)
		return
	}
	if data := c.bytes(nil); c.err == nil {
		c.fail(proto.Unmarshal(data, m))
	}
}
