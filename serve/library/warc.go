package library

import (
	"context"
	"errors"
	"fmt"
	"io"

	"sheaf/archive"
	"sheaf/archive/catalog"
	"sheaf/internal/cache"
)

// writeCDXJ writes the sorted CDXJ index of the archive's .warc.gz. Each line's filename is the
// .warc.gz's path in the tree.
func (a Archive) writeCDXJ(ctx context.Context, w io.Writer) (err error) {
	name := a.host.Place + "/" + a.base + formWARC
	index := archive.NewCDXJ(name)
	defer func() { err = errors.Join(err, index.Close()) }()
	err = a.eachPart(ctx, func(p archive.Part, _ catalog.SegmentEntry) error { return index.Add(p) })
	if err == nil {
		err = index.Write(ctx, w)
	}
	if err != nil {
		return fmt.Errorf("index of %s: %w", name, err)
	}
	return nil
}

// warcLength returns the length of an index's records in a WARC view, in bytes.
func warcLength(x *archive.Index) int64 {
	n := int64(0)
	for i := range x.Cells {
		n += x.Cells[i].WARCLength()
	}
	return n
}

// WARCOffset says where a record lies in its edition's .warc.gz: the file's path in the tree,
// without the slash before it, and the offset in bytes. The record is the cell at cellOffset in the
// segment, and before is the length of the segment's records before it in a WARC view.
func (h Files) WARCOffset(ctx context.Context, seg catalog.SegmentEntry, cellOffset, before int64) (file string, offset int64, err error) {
	file = h.Place + "/" + seg.Edition + formWARC
	if h.Lacks() != "" {
		offset, err = h.Named(seg.Edition).offsetAmongLeft(ctx, seg, cellOffset)
		return file, offset, err
	}
	offset = archive.WARCStart() + before
	for i := range h.Segments { // a long list is not copied for each record
		s := &h.Segments[i]
		if s.Seq == seg.Seq {
			return file, offset, nil
		} else if s.Edition == seg.Edition {
			length, err := h.recordLength(ctx, *s)
			if err != nil {
				return "", 0, err
			}
			offset += length
		}
	}
	return "", 0, fmt.Errorf("%s: the edition lacks the segment %d", file, seg.Seq)
}

// recordLength returns the length of a segment's records in a WARC view, in bytes.
func (h Files) recordLength(ctx context.Context, seg catalog.SegmentEntry) (int64, error) {
	if known, ok := seg.Views[string(archive.WARC)]; ok {
		return known.Size - archive.WARCStart(), nil
	}
	index, err := h.from.Segments.Index(ctx, seg)
	if err != nil {
		return 0, err
	}
	return warcLength(index), nil
}

// offsetAmongLeft returns a record's offset in an archive without the records that are taken down
// or hidden.
func (a Archive) offsetAmongLeft(ctx context.Context, seg catalog.SegmentEntry, cellOffset int64) (int64, error) {
	type cell struct{ seq, offset int64 }
	offsets, err := cache.GetOrCompute(ctx, a.host.from.Memo, a.key("places"), func(ctx context.Context) (map[cell]int64, int64, error) {
		parts, segments, err := a.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		offsets := make(map[cell]int64)
		at := archive.WARCStart()
		for i, p := range parts {
			for n := range chosen(p) {
				of := &p.Index.Cells[n]
				offsets[cell{segments[i].Seq, of.Offset}] = at
				at += of.WARCLength()
			}
		}
		return offsets, int64(1+len(offsets)) * 64, nil
	})
	if err != nil {
		return 0, err
	}
	at, ok := offsets[cell{seg.Seq, cellOffset}]
	if !ok {
		return 0, ErrNotFound
	}
	return at, nil
}

// maxHashed is the size up to which the data of a WACZ is read for its digest, if the catalog does
// not know the digest. A larger file has none: its index and its records have digests of their own.
const maxHashed = 64 << 20

// wacz computes the archive's .wacz.
func (a Archive) wacz(ctx context.Context) (*archive.WACZ, error) {
	return cache.GetOrCompute(ctx, a.host.from.Memo, a.key("wacz", a.base), func(ctx context.Context) (*archive.WACZ, int64, error) {
		parts, _, err := a.parts(ctx)
		if err != nil {
			return nil, 0, err
		}
		sum, err := a.warcSum(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, err)
		}
		z, err := archive.NewWACZ(ctx, parts, archive.WACZOptions{
			Title: a.host.Name + " " + a.base, Created: a.published(), WARCSHA256: sum,
		})
		if err != nil {
			return nil, 0, fmt.Errorf("host %s: %w", a.host.Name, NoSpace(err))
		}
		return z, z.Held(), nil
	})
}

// warcSum returns the SHA-256 of the archive's WARC view. It is empty if it is not known and the
// view is large.
func (a Archive) warcSum(ctx context.Context) (string, error) {
	v, known, err := a.view(ctx, archive.WARC)
	if known || err != nil {
		return v.SHA256, err
	}
	view, err := a.assemble(ctx, archive.WARC)
	if err != nil || view.Size() > maxHashed {
		return "", err
	}
	return sha256Of(ctx, view)
}
