// Package saved writes a snapshot into one compact file and reads it back: the
// same rows, so that a saved mesh is audited to the same answer as its source.
//
// A file is the magic, the number of its format, and one gzip stream of the
// snapshot's lists in a fixed order, each a count and its rows. A string that
// occurs often is written once and then referred to by its number; so are sets
// of labels, proxy containers and lists of ports. The format's number rises
// with every change of the rows; a reader takes the formats up to its own.
//
// It refuses to decide what may leave the cluster: the snapshot's Builder keeps
// only what is allowed.
package saved

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/snapshot"
)

// Format is the number of the format that this version writes.
const Format = 2

// magic begins every file; the byte 0x8f keeps it from being taken for text.
const magic = "\x8fMESHSNAP"

// maxSize bounds what a file may unpack to, in bytes.
const maxSize = 4 << 30

// Mesh is what a file holds.
type Mesh struct {
	Snapshot    *snapshot.Snapshot
	Diagnostics []result.Diagnostic // of the input that the snapshot was made of
}

// Is reports whether data, of which the first bytes suffice, is such a file.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) }

// Write writes m. The same mesh gives the same bytes.
func Write(w io.Writer, m *Mesh) error {
	snap, err := allowed(m.Snapshot)
	if err != nil {
		return err
	}
	if _, err := w.Write(append([]byte(magic), Format)); err != nil {
		return err
	}
	zip := gzip.NewWriter(w)
	out := bufio.NewWriterSize(zip, 1<<16)
	c := &coder{w: newWriter(out), format: Format}
	c.mesh(&Mesh{Snapshot: snap, Diagnostics: m.Diagnostics})
	if err := errors.Join(c.err, out.Flush(), zip.Close()); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// Read reads what Write wrote. It fails for what is no snapshot, of a newer
// format, cut short or damaged.
func Read(r io.Reader) (*Mesh, error) {
	in := bufio.NewReader(r)
	head := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(in, head); err != nil || !Is(head) {
		return nil, errors.New("not a snapshot of mesh-audit")
	}
	if f := head[len(magic)]; f == 0 || f > Format {
		return nil, fmt.Errorf("the snapshot has format %d, and this version of mesh-audit reads formats up to %d: use a newer mesh-audit, or take the snapshot anew", f, Format)
	}
	zip, err := gzip.NewReader(in)
	if err != nil {
		return nil, damaged(err)
	}
	zip.Multistream(false)
	limited := &io.LimitedReader{R: zip, N: maxSize}
	c := &coder{r: newReader(bufio.NewReaderSize(limited, 1<<16)), format: head[len(magic)]}
	m := &Mesh{Snapshot: &snapshot.Snapshot{}}
	c.mesh(m)
	if c.err != nil {
		return nil, damaged(c.err)
	}
	switch n, err := io.Copy(io.Discard, c.r.in); { // to the checksum at the end
	case err != nil:
		return nil, damaged(err)
	case n > 0, limited.N == 0:
		return nil, damaged(errors.New("there is more in it than a mesh"))
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, damaged(errors.New("something follows its end"))
	}
	return m, nil
}

func damaged(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the snapshot is cut short: copy or take it anew")
	}
	return fmt.Errorf("the snapshot is damaged (%w): copy or take it anew", err)
}
