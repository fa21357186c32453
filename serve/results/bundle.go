package results

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/archive/store"
	"sheaf/internal/cache"
	"sheaf/serve/library"
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
