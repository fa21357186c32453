package serve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"

	"sheaf/archive"
)

// OpenGathering opens what was gathered for an account, as a file of a name. What
// has been taken down since is given to nobody: then it fails with ErrChanged.
func (l *Library) OpenGathering(ctx context.Context, a *Account, g *Gathering, name string) (*File, error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := g.check(v); err != nil {
		v.snap.Release()
		return nil, err
	}
	f := &File{
		Node:    Node{Name: name, Size: g.size, ETag: g.etag, Type: g.form.media, Modified: whole(g.at)},
		content: gatheredBytes{l, g},
		release: v.snap.Release,
	}
	if f.permit, err = l.Begin(ctx, a); err != nil {
		v.snap.Release()
		return nil, err
	}
	return f, nil
}

// check fails with ErrChanged where not all of it may be given out now.
func (g *Gathering) check(v *visit) error {
	if strings.Join(v.scope, " ") != g.scope {
		return ErrChanged
	}
	if v.snap.Version() == g.version {
		return nil
	}
	for i := range g.pieces {
		host := g.pieces[i].line.Host
		if len(v.snap.Tombstones(host)) != g.taken[host] {
			return fmt.Errorf("%s: %w", host, ErrChanged)
		}
	}
	return nil
}

// gatheredBytes reads a gathering.
type gatheredBytes struct {
	library *Library
	of      *Gathering
}

// OpenRange implements ranges. A segment is opened when its bytes come.
func (b gatheredBytes) OpenRange(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return &gatheredReader{gatheredBytes: b, ctx: ctx, at: off, end: off + n}, nil
}

type gatheredReader struct {
	gatheredBytes
	ctx     context.Context
	at, end int64
	part    io.ReadCloser // reads from at on; nil: to be opened
	left    int64         // of part
}

func (r *gatheredReader) Read(p []byte) (int, error) {
	for r.at < r.end {
		if r.part == nil {
			if err := r.open(); err != nil {
				return 0, err
			}
		}
		n, err := r.part.Read(p[:min(int64(len(p)), r.left)])
		r.at += int64(n)
		r.left -= int64(n)
		if r.left == 0 {
			r.part.Close()
			r.part = nil
			err = nil
		} else if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, io.EOF
}

// open opens what the file has at r.at.
func (r *gatheredReader) open() error {
	g := r.of
	given := func(b []byte, off int64) {
		r.left = min(int64(len(b))-off, r.end-r.at)
		r.part = io.NopCloser(bytes.NewReader(b[off:][:r.left]))
	}
	if r.at < int64(len(g.start)) {
		given(g.start, r.at)
		return nil
	}
	i := sort.Search(len(g.pieces), func(i int) bool { return g.pieces[i].end > r.at })
	begin := int64(len(g.start))
	if i > 0 {
		begin = g.pieces[i-1].end
	}
	if i == len(g.pieces) {
		given(g.end, r.at-begin)
		return nil
	}
	p := &g.pieces[i]
	view, err := r.view(p)
	if err != nil {
		return err
	}
	if view.Size() != p.end-begin {
		return fmt.Errorf("gathered: %s has %d bytes, not %d", p.line.Host, view.Size(), p.end-begin)
	}
	r.left = min(p.end, r.end) - r.at
	r.part, err = view.OpenRange(r.ctx, r.at-begin, r.left)
	return err
}

func (r *gatheredReader) view(p *gathered) (*archive.View, error) {
	index, err := r.library.index(r.ctx, p.line)
	if err != nil {
		return nil, err
	}
	part := archive.Part{Source: r.library.source(p.line), Index: index, Digest: p.line.SHA256, Cells: p.numbers()}
	view, _, err := archive.NewStretch(r.of.kind, part)
	return view, err
}

// numbers are those of the cells.
func (p *gathered) numbers() []int {
	cells := make([]int, 0, len(p.cells))
	at := 0
	for rest := p.cells; len(rest) > 0; {
		step, n := binary.Uvarint(rest)
		if n <= 0 {
			return cells // cannot be: they were written here, or checked when they were read
		}
		at += int(step)
		cells, rest = append(cells, at), rest[n:]
	}
	return cells
}

func (r *gatheredReader) Close() error {
	if r.part == nil {
		return nil
	}
	return r.part.Close()
}
