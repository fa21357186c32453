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
	"sheaf/archive/store"
	"sheaf/internal/extent"
	"sheaf/serve/account"
)

// OpenGathering opens what was gathered for an account, as a file of a name. What
// has been taken down since is given to nobody: then it fails with ErrChanged.
func (l *Library) OpenGathering(ctx context.Context, a *account.Account, g *Gathering, name string) (*File, error) {
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
	if f.permit, err = l.Access.Begin(ctx, a); err != nil {
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
	given, view, off, left, err := r.find(r.ctx, r.at)
	if err != nil {
		return err
	}
	r.left = min(left, r.end-r.at)
	if view == nil {
		r.part = io.NopCloser(bytes.NewReader(given[:r.left]))
		return nil
	}
	r.part, err = view.OpenRange(r.ctx, off, r.left)
	return err
}

// find tells what the file has at an offset: left bytes, given ones or those of a view from off on.
func (b gatheredBytes) find(ctx context.Context, at int64) (given []byte, view *archive.View, off, left int64, err error) {
	g := b.of
	if at < int64(len(g.start)) {
		given = g.start[at:]
		return given, nil, 0, int64(len(given)), nil
	}
	i := sort.Search(len(g.pieces), func(i int) bool { return g.pieces[i].end > at })
	begin := int64(len(g.start))
	if i > 0 {
		begin = g.pieces[i-1].end
	}
	if i == len(g.pieces) {
		given = g.end[at-begin:]
		return given, nil, 0, int64(len(given)), nil
	}
	p := &g.pieces[i]
	if view, err = b.view(ctx, p); err != nil {
		return nil, nil, 0, 0, err
	}
	if view.Size() != p.end-begin {
		return nil, nil, 0, 0, fmt.Errorf("gathered: %s has %d bytes, not %d", p.line.Host, view.Size(), p.end-begin)
	}
	return nil, view, at - begin, p.end - at, nil
}

func (b gatheredBytes) view(ctx context.Context, p *gathered) (*archive.View, error) {
	index, err := b.library.index(ctx, p.line)
	if err != nil {
		return nil, err
	}
	part := archive.Part{Source: b.library.source(p.line), Index: index, Digest: p.line.SHA256, Cells: p.numbers()}
	view, _, err := archive.NewStretch(b.of.kind, part)
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

// Extents implements extents.
func (b gatheredBytes) Extents(off, n int64) (extent.Reader, error) {
	if _, ok := store.AsLocal(b.library.Store); !ok {
		return nil, nil
	}
	return &gatheredExtents{gatheredBytes: b, at: off, end: off + n}, nil
}

// gatheredExtents gives the extents of one piece after the other.
type gatheredExtents struct {
	gatheredBytes
	at, end int64         // from where the next piece is, and where the range ends
	part    extent.Reader // of the piece before at; nil: to be opened
}

func (x *gatheredExtents) Next(ctx context.Context) (extent.Extent, error) {
	for {
		if x.part != nil {
			e, err := x.part.Next(ctx)
			if err != io.EOF {
				return e, err
			}
			if err := x.Close(); err != nil {
				return extent.Extent{}, err
			}
		}
		if x.at >= x.end {
			return extent.Extent{}, io.EOF
		}
		given, view, off, left, err := x.find(ctx, x.at)
		if err != nil {
			return extent.Extent{}, err
		}
		left = min(left, x.end-x.at)
		x.at += left
		if view == nil {
			return extent.Extent{Bytes: given[:left]}, nil
		}
		switch x.part, err = view.Extents(off, left); {
		case err != nil:
			return extent.Extent{}, err
		case x.part == nil:
			return extent.Extent{}, errors.New("gathered: a segment is no local file, and others are")
		}
	}
}

func (x *gatheredExtents) Close() error {
	part := x.part
	x.part = nil
	if part == nil {
		return nil
	}
	return part.Close()
}
