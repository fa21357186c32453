package results

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/cache"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

// Bundle is a finished bundle. It does not change.
type Bundle struct {
	bundleHead
	from   *library.Library
	form   library.Form
	pieces []piece
	start  []byte // before the pieces
	end    []byte // behind them
	size   int64
}

// bundleHead is what is stored of a bundle besides its pieces.
type bundleHead struct {
	Format  int             `json:"format"` // 1
	Form    string          `json:"form"`   // its suffix
	Sum     archive.Stretch `json:"sum"`
	ETag    string          `json:"etag"`
	Records int64           `json:"records"`
	Pieces  int             `json:"pieces"`          // their number
	Taken   map[string]int  `json:"taken,omitempty"` // number of take-downs, by host that has any
	Scope   string          `json:"scope"`           // of the account for which it was put together
	Version int64           `json:"version"`         // of the catalog from which it was put together
	At      time.Time       `json:"at"`              // when that version was published
}

// piece is what a bundle has of one segment.
type piece struct {
	Segment catalog.SegmentEntry `json:"line"`  // as far as it is needed to find the bytes
	Cells   []byte               `json:"cells"` // ascending numbers of cells: their differences, as uvarints
	End     int64                `json:"end"`   // where the piece ends in the file
}

// Records returns how many records the bundle has, with the pages that revisits refer to.
func (b *Bundle) Records() int64 { return b.bundleHead.Records }

// Size returns the file's length in bytes.
func (b *Bundle) Size() int64 { return b.size }

// memory returns about what the bundle takes in memory, in bytes.
func (b *Bundle) memory() int64 {
	n := int64(1024)
	for i := range b.pieces {
		n += int64(len(b.pieces[i].Cells)) + 400
	}
	return n
}

// frame puts start and end around the pieces.
func (b *Bundle) frame(sum archive.Stretch) {
	b.Sum = sum
	b.start, b.end = sum.Frame(b.form.Kind)
	b.size = int64(len(b.start)) + sum.Size + int64(len(b.end))
}

// check fails if anything of the bundle's hosts was taken down or restored since, or the account
// may not see all of the bundle.
func (b *Bundle) check(v *library.AccountView) error {
	if !v.Sees(b.Scope) {
		return library.ErrChanged
	}
	if v.Snap.Version() == b.Version {
		return nil
	}
	for i := range b.pieces {
		host := b.pieces[i].Segment.Host
		if len(v.Snap.Tombstones(host)) != b.Taken[host] {
			return fmt.Errorf("%s: %w", host, library.ErrChanged)
		}
	}
	return nil
}

func (b *Bundle) entry() *library.Entry {
	return &library.Entry{
		Node: library.Node{Size: b.size, ETag: b.ETag, Type: b.form.Type, Modified: library.Seconds(b.At)},
		Open: func(context.Context) (library.Ranges, error) { return b.ranges(), nil },
	}
}

// ranges returns the bundle's bytes. A segment is opened when its bytes are read.
func (b *Bundle) ranges() *library.Joined {
	_, local := store.AsLocal(b.from.Segments.Store)
	place := func(i int) int64 {
		switch {
		case i == 0:
			return int64(len(b.start))
		case i > len(b.pieces):
			return b.size
		}
		return b.pieces[i-1].End
	}
	return &library.Joined{Local: local, Parts: len(b.pieces) + 2, End: place, Open: func(ctx context.Context, i int, length int64) (library.Ranges, error) {
		switch {
		case i == 0:
			return library.Bytes(b.start), nil
		case i > len(b.pieces):
			return library.Bytes(b.end), nil
		}
		p := &b.pieces[i-1]
		view, err := cache.GetOrCompute(ctx, b.from.Memo, fmt.Sprintf("piece %d %s", i-1, b.ETag), func(ctx context.Context) (*archive.View, int64, error) {
			view, _, err := stretch(ctx, b.from.Segments, b.form.Kind, p.Segment, p.numbers())
			if err != nil {
				return nil, 0, err
			}
			return view, view.Held(), nil
		})
		if err == nil && view.Size() != length {
			err = fmt.Errorf("bundle: %s has %d bytes, not %d", p.Segment.Host, view.Size(), length)
		}
		return view, err
	}}
}

// stretch returns the bytes of a bundle's cells in one segment.
func stretch(ctx context.Context, segments *library.Segments, kind archive.ViewKind, seg catalog.SegmentEntry, cells []int) (*archive.View, archive.Stretch, error) {
	index, err := segments.Index(ctx, seg)
	if err != nil {
		return nil, archive.Stretch{}, err
	}
	return archive.NewStretch(kind, archive.Part{Source: segments.Source(seg), Index: index, Digest: seg.SHA256, Cells: cells})
}

// numbers decodes the numbers of the piece's cells, which ascend.
func (p *piece) numbers() []int {
	cells := make([]int, 0, len(p.Cells))
	at := 0
	for rest := p.Cells; len(rest) > 0; {
		step, n := binary.Uvarint(rest)
		if n <= 0 {
			return cells // does not happen: this program wrote them
		}
		at += int(step)
		cells, rest = append(cells, at), rest[n:]
	}
	return cells
}

// sortAtOnce is how many records are held, to be sorted by segment.
const sortAtOnce = 1 << 16

// Builder puts a Bundle together. Records may be added in any order. Of each sortAtOnce records
// that were added, those of one segment follow one another in the file. A Builder must not be used
// concurrently.
type Builder struct {
	bundle  *Bundle
	sum     archive.Stretch
	waiting map[int64]*waiting // by the segment's number
	n       int                // records waiting
	digest  []byte
}

