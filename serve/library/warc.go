package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

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
func (h *Host) WARCOffset(ctx context.Context, seg catalog.SegmentEntry, cellOffset, before int64) (file string, offset int64, err error) {
	file, offset = h.Place+"/"+seg.Edition+formWARC, archive.WARCStart()+before
	for i := range h.Segments { // a long list is not copied for each record
		s := &h.Segments[i]
		if s.Edition != seg.Edition {
			continue
		}
		out, err := h.leftOut(ctx, s)
		if err != nil {
			return "", 0, err
		}
		if s.Seq == seg.Seq {
			n, _ := slices.BinarySearchFunc(out, cellOffset, func(c leftOut, offset int64) int { return cmp.Compare(c.offset, offset) })
			return file, offset - lengthOf(out[:n]), nil
		}
		length, err := h.recordLength(ctx, *s)
		if err != nil {
			return "", 0, err
		}
		offset += length - lengthOf(out)
	}
	return "", 0, fmt.Errorf("%s: the edition lacks the segment %d", file, seg.Seq)
}

// leftOut is a record that is taken down or hidden: its cell's offset in its segment, and the
// length of all such records of the segment up to it in a WARC view.
type leftOut struct{ offset, end int64 }

func lengthOf(out []leftOut) int64 {
	if n := len(out); n > 0 {
		return out[n-1].end
	}
	return 0
}

// leftOut returns what a segment lacks, in its order.
func (h *Host) leftOut(ctx context.Context, seg *catalog.SegmentEntry) ([]leftOut, error) {
	if !h.MayLack(*seg) {
		return nil, nil
	}
	return cache.GetOrCompute(ctx, h.from.Memo, fmt.Sprint("left out ", seg.Seq, " ", seg.SHA256, h.Lacks()), func(ctx context.Context) (out []leftOut, cost int64, err error) {
		index, err := h.from.Segments.ReadIndex(ctx, *seg) // not cached: it would push out many such lists
		if err != nil {
			return nil, 0, err
		}
		for i := range index.Cells {
			if c := &index.Cells[i]; h.Gone(*seg, c.URL, c.Time) {
				out = append(out, leftOut{c.Offset, lengthOf(out) + c.WARCLength()})
			}
		}
		return out, int64(4+len(out)) * 16, nil
	})
}

// recordLength returns the length of a segment's records in a WARC view, in bytes.
func (h *Host) recordLength(ctx context.Context, seg catalog.SegmentEntry) (int64, error) {
	if known, ok := seg.Views[string(archive.WARC)]; ok {
		return known.Size - archive.WARCStart(), nil
	}
	index, err := h.from.Segments.Index(ctx, seg)
	if err != nil {
		return 0, err
	}
	return warcLength(index), nil
}

// maxHashed is the size up to which a WACZ's data is read for a digest that the catalog does not
// know. A larger WACZ gets no digest: its index and its records have digests of their own.
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
