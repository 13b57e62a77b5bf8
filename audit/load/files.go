package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/mesh-audit/mesh-audit/audit/result"
	"github.com/mesh-audit/mesh-audit/audit/saved"
)

// maxFile bounds one input, so that a device or an endless pipe ends.
const maxFile = 2 << 30

// Files reads everything that the options name. The error is for a request that
// cannot be carried out at all (a path that does not exist, a URL, a bad
// kustomization, a cancelled context); what is wrong with single files and
// documents is in the Result.
func Files(ctx context.Context, o Options) (*Result, error) {
	from := place{o.Tree}
	p := newParser(ctx, o.Namespace)
	p.whole = o.Whole
	files, err := p.expand(from, &o)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			break
		}
		data, err := from.readUnless(ctx, name, o.Stdin)
		if err != nil {
			p.result.Gaps = append(p.result.Gaps, unreadable(name, from.linked(name, err)))
			continue
		}
		if saved.Is(data) {
			if err := p.saved(name, data); err != nil {
				return nil, errors.Join(err, p.group.Wait())
			}
			continue
		}
		if bytes.HasPrefix(data, []byte(largeFilePointer)) {
			p.result.Gaps = append(p.result.Gaps, unreadable(name, errLargeFile))
			continue
		}
		p.parse(name, data)
	}
	var kustomizeErr error
	if o.Kustomize != "" && ctx.Err() == nil && !p.lacks(from, &o, o.Kustomize) {
		kustomizeErr = p.kustomize(from, o.Kustomize)
	}
	r, err := p.finish() // also waits for what is being decoded
	switch {
	case kustomizeErr != nil:
		return nil, kustomizeErr
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("reading the input: %w", ctx.Err())
	}
	return r, nil
}

// largeFilePointer begins what Git LFS keeps in a repository instead of a file.
const largeFilePointer = "version https://git-lfs.github.com/spec/"

var errLargeFile = errors.New("it is a pointer of Git LFS, whose file is not in the repository (\"git lfs pull\" puts it into the work tree)")

// Bytes reads one text, as if it were the file of that name, with Options.Whole.
func Bytes(ctx context.Context, name string, data []byte, namespace string) (*Result, error) {
	p := newParser(ctx, namespace)
	p.whole = true
	p.parse(name, data)
	return p.finish()
}

// readUnless reads, but gives up when ctx ends: a pipe may never have a writer.
func (p place) readUnless(ctx context.Context, name string, stdin io.Reader) ([]byte, error) {
	type answer struct {
		data []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		data, err := p.read(name, stdin)
		done <- answer{data, err}
	}()
	select {
	case a := <-done:
		return a.data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p place) read(name string, stdin io.Reader) ([]byte, error) {
	if name == Stdin {
		if stdin == nil {
			return nil, fmt.Errorf("there is no standard input")
		}
		return readAll(stdin)
	}
	info, err := p.stat(name)
	if err != nil {
		return nil, err
	}
	if p.tree != nil {
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("not a file")
		}
		return fs.ReadFile(p.tree, name)
	}
	if info.Mode()&os.ModeDevice != 0 || info.IsDir() {
		return nil, fmt.Errorf("not a file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info.Mode().IsRegular() && info.Size() <= maxFile {
		data := make([]byte, info.Size())
		n, err := io.ReadFull(f, data)
		if err == io.ErrUnexpectedEOF || err == io.EOF {
			err = nil
		}
		return data[:n], err
	}
	return readAll(f)
}

func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("larger than 2 GiB")
	}
	return data, nil
}

// parser decodes documents on all processors and keeps their order.
type parser struct {
	ctx       context.Context
	group     *errgroup.Group
	namespace string
	whole     bool
	parsed    []*parsed
	result    Result
}

func newParser(ctx context.Context, namespace string) *parser {
	if namespace == "" {
		namespace = "default"
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	return &parser{ctx: ctx, group: g, namespace: namespace}
}

// parse starts decoding a file's documents.
func (p *parser) parse(file string, data []byte) { p.parseAt(file, data, nil) }

// parseAt is parse for a text that was made from what stands at another place;
// nil: for the file's own text.
func (p *parser) parseAt(file string, data []byte, at *result.Source) {
	for _, doc := range split(data) {
		out := &parsed{file: file, at: at, namespace: p.namespace, whole: p.whole}
		p.parsed = append(p.parsed, out)
		p.group.Go(func() error {
			if err := p.ctx.Err(); err != nil {
				return err
			}
			out.document(doc)
			return nil
		})
	}
}

// saved reads a saved snapshot.
func (p *parser) saved(name string, data []byte) error {
	if p.result.Saved != nil {
		return fmt.Errorf("cannot read %s: one snapshot at a time can be read", name)
	}
	m, err := saved.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", name, err)
	}
	p.result.Saved = m
	p.result.Diagnostics = append(p.result.Diagnostics, m.Diagnostics...)
	return nil
}

// finish waits for all documents and joins them.
func (p *parser) finish() (*Result, error) {
	if err := p.group.Wait(); err != nil {
		return nil, fmt.Errorf("reading the input: %w", err)
	}
	r := &p.result
	r.Ignored = map[string]int{}
	for _, d := range p.parsed {
		r.Objects = append(r.Objects, d.objects...)
		r.Unmodelled = append(r.Unmodelled, d.unmodelled...)
		r.UnmodelledJSON = append(r.UnmodelledJSON, d.unmodelledJSON...)
		r.Diagnostics = append(r.Diagnostics, d.diagnostics...)
		for _, kind := range d.ignored {
			r.Ignored[kind]++
		}
	}
	r.dropDuplicates()
	return r, nil
}
