package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
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
	line  catalog.SegmentEntry // as far as it is needed to find the bytes
	cells []byte               // numbers of cells, ascending: the differences, as varints
	end   int64                // where it ends in the file
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
	account *account.Account
	of      *Gathering
	sum     archive.Stretch
	lines   map[int64]catalog.SegmentEntry
	waiting map[int64][]int64 // offsets of cells, by their segment's number
	n       int
	digest  []byte
}

// Gather begins a file of a form: .tar.gz, .warc.gz or .members.tar.gz. It holds what the
// account may see at the version of the catalog that the records come from.
func (l *Library) Gather(a *account.Account, suffix string) (*Gatherer, error) {
	i := slices.IndexFunc(forms[:], func(f form) bool { return f.suffix == suffix })
	if i < 0 || !slices.Contains([]archive.ViewKind{archive.Members, archive.Single, archive.WARC}, forms[i].kind) {
		return nil, fmt.Errorf("gather: form %.20q: %w", suffix, ErrNotFound)
	}
	return &Gatherer{
		library: l, account: a,
		of:      &Gathering{kind: forms[i].kind, form: forms[i], taken: make(map[string]int), scope: strings.Join(a.Scope(), " ")},
		lines:   make(map[int64]catalog.SegmentEntry),
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
		g.lines[seq] = catalog.SegmentEntry{
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

func (g *Gatherer) segment(ctx context.Context, line catalog.SegmentEntry, offsets []int64) error {
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

// Gathered returns what gather puts together, or put together before at the same
// version of the catalog for the same key and scope.
func (l *Library) Gathered(ctx context.Context, a *account.Account, key string, gather func(context.Context) (*Gathering, error)) (*Gathering, error) {
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