// waiting are records of one segment that were added and are not in the bundle yet.
type waiting struct {
	segment catalog.SegmentEntry
	offsets []int64 // of their cells
}

// NewBundle begins a bundle for an account, in the form with a suffix: .tar.gz, .warc.gz or
// .members.tar.gz. It fails with library.ErrNotFound for another suffix.
func (x *Files) NewBundle(ctx context.Context, a *account.Account, suffix string) (*Builder, error) {
	form, ok := library.BundleForm(suffix)
	if !ok {
		return nil, fmt.Errorf("bundle: form %.20q: %w", suffix, library.ErrNotFound)
	}
	v, err := x.Archive.View(ctx, a)
	if err != nil {
		return nil, err
	}
	defer v.Release()
	return &Builder{
		bundle:  &Bundle{from: x.Archive, form: form, bundleHead: bundleHead{Taken: make(map[string]int), Scope: v.Sight()}},
		waiting: make(map[int64]*waiting),
	}, nil
}

// Add adds a record. The record may wait in memory until Finish.
func (b *Builder) Add(ctx context.Context, c *records.Capture) error {
	h := c.Host()
	if b.bundle.Version == 0 {
		b.bundle.Version, b.bundle.At = h.Version, h.Published
	}
	w := b.waiting[c.Segment.Seq]
	if w == nil {
		s := c.Segment
		w = &waiting{segment: catalog.SegmentEntry{
			Host: s.Host, Edition: s.Edition, Seq: s.Seq, Object: s.Object, Offset: s.Offset, Length: s.Length,
			IndexOffset: s.IndexOffset, IndexLength: s.IndexLength, SHA256: s.SHA256,
		}}
		b.waiting[s.Seq] = w
		if h.Tombstones > 0 {
			b.bundle.Taken[s.Host] = h.Tombstones
		}
	}
	w.offsets = append(w.offsets, c.Offset)
	if b.n++; b.n >= sortAtOnce {
		return b.flush(ctx)
	}
	return nil
}

// Size returns the length of the pieces so far, in bytes, without the records that are waiting.
func (b *Builder) Size() int64 { return b.sum.Size }

// flush adds the waiting records, segment by segment in the order of publication.
func (b *Builder) flush(ctx context.Context) error {
	for _, seq := range slices.Sorted(maps.Keys(b.waiting)) {
		if err := b.addPiece(ctx, b.waiting[seq]); err != nil {
			return err
		}
	}
	clear(b.waiting)
	b.n = 0
	return nil
}

func (b *Builder) addPiece(ctx context.Context, w *waiting) error {
	index, err := b.bundle.from.Segments.Index(ctx, w.segment)
	if err != nil {
		return err
	}
	slices.Sort(w.offsets)
	p := piece{Segment: w.segment}
	var cells []int
	last := 0
	for _, offset := range slices.Compact(w.offsets) {
		n, ok := slices.BinarySearchFunc(index.Cells, offset, func(c archive.Cell, offset int64) int { return cmp.Compare(c.Offset, offset) })
		if !ok {
			return fmt.Errorf("bundle: %s has no cell at %d", w.segment.Host, offset)
		}
		p.Cells = binary.AppendUvarint(p.Cells, uint64(n-last))
		cells, last = append(cells, n), n
	}
	_, sum, err := stretch(ctx, b.bundle.from.Segments, b.bundle.form.Kind, w.segment, cells)
	if err != nil {
		return err
	}
	b.sum = b.sum.Join(sum)
	p.End = b.sum.Size
	b.bundle.bundleHead.Records += int64(len(cells))
	b.bundle.pieces = append(b.bundle.pieces, p)
	d := sha256.New()
	fmt.Fprintf(d, "%x %s %d\n", b.digest, w.segment.SHA256, len(cells))
	d.Write(p.Cells)
	b.digest = d.Sum(nil)
	return nil
}

// Finish returns the bundle. The builder must not be used afterwards.
func (b *Builder) Finish(ctx context.Context) (*Bundle, error) {
	if err := b.flush(ctx); err != nil {
		return nil, err
	}
	of := b.bundle
	of.frame(b.sum)
	for i := range of.pieces {
		of.pieces[i].End += int64(len(of.start))
	}
	of.ETag = fmt.Sprintf(`"%s-gathered1-%s"`, of.form.Kind, hex.EncodeToString(b.digest[:min(16, len(b.digest))]))
	return of, nil
}

// Save writes the bundle for loadBundle, one JSON object a line: what is known of the whole, then
// its pieces.
func (b *Bundle) Save(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	head := b.bundleHead
	head.Format, head.Form, head.Pieces = 1, b.form.Suffix, len(b.pieces)
	if err := enc.Encode(head); err != nil {
		return err
	}
	for i := range b.pieces {
		if err := enc.Encode(&b.pieces[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// loadBundle reads a bundle of an archive that Save has written.
func loadBundle(r io.Reader, from *library.Library) (*Bundle, error) {
	dec := json.NewDecoder(bufio.NewReader(r))
	b := &Bundle{from: from}
	if err := dec.Decode(&b.bundleHead); err != nil {
		return nil, fmt.Errorf("stored bundle: %w", err)
	}
	form, ok := library.BundleForm(b.Form)
	if b.Format != 1 || !ok || strings.Count(b.ETag, `"`) != 2 {
		return nil, errors.New("stored bundle: its first line is not one that this program wrote")
	}
	b.form = form
	b.frame(b.Sum)
	for range b.Pieces {
		var p piece
		if err := dec.Decode(&p); err != nil {
			return nil, fmt.Errorf("stored bundle: %w", err)
		}
		b.pieces = append(b.pieces, p)
	}
	return b, nil
}
