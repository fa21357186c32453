package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
)

// ErrChanged says that something of what was gathered has been taken down since,
// or is not the account's to see any more.
var ErrChanged = errors.New("what was gathered may not be given out any more; gather it anew")

// Gathering is a file put together of chosen records of many segments: copies of
// stored ranges, of which any can be read at once. It holds a few bytes a record
// and some hundred a segment. It is not changed once it is finished.
type Gathering struct {
	kind    archive.ViewKind
	form    form
	pieces  []gathered
	start   []byte
	end     []byte
	sum     archive.Stretch
	size    int64
	etag    string
	records int64
	taken   map[string]int // of hosts with take-downs: how many there were
	scope   string
	version int64 // of the catalog that it was gathered from
	at      time.Time
}

// gathered is what is taken of one segment.
type gathered struct {
	line  catalog.Line // as far as it is needed to find the bytes
	cells []byte       // numbers of cells, ascending: the differences, as varints
	end   int64        // where it ends in the file
}

// Records is how many records it holds.
func (g *Gathering) Records() int64 { return g.records }

// Size is the file's length in bytes.
func (g *Gathering) Size() int64 { return g.size }

// memory is about what it takes, in bytes.
func (g *Gathering) memory() int64 {
	n := int64(1024)
	for i := range g.pieces {
		n += int64(len(g.pieces[i].cells)) + 400
	}
	return n
}

// gatherRun is how many records are put in the order of their segments at once.
const gatherRun = 1 << 16

// Gatherer puts a Gathering together. Records come in any order; in the file those
// of a segment stand together, as far as they came near one another.
type Gatherer struct {
	library *Library
	account *Account
	of      *Gathering
	sum     archive.Stretch
	lines   map[int64]catalog.Line
	waiting map[int64][]int64 // offsets of cells, by their segment's number
	n       int
	digest  []byte
}

// Gather begins a file of a form: .tar.gz, .warc.gz or .members.tar.gz. It holds what the
// account may see at the version of the catalog that the records come from.
func (l *Library) Gather(a *Account, suffix string) (*Gatherer, error) {
	i := slices.IndexFunc(forms[:], func(f form) bool { return f.suffix == suffix })
	if i < 0 || !slices.Contains([]archive.ViewKind{archive.Members, archive.Single, archive.WARC}, forms[i].kind) {
		return nil, fmt.Errorf("gather: form %.20q: %w", suffix, ErrNotFound)
	}
	return &Gatherer{
		library: l, account: a,
		of:      &Gathering{kind: forms[i].kind, form: forms[i], taken: make(map[string]int), scope: strings.Join(a.scope(), " ")},
		lines:   make(map[int64]catalog.Line),
		waiting: make(map[int64][]int64),
	}, nil
}

// Add takes a record.
func (g *Gatherer) Add(ctx context.Context, c *Capture) error {
	if g.of.version == 0 {
		g.of.version, g.of.at = c.host.snap.Version(), c.host.snap.Published()
	}
	seq := c.Line.Seq
	if _, ok := g.lines[seq]; !ok {
		l := c.Line
		g.lines[seq] = catalog.Line{
			Host: l.Host, Edition: l.Edition, Seq: seq, Object: l.Object, Offset: l.Offset, Length: l.Length,
			IndexOffset: l.IndexOffset, IndexLength: l.IndexLength, SHA256: l.SHA256,
		}
		if n := len(c.host.snap.Tombstones(l.Host)); n > 0 {
			g.of.taken[l.Host] = n
		}
	}
	g.waiting[seq] = append(g.waiting[seq], c.Offset)
	if g.n++; g.n >= gatherRun {
		return g.flush(ctx)
	}
	return nil
}

// Size is how long the file is so far, without those records that wait to be put in order.
func (g *Gatherer) Size() int64 { return g.sum.Size }

// flush puts what waits in the order of publication and of the segments.
func (g *Gatherer) flush(ctx context.Context) error {
	seqs := make([]int64, 0, len(g.waiting))
	for seq := range g.waiting {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	for _, seq := range seqs {
		if err := g.segment(ctx, g.lines[seq], g.waiting[seq]); err != nil {
			return err
		}
	}
	clear(g.waiting)
	clear(g.lines)
	g.n = 0
	return nil
}

func (g *Gatherer) segment(ctx context.Context, line catalog.Line, offsets []int64) error {
	index, err := g.library.index(ctx, line)
	if err != nil {
		return err
	}
	slices.Sort(offsets)
	p := gathered{line: line}
	var cells []int
	last := 0
	for _, offset := range slices.Compact(offsets) {
		n, ok := slices.BinarySearchFunc(index.Cells, offset, func(c archive.Cell, offset int64) int { return cmp.Compare(c.Offset, offset) })
		if !ok {
			return fmt.Errorf("gather: %s has no cell at %d", line.Host, offset)
		}
		p.cells = binary.AppendUvarint(p.cells, uint64(n-last))
		cells, last = append(cells, n), n
	}
	_, stretch, err := archive.NewStretch(g.of.kind, archive.Part{Source: g.library.source(line), Index: index, Digest: line.SHA256, Cells: cells})
	if err != nil {
		return err
	}
	g.sum = g.sum.Join(stretch)
	p.end = g.sum.Size
	g.of.records += int64(len(cells))
	g.of.pieces = append(g.of.pieces, p)
	d := sha256.New()
	fmt.Fprintf(d, "%x %s %d\n", g.digest, line.SHA256, len(cells))
	d.Write(p.cells)
	g.digest = d.Sum(nil)
	return nil
}

// Finish gives the file.
func (g *Gatherer) Finish(ctx context.Context) (*Gathering, error) {
	if err := g.flush(ctx); err != nil {
		return nil, err
	}
	of := g.of
	of.frame(g.sum)
	for i := range of.pieces {
		of.pieces[i].end += int64(len(of.start))
	}
	of.etag = fmt.Sprintf(`"%s-gathered1-%s"`, of.kind, hex.EncodeToString(g.digest[:min(16, len(g.digest))]))
	return of, nil
}

// frame puts what stands before and behind the pieces around them.
func (g *Gathering) frame(sum archive.Stretch) {
	g.sum = sum
	g.start, g.end = sum.Frame(g.kind)
	g.size = int64(len(g.start)) + sum.Size + int64(len(g.end))
}

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

// Gathered returns what gather puts together, or put together before at the same
// version of the catalog for the same key and scope.
func (l *Library) Gathered(ctx context.Context, a *Account, key string, gather func(context.Context) (*Gathering, error)) (*Gathering, error) {
	v, err := l.visit(ctx, a)
	if err != nil {
		return nil, err
	}
	v.snap.Release()
	key = fmt.Sprintf("gathered %d %q %s", v.snap.Version(), v.scope, key)
	return recall(ctx, l.cache, key, func(ctx context.Context) (*Gathering, int64, error) {
		g, err := gather(ctx)
		if err != nil {
			return nil, 0, err
		}
		return g, g.memory(), nil
	})
}
