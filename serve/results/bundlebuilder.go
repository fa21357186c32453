package results

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/serve/account"
	"sheaf/serve/library"
	"sheaf/serve/records"
)

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
